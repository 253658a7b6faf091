//! Rotation of pairs.

use super::Bounded;
use crate::conformance::{F32_ROUNDOFF, gamma};

/// Rows of `x` rotated by `angles` `[n_ctx, n_rot / 2]` of (cos, sin) at `positions`; `widths` are a row's elements,
/// a head's, and those of a head that rotate.
pub fn rope(
    x: &[f32],
    angles: &[f32],
    positions: &[u32],
    (n, head_dim, n_rot): (usize, usize, usize),
    halves: bool,
) -> Bounded {
    let mut values: Vec<f64> = x.iter().map(|v| f64::from(*v)).collect();
    let mut bounds = vec![0.0; x.len()];
    for (row, position) in positions.iter().enumerate() {
        for head in (row * n..(row + 1) * n).step_by(head_dim) {
            for j in 0..n_rot / 2 {
                let at = *position as usize * n_rot + 2 * j;
                let (cos, sin) = (f64::from(angles[at]), f64::from(angles[at + 1]));
                let (a, b) =
                    if halves { (head + j, head + j + n_rot / 2) } else { (head + 2 * j, head + 2 * j + 1) };
                let (xa, xb) = (f64::from(x[a]), f64::from(x[b]));
                (values[a], values[b]) = (xa * cos - xb * sin, xa * sin + xb * cos);
                let rounded = |p: f64, q: f64| (p.abs() + q.abs()) * gamma(2, F32_ROUNDOFF);
                (bounds[a], bounds[b]) = (rounded(xa * cos, xb * sin), rounded(xa * sin, xb * cos));
            }
        }
    }
    Bounded { values, bounds }
}
