//! y = x · Wᵀ of plain matrices.

use super::Bounded;
use crate::conformance::{F16_ROUNDOFF, F32_ROUNDOFF, gamma};

/// The smallest f16.
const F16_SMALLEST: f64 = 1.0 / 16_777_216.0;

/// `x` `[n, k]` times the transpose of `w` `[m, k]`.
///
/// `roundings` is the number of roundings on the kernel's longest path from a product to the sum.
pub fn product(w: &[f32], x: &[f32], k: usize, roundings: u32) -> Bounded {
    product_of(w, x, k, roundings, false)
}

/// [`product`], each element of `w` rounded to f16 by the kernel.
pub fn product_of_halves(w: &[f32], x: &[f32], k: usize, roundings: u32) -> Bounded {
    product_of(w, x, k, roundings, true)
}

fn product_of(w: &[f32], x: &[f32], k: usize, roundings: u32, halves: bool) -> Bounded {
    let mut out = Bounded::default();
    for x in x.chunks_exact(k) {
        for w in w.chunks_exact(k) {
            let products = || w.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x));
            let size: f64 = products().map(f64::abs).sum();
            out.values.push(products().sum());
            let mut bound = size * gamma(roundings, F32_ROUNDOFF) + f64::from(f32::MIN_POSITIVE);
            if halves {
                let sum: f64 = x.iter().map(|x| f64::from(x.abs())).sum();
                bound += size * F16_ROUNDOFF + sum * F16_SMALLEST;
            }
            out.bounds.push(bound);
        }
    }
    out
}
