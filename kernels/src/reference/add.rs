//! y = a + b.

use super::Bounded;
use crate::conformance::{F32_ROUNDOFF, gamma};

/// The sum of `a` and `b`, element by element, one rounding each.
pub fn add(a: &[f32], b: &[f32]) -> Bounded {
    let values: Vec<f64> = a.iter().zip(b).map(|(a, b)| f64::from(*a) + f64::from(*b)).collect();
    let bounds = values.iter().map(|v| v.abs() * gamma(1, F32_ROUNDOFF)).collect();
    Bounded { values, bounds }
}
