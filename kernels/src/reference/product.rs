//! y = x · Wᵀ of plain matrices.

use super::Bounded;
use crate::conformance::{F32_ROUNDOFF, gamma};

/// `x` `[n, k]` times the transpose of `w` `[m, k]`.
///
/// `roundings` is the number of roundings on the kernel's longest path from a product to the sum.
pub fn product(w: &[f32], x: &[f32], k: usize, roundings: u32) -> Bounded {
    let mut out = Bounded::default();
    for x in x.chunks_exact(k) {
        for w in w.chunks_exact(k) {
            let products = || w.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x));
            let size: f64 = products().map(f64::abs).sum();
            out.values.push(products().sum());
            out.bounds.push(size * gamma(roundings, F32_ROUNDOFF) + f64::from(f32::MIN_POSITIVE));
        }
    }
    out
}
