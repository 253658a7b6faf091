//! Causal attention of rows to their sequences.

use super::Bounded;
use crate::{
    conformance::{F32_ROUNDOFF, gamma},
    step::StepRow,
};

/// Heads and what a row sees.
#[derive(Clone, Copy, Debug)]
pub struct AttentionShape {
    /// Query heads.
    pub n_head: usize,
    /// Heads of keys and values.
    pub n_head_kv: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Positions that a row sees, itself included; none for all.
    pub window: Option<usize>,
    /// Scores are multiplied by this.
    pub scale: f32,
    /// Scores are squeezed into ± this.
    pub soft_cap: Option<f32>,
    /// Query, keys, values and result pass through an orthogonal mix of runs of 32 elements on their way.
    pub mixed: bool,
}

/// Elements that are mixed with each other.
const RUN: usize = 32;

/// The size of the terms of `a · b`: their absolute sum, or what bounds it in whatever basis.
fn terms_size(a: &[f32], b: &[f32], mixed: bool) -> f64 {
    let product = |(a, b): (&f32, &f32)| f64::from(*a) * f64::from(*b);
    if mixed {
        let norm = |x: &[f32]| x.iter().zip(x).map(product).sum::<f64>().sqrt();
        a.chunks(RUN).zip(b.chunks(RUN)).map(|(a, b)| norm(a) * norm(b)).sum()
    } else {
        a.iter().zip(b).map(|pair| product(pair).abs()).sum()
    }
}

/// `q` `[rows, n_head, head_dim]` attends to the keys and values of its rows' slots; `line(slot, position, head)` says
/// which line of `head_dim` elements holds a key and its value, as they come out of their pages.
pub fn attention(
    q: &[f32],
    (k, v): (&[f32], &[f32]),
    rows: &[StepRow],
    shape: AttentionShape,
    line: impl Fn(u32, usize, usize) -> usize,
) -> Bounded {
    let AttentionShape { n_head, n_head_kv, head_dim, window, scale, soft_cap, mixed } = shape;
    // Five sums and a product in a mix; an element's error counts against up to √32 times its share of a run's norm.
    let (mix_error, spread_by) =
        if mixed { ((RUN as f64).sqrt() * gamma(6, F32_ROUNDOFF), (RUN as f64).sqrt()) } else { (0.0, 1.0) };
    let mut out = Bounded::default();
    for (q, row) in q.chunks_exact(n_head * head_dim).zip(rows) {
        let position = row.position as usize;
        let seen = window.map_or(0, |w| (position + 1).saturating_sub(w))..position + 1;
        for (h, q) in q.chunks_exact(head_dim).enumerate() {
            let at = |i| line(row.slot, i, h / (n_head / n_head_kv)) * head_dim;
            let products = |i| {
                let key = &k[at(i)..at(i) + head_dim];
                q.iter().zip(key).map(|(q, k)| f64::from(*q) * f64::from(*k) * f64::from(scale))
            };
            let cap = |s: f64| soft_cap.map_or(s, |c| f64::from(c) * (s / f64::from(c)).tanh());
            let scores: Vec<f64> = seen.clone().map(|i| cap(products(i).sum())).collect();
            let highest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|s| (s - highest).exp()).collect();
            let total: f64 = weights.iter().sum();
            // A score is off by its chain of roundings over the size of its terms, absolutely; a weight by that
            // relatively, and by exp's own 3 + 2|x| ulp; a difference of scores has both errors.
            let size = |i| terms_size(q, &k[at(i)..at(i) + head_dim], mixed) * f64::from(scale.abs());
            let score_size = seen.clone().map(size).fold(0.0, f64::max);
            let spread = scores.iter().map(|s| highest - s).fold(0.0, f64::max);
            // The slope of tanh is at most 1. As 1 − 2 / (1 + e^2x) it is off by at most 8 roundings of the exponential
            // (|x| / cosh²x is small where e^2x has many), 11 of the sum and quotient and one of the difference.
            let cap_error = soft_cap.map_or(0.0, |c| 2.0 * f64::from(c) * gamma(20, F32_ROUNDOFF));
            let score_error =
                2.0 * score_size * (gamma(head_dim as u32 + 3, F32_ROUNDOFF) + mix_error) + cap_error;
            let exp_error = gamma((2.0 * (3.0 + 2.0 * spread)).ceil() as u32 + 2, F32_ROUNDOFF);
            let weight_error = score_error + exp_error;
            let sum_error = gamma(seen.len() as u32 + 12, F32_ROUNDOFF);
            for d in 0..head_dim {
                let terms = seen.clone().zip(&weights).map(|(i, w)| w * f64::from(v[at(i) + d]) / total);
                let size: f64 = if mixed {
                    let run = |i: usize| &v[at(i) + d / RUN * RUN..][..RUN];
                    let norm = |i: usize| run(i).iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
                    seen.clone().zip(&weights).map(|(i, w)| w * norm(i) / total).sum()
                } else {
                    terms.clone().map(f64::abs).sum()
                };
                out.values.push(terms.sum());
                let relative = 2.0 * (weight_error + sum_error) * spread_by + mix_error;
                out.bounds.push(size * relative + f64::from(f32::MIN_POSITIVE));
            }
        }
    }
    out
}
