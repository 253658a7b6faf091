//! Plain-Rust references in f64, written apart from the kernels.
//!
//! Each returns the exact result (up to f64) and, per output, the bound that the kernel's counted f32 roundings
//! explain.

mod add;
mod gemv;
mod rms_norm;

use crate::conformance::Expected;

pub use add::add;
pub use gemv::gemv;
pub use rms_norm::rms_norm;

/// Values and, for each, the largest difference that roundings explain.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bounded {
    /// The exact results.
    pub values: Vec<f64>,
    /// The bounds.
    pub bounds: Vec<f64>,
}

impl Bounded {
    /// As what output `binding` of a case must hold.
    pub fn at(self, binding: usize) -> Expected {
        Expected { binding, values: self.values, bounds: self.bounds }
    }
}
