//! The formulas of a transformer in plain f32, one function each.
//!
//! Activations are `[n_rows, width]`, row after row. Angles are computed in f64, all else in f32.

use super::threads::Threads;
use crate::graph::{Activation, Attention, Rope, RopePairs};

/// y = w · x / √(mean(x²) + eps), over each run of `w.len()` values.
pub fn rms_norm(x: &[f32], w: &[f32], eps: f32) -> Vec<f32> {
    let mut y = Vec::with_capacity(x.len());
    for run in x.chunks_exact(w.len()) {
        let mean_square = dot(run, run) / run.len() as f32;
        let scale = 1.0 / (mean_square + eps).sqrt();
        y.extend(run.iter().zip(w).map(|(x, w)| w * (x * scale)));
    }
    y
}

/// y = x · wᵀ + bias: `x` is `[n_rows, n_in]`, `w` is `[n_out, n_in]`, `y` is `[n_rows, n_out]`.
pub fn linear(x: &[f32], w: &[f32], bias: Option<&[f32]>, n_in: usize, threads: Threads) -> Vec<f32> {
    let (n_rows, n_out) = (x.len() / n_in, w.len() / n_in);
    // Computed as [n_out, n_rows], so that a thread reads each of its weights once, for all rows.
    let rows_of_w = n_out.div_ceil(8 * threads.count()).min(64);
    let mut transposed = vec![0.0; n_out * n_rows];
    threads.fill(&mut transposed, rows_of_w * n_rows, n_out * n_rows * n_in, |index, piece| {
        let w = w[index * rows_of_w * n_in..].chunks_exact(n_in);
        for (out, w) in piece.chunks_exact_mut(n_rows).zip(w) {
            let (fours, rest) = out.as_chunks_mut::<4>();
            let (x_fours, x_rest) = x.split_at(fours.len() * 4 * n_in);
            for (out, x) in fours.iter_mut().zip(x_fours.chunks_exact(4 * n_in)) {
                *out = dot_four(w, x);
            }
            for (out, x) in rest.iter_mut().zip(x_rest.chunks_exact(n_in)) {
                *out = dot(w, x);
            }
        }
    });
    if let Some(bias) = bias {
        for (out, bias) in transposed.chunks_exact_mut(n_rows).zip(bias) {
            out.iter_mut().for_each(|y| *y += bias);
        }
    }
    if n_rows == 1 { transposed } else { transpose(&transposed, n_rows) }
}

/// Rotates pairs (a, b) of each head to (a·cos − b·sin, a·sin + b·cos), angle = position · frequency of the pair.
pub fn rope(x: &mut [f32], width: usize, head_dim: usize, first: usize, rope: Rope, factors: Option<&[f32]>) {
    let frequencies = rope.frequencies(factors);
    let magnitude = rope.magnitude as f32;
    for (position, row) in (first..).zip(x.chunks_exact_mut(width)) {
        for (j, frequency) in frequencies.iter().enumerate() {
            let (sin, cos) = (position as f64 * frequency).sin_cos();
            let (sin, cos) = (sin as f32 * magnitude, cos as f32 * magnitude);
            let (at_a, at_b) = match rope.pairs {
                RopePairs::Adjacent => (2 * j, 2 * j + 1),
                RopePairs::Halves => (j, j + frequencies.len()),
            };
            for head in row.chunks_exact_mut(head_dim) {
                let (a, b) = (head[at_a], head[at_b]);
                head[at_a] = a * cos - b * sin;
                head[at_b] = a * sin + b * cos;
            }
        }
    }
}

/// For each row at position p and each query head: softmax over positions ≤ p of (q·k) · scale, capped where the
/// model says so, times v.
///
/// `q` is `[n_rows, n_head · head_dim]` and stands at positions `first..`; `k` and `v` are
/// `[first + n_rows, n_head_kv · head_dim]`.
pub fn attention(
    q: &[f32],
    k: &[f32],
    v: &[f32],
    first: usize,
    spec: Attention,
    threads: Threads,
) -> Vec<f32> {
    let Attention { n_head, n_head_kv, head_dim, scale, soft_cap: cap, window } = spec;
    let stride = n_head_kv * head_dim;
    let n_rows = q.len() / (n_head * head_dim);
    let work = 2 * q.len() * (first + n_rows);
    let mut y = vec![0.0; q.len()];
    threads.fill(&mut y, head_dim, work, |index, y| {
        let (row, head) = (index / n_head, index % n_head);
        let end = first + row + 1;
        let start = window.map_or(0, |window| end.saturating_sub(window));
        let at_head = |position: usize| position * stride + head / (n_head / n_head_kv) * head_dim;
        let q = &q[index * head_dim..][..head_dim];
        let score = |position: usize| scale * dot(q, &k[at_head(position)..][..head_dim]);
        let capped = |score: f32| cap.map_or(score, |cap| soft_cap(score, cap));
        let mut scores: Vec<f32> = (start..end).map(|position| capped(score(position))).collect();
        softmax(&mut scores);
        for (position, score) in (start..end).zip(scores) {
            for (y, v) in y.iter_mut().zip(&v[at_head(position)..][..head_dim]) {
                *y += score * v;
            }
        }
    });
    y
}

/// cap · tanh(x / cap).
pub fn soft_cap(x: f32, cap: f32) -> f32 {
    cap * (x / cap).tanh()
}

/// e^x / Σ e^x in place, shifted by the largest so that nothing overflows.
pub fn softmax(x: &mut [f32]) {
    let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    x.iter_mut().for_each(|x| *x = (*x - max).exp());
    let sum: f32 = x.iter().sum();
    x.iter_mut().for_each(|x| *x /= sum);
}

/// activation(gate) · up.
pub fn glu(gate: &[f32], up: &[f32], activation: Activation) -> Vec<f32> {
    let activate = match activation {
        Activation::Silu => silu,
        Activation::GeluTanh => gelu_tanh,
    };
    gate.iter().zip(up).map(|(&gate, up)| activate(gate) * up).collect()
}

/// x / (1 + e^−x).
pub fn silu(x: f32) -> f32 {
    x / (1.0 + (-x).exp())
}

/// ½ x (1 + tanh(√(2/π) (x + 0.044715 x³))).
pub fn gelu_tanh(x: f32) -> f32 {
    let inner = (2.0 / std::f32::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
    0.5 * x * (1.0 + inner.tanh())
}

/// Partial sums of a dot product, which a compiler keeps in vector registers.
const LANES: usize = 8;

/// Σ a·b.
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut sums = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        for i in 0..LANES {
            sums[i] += a[i] * b[i];
        }
    }
    add_up(sums, a_rest, b_rest)
}

/// The dot products of `a` with the four rows of `b`, each bit for bit that of [`dot`]; reads `a` once for all.
fn dot_four(a: &[f32], b: &[f32]) -> [f32; 4] {
    let n = a.len();
    let rows: [_; 4] = std::array::from_fn(|row| b[row * n..][..n].as_chunks::<LANES>());
    let (a, a_rest) = a.as_chunks::<LANES>();
    let mut sums = [[0.0; LANES]; 4];
    let [b0, b1, b2, b3] = rows.map(|(row, _)| &row[..a.len()]);
    for at in 0..a.len() {
        for i in 0..LANES {
            sums[0][i] += a[at][i] * b0[at][i];
            sums[1][i] += a[at][i] * b1[at][i];
            sums[2][i] += a[at][i] * b2[at][i];
            sums[3][i] += a[at][i] * b3[at][i];
        }
    }
    std::array::from_fn(|row| add_up(sums[row], a_rest, rows[row].1))
}

/// The partial sums and what is left of both rows.
fn add_up(sums: [f32; LANES], a_rest: &[f32], b_rest: &[f32]) -> f32 {
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    rest + sums.iter().sum::<f32>()
}

/// `[m, n]` as `[n, m]`.
fn transpose(x: &[f32], n: usize) -> Vec<f32> {
    let m = x.len() / n;
    let mut y = vec![0.0; x.len()];
    for (row, x) in x.chunks_exact(n).enumerate() {
        for (column, x) in x.iter().enumerate() {
            y[column * m + row] = *x;
        }
    }
    y
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::RopeScaling;

    fn close(a: &[f32], b: &[f32]) {
        assert_eq!(a.len(), b.len());
        for (a, b) in a.iter().zip(b) {
            assert!((a - b).abs() < 1e-5 * (1.0 + b.abs()), "{a} is not {b}");
        }
    }

    fn ramp(n: usize, step: f32) -> Vec<f32> {
        (0..n).map(|i| ((i * 37 % 23) as f32 - 11.0) * step).collect()
    }

    #[test]
    fn linear_equals_the_double_loop_on_any_number_of_threads() {
        for (n_rows, n_in, n_out) in [(1, 1, 1), (1, 33, 7), (5, 16, 129), (3, 600, 400)] {
            let (x, w, bias) = (ramp(n_rows * n_in, 0.1), ramp(n_out * n_in, 0.05), ramp(n_out, 1.0));
            let mut expected = Vec::new();
            for row in 0..n_rows {
                for out in 0..n_out {
                    let sum: f64 =
                        (0..n_in).map(|i| f64::from(x[row * n_in + i]) * f64::from(w[out * n_in + i])).sum();
                    expected.push(sum as f32 + bias[out]);
                }
            }
            for n in [1, 2, 5] {
                let y = linear(&x, &w, Some(&bias), n_in, Threads::new(n.try_into().ok()));
                for (y, expected) in y.iter().zip(&expected) {
                    assert!((y - expected).abs() < 1e-3, "{n_rows} {n_in} {n_out}: {y} is not {expected}");
                }
            }
        }
    }

    #[test]
    fn linear_rows_do_not_depend_on_their_company() {
        let (n_in, w) = (37, ramp(37 * 9, 0.07));
        let x = ramp(n_in * 7, 0.013);
        let together = linear(&x, &w, None, n_in, Threads::new(None));
        for (row, x) in x.chunks_exact(n_in).enumerate() {
            let alone = linear(x, &w, None, n_in, Threads::new(None));
            assert_eq!(alone, together[row * 9..][..9], "row {row}, bit for bit");
        }
    }

    #[test]
    fn rms_norm_has_unit_mean_square_per_run() {
        let x = ramp(12, 0.3);
        let y = rms_norm(&x, &[1.0; 4], 0.0);
        for run in y.chunks_exact(4) {
            close(&[dot(run, run) / 4.0], &[1.0]);
        }
        close(&rms_norm(&[3.0, 4.0], &[2.0, 0.5], 1.0), &[6.0 / 13.5f32.sqrt(), 2.0 / 13.5f32.sqrt()]);
    }

    #[test]
    fn rope_rotates_the_stated_pairs() {
        let spec = Rope {
            pairs: RopePairs::Adjacent,
            n_rot: 4,
            theta: 100.0,
            scaling: RopeScaling::Linear { factor: 2.0 },
            magnitude: 1.0,
            factors: None,
        };
        let (s0, c0) = 1.5f32.sin_cos(); // position 3 over 2, frequency 1
        let (s1, c1) = 0.15f32.sin_cos(); // frequency 100^(-1/2)
        let x = [1.0, 2.0, 3.0, 4.0, 5.0];
        let mut adjacent = x;
        rope(&mut adjacent, 5, 5, 3, spec, None);
        close(&adjacent, &[c0 - 2.0 * s0, s0 + 2.0 * c0, 3.0 * c1 - 4.0 * s1, 3.0 * s1 + 4.0 * c1, 5.0]);
        let mut halves = x;
        rope(&mut halves, 5, 5, 3, Rope { pairs: RopePairs::Halves, ..spec }, None);
        close(&halves, &[c0 - 3.0 * s0, 2.0 * c1 - 4.0 * s1, s0 + 3.0 * c0, 2.0 * s1 + 4.0 * c1, 5.0]);
        let mut slowed = x;
        rope(&mut slowed, 5, 5, 3, spec, Some(&[1.0, 0.1]));
        close(&slowed[2..4], &[3.0 * c0 - 4.0 * s0, 3.0 * s0 + 4.0 * c0]);
        let mut louder = x;
        rope(&mut louder, 5, 5, 3, Rope { magnitude: 2.0, ..spec }, None);
        close(&louder[..4], &[0, 1, 2, 3].map(|i| 2.0 * adjacent[i]));
        assert_eq!(louder[4], 5.0, "what does not rotate passes");
    }

    #[test]
    fn attention_is_causal_grouped_and_windowed() {
        // Scores of zero: the mean of the visible values. Two query heads share the one key head.
        let threads = Threads::new(None);
        let spec =
            Attention { n_head: 2, n_head_kv: 1, head_dim: 1, scale: 1.0, soft_cap: None, window: None };
        let (k, v) = ([0.0; 4], [1.0, 2.0, 6.0, 7.0]);
        close(&attention(&[1.0; 4], &k, &v, 2, spec, threads), &[3.0, 3.0, 4.0, 4.0]);
        let narrow = Attention { window: Some(2), ..spec };
        close(&attention(&[1.0; 4], &k, &v, 2, narrow, threads), &[4.0, 4.0, 6.5, 6.5]);
        // ln 3 apart: weights 1/4 and 3/4; the scale counts.
        let k = [0.0, 3.0f32.ln() / 2.0];
        let sharp = Attention { n_head: 1, scale: 2.0, ..spec };
        close(&attention(&[1.0], &k, &[4.0, 8.0], 1, sharp, threads), &[7.0]);
        // Capped at 0.1: weights e^0 and e^(0.1 tanh(10 ln 3)).
        let capped = Attention { soft_cap: Some(0.1), ..sharp };
        let high = (0.1 * (10.0 * 3.0f32.ln()).tanh()).exp();
        let mean = (4.0 + 8.0 * high) / (1.0 + high);
        close(&attention(&[1.0], &k, &[4.0, 8.0], 1, capped, threads), &[mean]);
    }

    #[test]
    fn activations_at_known_points() {
        close(&[silu(0.0), silu(1.0), silu(-2.0)], &[0.0, 0.731_058_6, -0.238_405_84]);
        close(&[gelu_tanh(0.0), gelu_tanh(1.0), gelu_tanh(-2.0)], &[0.0, 0.841_192, -0.045_402_3]);
        close(&glu(&[1.0], &[3.0], Activation::Silu), &[2.193_175_7]);
    }
}
