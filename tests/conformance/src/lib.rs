//! Every kernel variant of a registry against its plain-Rust reference, on any device.
//!
//! A crate that registers formats or kernels of its own calls [`run`] and gets the whole suite.
#![forbid(unsafe_code)]

pub mod cover;
pub mod language;
mod record;
mod run;
pub mod shifted;
mod summary;

/// The guide's examples, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/kernels.md")]
mod guide {}

pub use record::{note, sum_up};
pub use run::{assert_layouts, run, run_spread, run_those};
pub use summary::{Passed, Summary};
