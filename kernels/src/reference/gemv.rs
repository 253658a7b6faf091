//! y = x · Wᵀ, from dequantized rows, and the gated product of two of them.

use super::Bounded;
use crate::conformance::{F32_ROUNDOFF, gamma};

/// Which rows of W and x make an output.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// Rows of W of an expert.
    pub m: u32,
    /// Columns of W.
    pub k: u32,
    /// Rows of y that share a row of x.
    pub sharing: u32,
    /// The expert of each row of y.
    pub ids: &'a [u32],
}

/// The rows of y: x, or the experts' rows that it names, times the transpose of `w` `[experts, m, k]`.
///
/// `offsets` is the part of each weight that a kernel multiplies apart from the rest; `roundings` the number of
/// roundings on the kernel's longest path from a product to the sum.
pub fn gemv(w: &[f32], offsets: &[f32], x: &[f32], rows: Rows<'_>, roundings: u32) -> Bounded {
    let Rows { m, k, sharing, ids } = rows;
    let mut out = Bounded::default();
    for (r, expert) in ids.iter().enumerate() {
        let x = x.chunks_exact(k as usize).nth(r / sharing as usize).unwrap_or_default();
        for i in 0..m {
            let at = ((expert * m + i) * k) as usize;
            let (mut sum, mut size, mut sum_x) = (0.0, 0.0, 0.0);
            for ((w, offset), x) in w[at..].iter().zip(&offsets[at..]).zip(x) {
                let (w, offset, x) = (f64::from(*w), f64::from(*offset), f64::from(*x));
                sum += w * x;
                sum_x += x.abs();
                size += ((w - offset).abs() + offset.abs()) * x.abs();
            }
            out.values.push(sum);
            // A scale below the normal numbers may count as zero, with up to 127 of it in each weight; so may a sum.
            let tiny = f64::from(f32::MIN_POSITIVE) * (127.0 * sum_x + f64::from(k));
            out.bounds.push(size * gamma(roundings, F32_ROUNDOFF) + tiny);
        }
    }
    out
}

/// `act(gate) · up`, act silu or the tanh form of gelu, whose slopes stay below 1.13.
pub fn gated(gate: &Bounded, up: &Bounded, gelu: bool) -> Bounded {
    let mut out = Bounded::default();
    for i in 0..gate.values.len() {
        let (x, dx, u, du) = (gate.values[i], gate.bounds[i], up.values[i], up.bounds[i]);
        let z =
            if gelu { 2.0 * (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3)) } else { x };
        let act = x / (1.0 + (-z).exp());
        // The exponent's rounding grows with its size; where it overflows the product is zero either way.
        let own = gamma(16 + 8 * z.abs().min(128.0).ceil() as u32, F32_ROUNDOFF) * act.abs();
        out.values.push(act * u);
        out.bounds.push(
            (1.13 * dx + own) * (u.abs() + du)
                + act.abs() * du
                + f64::from(f32::MIN_POSITIVE) * (1.0 + u.abs()),
        );
    }
    out
}
