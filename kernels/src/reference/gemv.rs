//! y = W · x, from dequantized rows.

use super::Bounded;
use crate::conformance::{F32_ROUNDOFF, gamma};

/// `w` `[m, k]` times `x` `[k]`.
///
/// `roundings` is the number of roundings on the kernel's longest path from a product to the sum; `terms` gives, per
/// weight, the sum of the magnitudes of the terms it is decoded from (|scale·q| + |min|): what cancels in the weight
/// does not cancel in the error.
pub fn gemv(w: &[f32], terms: &[f32], x: &[f32], roundings: u32) -> Bounded {
    let mut out = Bounded::default();
    for (row, terms) in w.chunks_exact(x.len()).zip(terms.chunks_exact(x.len())) {
        let dot = |row: &[f32]| row.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum::<f64>();
        let size: f64 = terms.iter().zip(x).map(|(t, x)| f64::from(*t).abs() * f64::from(x.abs())).sum();
        out.values.push(dot(row));
        out.bounds.push(size * gamma(roundings, F32_ROUNDOFF) + f64::from(f32::MIN_POSITIVE));
    }
    out
}
