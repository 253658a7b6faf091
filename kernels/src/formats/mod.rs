//! Tensor formats: one file each. Nothing else in the project names or matches on one.

mod bf16;
mod f16;
mod f32;
mod q4_0;
mod q4_1;
mod q6_k;
mod q8_0;

use kiln_abi::BlockGeometry;

pub use self::{bf16::Bf16, f16::F16, f32::F32, q4_0::Q4_0, q4_1::Q4_1, q6_k::Q6K, q8_0::Q8_0};

/// A tensor format, as the host reads it.
pub trait Format: 'static {
    /// ggml's type id, as GGUF files store it.
    const ID: u32;
    /// ggml's name.
    const NAME: &'static str;
    /// Elements and bytes of a block.
    const GEOMETRY: BlockGeometry;

    /// The values of one block: `block` has `GEOMETRY.bytes()` bytes, `out` room for `GEOMETRY.elements()` values.
    fn dequantize(block: &[u8], out: &mut [f32]);
}

/// The little-endian f16 at byte `at` of a block.
fn f16_at(block: &[u8], at: usize) -> f32 {
    half::f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}
