//! How far a float result may be from the exact one: counted roundings, not chosen tolerances.
//!
//! Source: N. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.1.

/// Half the distance from 1 to the next f32: what one rounding can change, relative.
pub const F32_ROUNDOFF: f64 = 1.0 / 16_777_216.0;
/// The same for f16.
pub const F16_ROUNDOFF: f64 = 1.0 / 2048.0;

/// γₙ = n·u / (1 − n·u): the relative change that `n` roundings with unit roundoff `u` can add up to.
pub fn gamma(roundings: u32, roundoff: f64) -> f64 {
    let nu = f64::from(roundings) * roundoff;
    nu / (1.0 - nu)
}
