//! What tests of compiled kernels share: the outside validator, the recorded lists, and small kernels written by hand.
//!
//! A golden says what was emitted, never that it is right; the validator and the conformance suite say that.
//! `KILN_UPDATE_GOLDENS=1` rewrites the recorded lists, `INSTA_UPDATE=always` the snapshots.
#![forbid(unsafe_code)]

pub mod budget;
pub mod costs;
pub mod diff;
pub mod fixtures;
pub mod issue;
pub mod kernels;
pub mod record;
pub mod report;
pub mod sketch;
mod spirv_val;

pub use spirv_val::{SpirvValError, spirv_val};
