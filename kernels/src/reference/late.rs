//! A norm in two halves: rows under their gain with the squares beside, and the scale that the squares give.

use super::Bounded;
use crate::conformance::{F32_ROUNDOFF, gamma};

/// Rows of `s` `[n_rows, n]` times `w` `[n]`, one rounding each.
pub fn scaled(s: &Bounded, w: &[f32]) -> Bounded {
    let mut out = Bounded::default();
    for ((value, bound), w) in s.values.iter().zip(&s.bounds).zip(w.iter().cycle()) {
        let w = f64::from(*w);
        out.values.push(value * w);
        out.bounds.push(bound * w.abs() + (value * w).abs() * gamma(1, F32_ROUNDOFF));
    }
    out
}

/// Sums of squares of runs of `n` values: a product and fewer than eight additions each.
pub fn squares(s: &Bounded, n: usize) -> Bounded {
    let mut out = Bounded::default();
    for (values, off) in s.values.chunks_exact(n).zip(s.bounds.chunks_exact(n)) {
        let sum: f64 = values.iter().map(|v| v * v).sum();
        let moved: f64 = values.iter().zip(off).map(|(v, off)| (2.0 * v.abs() + off) * off).sum();
        out.values.push(sum);
        out.bounds.push(moved + (sum + moved) * gamma(8, F32_ROUNDOFF) + f64::from(f32::MIN_POSITIVE));
    }
    out
}

/// Rows of `y` `[n_rows, m]` times the scale of a norm of rows of `n` elements, whose sums of squares are `squares`
/// `[n_rows, any]`.
pub fn late(mut y: Bounded, m: usize, squares: &[f32], n: usize, eps: f32) -> Bounded {
    let rows = y.values.len() / m.max(1);
    let each = squares.len() / rows.max(1);
    // All terms are positive, the root halves their error; then the division, the sum with eps, the root, a product.
    let depth = (each.div_ceil(32) + 2 + 5) as u32;
    let relative = gamma((depth + 1).div_ceil(2) + 1 + 1 + 4 + 1, F32_ROUNDOFF);
    for (row, squares) in squares.chunks_exact(each.max(1)).enumerate() {
        let sum: f64 = squares.iter().map(|x| f64::from(*x)).sum();
        let scale = 1.0 / (sum / n as f64 + f64::from(eps)).sqrt();
        for i in row * m..(row + 1) * m {
            y.values[i] *= scale;
            y.bounds[i] = y.bounds[i] * scale * (1.0 + relative) + y.values[i].abs() * relative;
        }
    }
    y
}
