//! What rounding to f16 adds to the error of attention.

use super::AttentionShape;
use crate::{conformance::F16_ROUNDOFF, step::StepRow};

/// Half the smallest f16.
const SMALLEST: f64 = 1.0 / 33_554_432.0;

/// How much further off each element of [`super::attention`] may be where weights are rounded to f16, and the scaled
/// queries too if `queries` says so.
pub fn attention_of_halves(
    q: &[f32],
    (k, v): (&[f32], &[f32]),
    rows: &[StepRow],
    shape: AttentionShape,
    line: impl Fn(u32, usize, usize) -> usize,
    queries: bool,
) -> Vec<f64> {
    let AttentionShape { n_head, n_head_kv, head_dim, window, scale, soft_cap, .. } = shape;
    let mut more = Vec::with_capacity(q.len());
    for (q, row) in q.chunks_exact(n_head * head_dim).zip(rows) {
        let position = row.position as usize;
        let seen = window.map_or(0, |w| (position + 1).saturating_sub(w))..position + 1;
        for (h, q) in q.chunks_exact(head_dim).enumerate() {
            let at = |i| line(row.slot, i, h / (n_head / n_head_kv)) * head_dim;
            let terms =
                |i| q.iter().zip(&k[at(i)..]).map(|(q, k)| f64::from(*q) * f64::from(*k) * f64::from(scale));
            let cap = |s: f64| soft_cap.map_or(s, |c| f64::from(c) * (s / f64::from(c)).tanh());
            let scores: Vec<f64> = seen.clone().map(|i| cap(terms(i).sum())).collect();
            let highest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|s| (s - highest).exp()).collect();
            let total: f64 = weights.iter().sum();
            // A query is off relatively, or by half the smallest f16; a score by as much for each key.
            let key_size = |i| k[at(i)..at(i) + head_dim].iter().map(|k| f64::from(k.abs())).sum::<f64>();
            let of_query = |i| terms(i).map(f64::abs).sum::<f64>() * F16_ROUNDOFF + key_size(i) * SMALLEST;
            let of_scores = if queries { seen.clone().map(of_query).fold(0.0, f64::max) } else { 0.0 };
            // Weights and their total both have the scores' error; the total is of weights before they are rounded.
            let relative = (2.0 * of_scores).exp_m1() + F16_ROUNDOFF * (1.0 + 2.0 * of_scores);
            for d in 0..head_dim {
                let value = |i: usize| f64::from(v[at(i) + d].abs());
                let size: f64 = seen.clone().zip(&weights).map(|(i, w)| w * value(i) / total).sum();
                // A weight is rounded before what is the highest later makes it fade, so by as much at most.
                let least: f64 = seen.clone().map(|i| value(i) * SMALLEST / total).sum();
                more.push(size * relative + least);
            }
        }
    }
    more
}
