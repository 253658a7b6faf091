//! Formats, kernels and their registry.
#![forbid(unsafe_code)]

pub mod conformance;
pub mod formats;
pub mod reference;
pub mod registry;

pub use formats::Format;
pub use registry::{DequantizeError, DuplicateFormat, FormatRow, Registry};
