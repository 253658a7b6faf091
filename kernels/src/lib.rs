//! Formats, kernels and their registry.
#![forbid(unsafe_code)]

pub mod add;
pub mod conformance;
mod fold;
pub mod formats;
pub mod gemv;
pub mod reference;
pub mod registry;
pub mod rms_norm;
pub mod variant;

pub use formats::Format;
pub use registry::{DequantizeError, DuplicateFormat, FormatRow, Registry};
pub use variant::Variant;
