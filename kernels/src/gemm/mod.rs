//! Products of many rows: `y[n, m] = x[n, k] · W[m, k]ᵀ` on cooperative matrices.
//!
//! An arm is a file with its kernel, and shapes in `choice.rs`. Experts' rows keep their gemv so far.

mod choice;
pub mod cm2;
pub mod decoded;
pub mod khr;
mod khr_f16;
mod khr_s8;
mod shape;
mod sums;

pub use choice::{Choice, choose, plain_shape};
pub use decoded::{GemmDecodedPush, GemmOperands, table_bytes};
pub use khr::multiply;
pub use khr_f16::GemmF16;
pub(crate) use khr_f16::halves;
pub use khr_s8::GemmS8;
pub use shape::{KhrShape, Schedule, Slab, Strips};
pub use sums::store_sums;

use crate::{Call, Variant};

/// A launch in a shape.
pub type Launch = fn(GemmOperands, GemmDecodedPush, KhrShape) -> Call;

/// Every variant that is of no format.
pub fn variants() -> Vec<Variant> {
    [khr_f16::variants(), khr_s8::variants()].concat()
}
