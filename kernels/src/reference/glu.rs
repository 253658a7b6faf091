//! y = act(gate) · up.

use super::Bounded;
use crate::conformance::{F32_ROUNDOFF, gamma};

/// silu or tanh-gelu of `gate`, times `up`.
///
/// The exponent z is off by a few roundings, which e^z turns into |z| as many; exp itself may be off by 3 + 2|z| ulp
/// (the Vulkan specification's precision table).
pub fn glu(gate: &[f32], up: &[f32], gelu: bool) -> Bounded {
    let mut out = Bounded::default();
    for (x, up) in gate.iter().zip(up).map(|(x, up)| (f64::from(*x), f64::from(*up))) {
        let z =
            if gelu { 2.0 * (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x) } else { x };
        let y = x / (1.0 + (-z).exp()) * up;
        let exp_roundings = 2.0 * (3.0 + 2.0 * z.abs()) + if gelu { 8.0 * z.abs() } else { 0.0 };
        // The sum, a division of 2.5 ulp, a product.
        let roundings = exp_roundings.ceil() as u32 + 1 + 5 + 1;
        out.values.push(y);
        // Where e^-z overflows, the result is 0 instead of x · up · e^z.
        let underflow = f64::from(f32::MIN_POSITIVE) * (1.0 + (x * up).abs());
        out.bounds.push(y.abs() * gamma(roundings, F32_ROUNDOFF) + underflow);
    }
    out
}
