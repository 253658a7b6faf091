//! Formats, kernels and their registry.
#![forbid(unsafe_code)]

pub mod activations;
pub mod add;
pub mod add_bias;
pub mod advance;
pub mod arms;
pub mod attention;
pub mod attention_khr;
pub mod attention_tile;
mod call;
pub mod conformance;
pub mod decode_each;
mod fold;
pub mod formats;
pub mod fragment_order;
pub mod gather_rows;
pub mod gemm;
pub mod gemv;
pub mod get_rows;
pub mod glu;
mod hadamard;
pub mod half_rows;
pub mod heads;
pub mod kv_store;
pub mod kv_type;
pub mod late_norm;
pub mod norm;
pub mod offset_each;
pub mod read_all;
pub mod reference;
pub mod registry;
pub mod repack;
pub mod rms_norm;
pub mod rope;
pub mod sample;
pub mod scale;
pub mod soft_cap;
pub mod step;
pub mod variant;

pub use call::Call;
pub use formats::{Format, HostFormat, Quantize};
pub use kiln_dsl::disassemble;
pub use registry::{DequantizeError, DuplicateFormat, FormatRow, Registry};
pub use variant::{Variant, is_format, kernel_of};
