//! Causal attention of rows to their sequences.

use std::ops::Range;

use super::{Bounded, kv};
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

impl AttentionShape {
    /// Positions that a row sees.
    fn seen(&self, row: &StepRow) -> Range<usize> {
        let end = row.position as usize + 1;
        self.window.map_or(0, |w| end.saturating_sub(w))..end
    }

    /// What a mix of a run is off, relative, and how much of a run's error may be in one element.
    fn mixing(&self) -> (f64, f64) {
        let run = (RUN as f64).sqrt();
        // Five sums and a product in a mix; an element's error counts against up to √32 times its share of a run's norm.
        if self.mixed { (run * gamma(6, F32_ROUNDOFF), run) } else { (0.0, 1.0) }
    }
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

/// A head's weights of some positions, beside their highest score.
struct Weights {
    highest: f64,
    weights: Vec<f64>,
    total: f64,
    /// What a score may be off, and a weight relatively.
    score_error: f64,
    weight_error: f64,
    /// What a sum of so many terms may be off relatively.
    sum_error: f64,
}

impl Weights {
    fn of<'a>(q: &[f32], keys: impl Iterator<Item = &'a [f32]>, shape: AttentionShape) -> Self {
        let AttentionShape { scale, soft_cap, mixed, .. } = shape;
        let (mix_error, _) = shape.mixing();
        let cap = |s: f64| soft_cap.map_or(s, |c| f64::from(c) * (s / f64::from(c)).tanh());
        let product = |key: &[f32]| -> f64 {
            q.iter().zip(key).map(|(q, k)| f64::from(*q) * f64::from(*k) * f64::from(scale)).sum()
        };
        let size = |key: &[f32]| terms_size(q, key, mixed) * f64::from(scale.abs());
        let (scores, sizes): (Vec<f64>, Vec<f64>) = keys.map(|key| (cap(product(key)), size(key))).unzip();
        let highest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|s| (s - highest).exp()).collect();
        // A score is off by its chain of roundings over the size of its terms, absolutely; a weight by that
        // relatively, and by exp's own 3 + 2|x| ulp; a difference of scores has both errors.
        let score_size = sizes.iter().copied().fold(0.0, f64::max);
        let spread = scores.iter().map(|s| highest - s).fold(0.0, f64::max);
        // The slope of tanh is at most 1. As 1 − 2 / (1 + e^2x) it is off by at most 8 roundings of the exponential
        // (|x| / cosh²x is small where e^2x has many), 11 of the sum and quotient and one of the difference.
        let cap_error = soft_cap.map_or(0.0, |c| 2.0 * f64::from(c) * gamma(20, F32_ROUNDOFF));
        let score_error =
            2.0 * score_size * (gamma(q.len() as u32 + 3, F32_ROUNDOFF) + mix_error) + cap_error;
        let exp_error = gamma((2.0 * (3.0 + 2.0 * spread)).ceil() as u32 + 2, F32_ROUNDOFF);
        Weights {
            highest,
            total: weights.iter().sum(),
            score_error,
            weight_error: score_error + exp_error,
            sum_error: gamma(weights.len() as u32 + 12, F32_ROUNDOFF),
            weights,
        }
    }

    /// Element `d` of the sum of `values` under the weights, and its size.
    fn sum<'a>(&self, values: impl Iterator<Item = &'a [f32]>, d: usize, mixed: bool) -> (f64, f64) {
        let (mut sum, mut size) = (0.0, 0.0);
        for (value, w) in values.zip(&self.weights) {
            let term = w * f64::from(value[d]);
            let run = &value[d / RUN * RUN..value.len().min((d / RUN + 1) * RUN)];
            let norm = || run.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
            sum += term;
            size += if mixed { w * norm() } else { term.abs() };
        }
        (sum, size)
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
    let AttentionShape { n_head, n_head_kv, head_dim, mixed, .. } = shape;
    let (mix_error, spread_by) = shape.mixing();
    let mut out = Bounded::default();
    for (q, row) in q.chunks_exact(n_head * head_dim).zip(rows) {
        for (h, q) in q.chunks_exact(head_dim).enumerate() {
            let at = |i| line(row.slot, i, h / (n_head / n_head_kv)) * head_dim;
            let weights = Weights::of(q, shape.seen(row).map(|i| &k[at(i)..at(i) + head_dim]), shape);
            for d in 0..head_dim {
                let values = shape.seen(row).map(|i| &v[at(i)..at(i) + head_dim]);
                let (sum, size) = weights.sum(values, d, mixed);
                let relative = 2.0 * (weights.weight_error + weights.sum_error) * spread_by + mix_error;
                out.values.push(sum / weights.total);
                out.bounds.push(size / weights.total * relative + f64::from(f32::MIN_POSITIVE));
            }
        }
    }
    out
}

/// The same in parts of `keys` positions each, `[rows, n_parts, n_head]`, the first one a row's first: sums under the
/// weights, as they lie in the pages, and the highest score with the total of the weights. Parts that a row does not
/// have are `none`.
pub fn attention_parts(
    q: &[f32],
    (k, v): (&[f32], &[f32]),
    rows: &[StepRow],
    shape: AttentionShape,
    line: impl Fn(u32, usize, usize) -> usize,
    (keys, n_parts, none): (usize, usize, f32),
) -> [Bounded; 2] {
    let AttentionShape { n_head, n_head_kv, head_dim, mixed, .. } = shape;
    let (mix_error, spread_by) = shape.mixing();
    let (mut sums, mut marks) = (Bounded::default(), Bounded::default());
    let put = |to: &mut Bounded, value: f64, bound: f64| {
        to.values.push(value);
        to.bounds.push(bound);
    };
    for (q, row) in q.chunks_exact(n_head * head_dim).zip(rows) {
        let seen = shape.seen(row);
        for part in seen.start / keys..seen.start / keys + n_parts {
            let own = seen.start.max(part * keys)..seen.end.min((part + 1) * keys);
            for (h, q) in q.chunks_exact(head_dim).enumerate() {
                if own.is_empty() {
                    (0..head_dim).for_each(|_| put(&mut sums, none.into(), 0.0));
                    (0..2).for_each(|_| put(&mut marks, none.into(), 0.0));
                    continue;
                }
                let at = |i| line(row.slot, i, h / (n_head / n_head_kv)) * head_dim;
                let weights = Weights::of(q, own.clone().map(|i| &k[at(i)..at(i) + head_dim]), shape);
                let relative = weights.weight_error + weights.sum_error;
                put(&mut marks, weights.highest, weights.score_error);
                put(&mut marks, weights.total, weights.total * relative);
                let values = || own.clone().map(|i| &v[at(i)..at(i) + head_dim]);
                let (own, sizes): (Vec<f64>, Vec<f64>) =
                    (0..head_dim).map(|d| weights.sum(values(), d, mixed)).unzip();
                let own = if mixed { kv::mixed(&own) } else { own };
                for (sum, size) in own.into_iter().zip(sizes) {
                    let bound = size * (relative * spread_by + mix_error);
                    put(&mut sums, sum, bound + f64::from(f32::MIN_POSITIVE));
                }
            }
        }
    }
    [sums, marks]
}

/// Parts `[rows, n_parts, n_head]`, sums and (highest score, total), of which each row has its first `parts[r]`, as one
/// result. A mixed result comes back from its mix.
pub fn joined_parts(
    (sums, marks): (&[f32], &[f32]),
    parts: &[usize],
    (n_parts, n_head, head_dim): (usize, usize, usize),
    mixed: bool,
) -> Bounded {
    let mut out = Bounded::default();
    for (r, h) in (0..parts.len()).flat_map(|r| (0..n_head).map(move |h| (r, h))) {
        let at = |part: usize| (r * n_parts + part) * n_head + h;
        let n = parts[r];
        let tops = (0..n).map(|part| f64::from(marks[2 * at(part)]));
        let highest = tops.clone().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = tops.map(|top| (top - highest).exp()).collect();
        let spread = weights.iter().map(|w| -w.ln()).fold(0.0, f64::max);
        let total: f64 = (0..n).map(|part| weights[part] * f64::from(marks[2 * at(part) + 1])).sum();
        // A weight is a product of one exponential for each part that raises the highest score, each off by 3 + 2|x|
        // ulp, and meets a product and a sum with each part after it; twice, within a page and between pages.
        let roundings = (2.0 * (3.0 * n as f64 + 2.0 * spread)).ceil() as u32 + 4 * n as u32 + 8;
        let relative = 2.0 * gamma(roundings, F32_ROUNDOFF);
        let term = |part: usize, d: usize| weights[part] * f64::from(sums[at(part) * head_dim + d]) / total;
        let values: Vec<f64> = (0..head_dim).map(|d| (0..n).map(|part| term(part, d)).sum()).collect();
        let sizes: Vec<f64> = (0..head_dim).map(|d| (0..n).map(|part| term(part, d).abs()).sum()).collect();
        if mixed {
            for (run, size) in kv::mixed(&values).chunks(RUN).zip(sizes.chunks(RUN)) {
                let norm = size.iter().map(|x| x * x).sum::<f64>().sqrt();
                let bound = norm * (relative + gamma(6, F32_ROUNDOFF)) + f64::from(f32::MIN_POSITIVE);
                out.values.extend(run);
                out.bounds.extend(run.iter().map(|_| bound));
            }
        } else {
            out.values.extend(values);
            out.bounds.extend(sizes.iter().map(|size| size * relative + f64::from(f32::MIN_POSITIVE)));
        }
    }
    out
}
