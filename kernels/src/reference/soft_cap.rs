//! y = cap · tanh(x / cap).

use super::Bounded;
use crate::conformance::{F32_ROUNDOFF, gamma};

/// `x` capped softly at `cap`.
///
/// With z = x / cap and q = 2 / (e^2z + 1), the result is cap · (1 − q). A relative change of e^2z changes q by
/// (1 − tanh² z) / 2 of it; the quotient z is off by 2.5 ulp and exp by 3 + 2|2z| ulp (the Vulkan specification's
/// precision table).
pub fn soft_cap(x: &[f32], cap: f32) -> Bounded {
    let cap = f64::from(cap);
    let mut out = Bounded::default();
    for x in x.iter().map(|x| f64::from(*x)) {
        let z = x / cap;
        let (tanh, q) = (z.tanh(), 2.0 / ((2.0 * z).exp() + 1.0));
        // Past this, e^2z is 0 or overflows, and q is 2 or 0 either way.
        let power = (2.0 * (3.0 + 4.0 * z.abs()) + 10.0 * z.abs()).min(4000.0).ceil() as u32;
        let through_power = (1.0 - tanh * tanh) / 2.0 * gamma(power, F32_ROUNDOFF);
        // The sum and the division; the difference and the product.
        let bound = through_power + q * gamma(6, F32_ROUNDOFF) + tanh.abs() * gamma(2, F32_ROUNDOFF);
        out.values.push(cap * tanh);
        out.bounds.push(cap * bound);
    }
    out
}
