//! y = w · x / √(mean(x²) + eps), row by row.

use super::Bounded;
use crate::conformance::{F32_ROUNDOFF, gamma};

/// Rows of `x` `[n_rows, n]`, normalized and scaled by `w` `[n]`.
///
/// `depth` is the number of additions on the kernel's longest path through the sum of squares.
pub fn rms_norm(x: &[f32], w: &[f32], eps: f32, depth: u32) -> Bounded {
    let n = w.len();
    // All terms of the sum are positive, so its relative error is γ(depth + 1); the root halves it. Then: the mean's
    // division, the sum with eps, the inverse root (2 ulp = 4 roundings), two products.
    let roundings = (depth + 1).div_ceil(2) + 1 + 1 + 4 + 2;
    let relative = gamma(roundings, F32_ROUNDOFF);
    let mut out = Bounded::default();
    for row in x.chunks_exact(n) {
        let squares: f64 = row.iter().map(|v| f64::from(*v) * f64::from(*v)).sum();
        let scale = 1.0 / (squares / n as f64 + f64::from(eps)).sqrt();
        for (x, w) in row.iter().zip(w) {
            let y = f64::from(*x) * scale * f64::from(*w);
            out.values.push(y);
            out.bounds.push(y.abs() * relative + f64::from(f32::MIN_POSITIVE));
        }
    }
    out
}
