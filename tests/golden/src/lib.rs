//! What tests of compiled kernels share: the outside validator and small kernels written by hand.
#![forbid(unsafe_code)]

pub mod fixtures;
pub mod sketch;
mod spirv_val;

pub use spirv_val::{SpirvValError, spirv_val};
