//! y = x · Wᵀ of plain matrices.

use half::f16;

use super::Bounded;
use crate::conformance::{F16_ROUNDOFF, F32_ROUNDOFF, gamma};

/// `x` `[n, k]` times the transpose of `w` `[m, k]`.
///
/// `roundings` is the number of roundings on the kernel's longest path from a product to the sum.
pub fn product(w: &[f32], x: &[f32], k: usize, roundings: u32) -> Bounded {
    let mut out = Bounded::default();
    for x in x.chunks_exact(k) {
        for w in w.chunks_exact(k) {
            let (mut sum, mut size) = (0.0, 0.0);
            for (w, x) in w.iter().zip(x) {
                let product = f64::from(*w) * f64::from(*x);
                sum += product;
                size += product.abs();
            }
            out.values.push(sum);
            out.bounds.push(size * gamma(roundings, F32_ROUNDOFF) + f64::from(f32::MIN_POSITIVE));
        }
    }
    out
}

/// The same where the kernel takes `w` as f16, rounded or cut off; what is smaller than the normal ones may be zero.
pub fn product_of_halves(w: &[f32], x: &[f32], k: usize, roundings: u32) -> Bounded {
    let mut out = product(w, x, k, roundings);
    let sizes = x.chunks_exact(k).flat_map(|x| w.chunks_exact(k).map(move |w| half_error(w, x)));
    out.bounds.iter_mut().zip(sizes).for_each(|(bound, size)| *bound += size);
    out
}

/// What a product of two rows is off, at most, when the weights are f16.
pub fn half_error(w: &[f32], x: &[f32]) -> f64 {
    let (smallest, mut sum) = (f64::from(f16::MIN_POSITIVE), 0.0);
    for (w, x) in w.iter().zip(x) {
        sum += f64::from(x.abs()) * (f64::from(w.abs()) * 2.0 * F16_ROUNDOFF).max(smallest);
    }
    sum
}
