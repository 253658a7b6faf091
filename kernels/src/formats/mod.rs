//! Tensor formats: one file each. Nothing else in the project names or matches on one.

mod bf16;
mod f16;
mod f32;
mod q4_0;
mod q4_1;
mod q6_k;
mod q8_0;

use kiln_abi::BlockGeometry;
use kiln_dsl::prelude::*;

pub use self::{bf16::Bf16, f16::F16, f32::F32, q4_0::Q4_0, q4_1::Q4_1, q6_k::Q6K, q8_0::Q8_0};

/// A tensor format: what the host has to know of it, on top of how kernels decode it.
pub trait Format: QuantFormat {
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

/// Element `at` of a block: `scale · q + offset`, rounded once.
#[device]
fn packed_element<F: PackedFormat, R: Rail>(b: &BlockRef<F::Block, R>, at: u32) -> f32 {
    let word = F::lanes(&b, at & !3) >> ((at & 3) * 8);
    let q = (word << 24) as i32 >> 24;
    let (scale, offset) = F::scale_offset(&b, at / F::GROUP);
    fma(q as f32, scale, offset)
}

/// Elements `at` to `at + 3` of a block, as [`packed_element`] gives them.
#[device]
fn packed_four<F: PackedFormat, R: Rail>(b: &BlockRef<F::Block, R>, at: u32) -> Vec4<f32> {
    let word = F::lanes(&b, at);
    let (scale, offset) = F::scale_offset(&b, at / F::GROUP);
    let q0 = (word << 24) as i32 >> 24;
    let q1 = (word << 16) as i32 >> 24;
    let q2 = (word << 8) as i32 >> 24;
    let q3 = word as i32 >> 24;
    vec4(
        fma(q0 as f32, scale, offset),
        fma(q1 as f32, scale, offset),
        fma(q2 as f32, scale, offset),
        fma(q3 as f32, scale, offset),
    )
}
