//! Products of many rows: `y[n, m] = x[n, k] · W[m, k]ᵀ` on cooperative matrices.

pub mod cm2;
pub mod khr;
mod khr_f16;
mod khr_s8;
mod shape;

pub use khr_f16::GemmF16;
pub(crate) use khr_f16::halves;
pub use khr_s8::GemmS8;
pub use shape::KhrShape;

use crate::Variant;

/// Every variant that is of no format.
pub fn variants() -> Vec<Variant> {
    [khr_f16::variants(), khr_s8::variants()].concat()
}
