//! y = factor · x.

use super::Bounded;
use crate::conformance::{F32_ROUNDOFF, gamma};

/// `x` times `factor`, one rounding each.
pub fn scale(x: &[f32], factor: f32) -> Bounded {
    let values: Vec<f64> = x.iter().map(|x| f64::from(*x) * f64::from(factor)).collect();
    let bounds = values.iter().map(|y| y.abs() * gamma(1, F32_ROUNDOFF)).collect();
    Bounded { values, bounds }
}
