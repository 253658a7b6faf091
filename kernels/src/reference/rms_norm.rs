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

/// `normed`, the norms of rows that may be off by the bounds of `x`, which moves them too.
pub fn moved(mut normed: Bounded, x: &Bounded, w: &[f32], eps: f32) -> Bounded {
    let n = w.len();
    for (row, (values, off)) in x.values.chunks_exact(n).zip(x.bounds.chunks_exact(n)).enumerate() {
        let mean = values.iter().map(|v| v * v).sum::<f64>() / n as f64 + f64::from(eps);
        // Half the relative change of the mean square, an eighth more for what is not linear in it.
        let change =
            values.iter().zip(off).map(|(v, off)| v.abs() * off + off * off).sum::<f64>() / n as f64 / mean;
        for (i, off) in off.iter().enumerate() {
            let at = row * n + i;
            let own = off * f64::from(w[i]).abs() / mean.sqrt();
            normed.bounds[at] += own * (1.0 + change) + normed.values[at].abs() * change * 1.125;
        }
    }
    normed
}
