//! Tensor formats: one file each. Nothing else in the project names or matches on one.

pub mod activations;
mod bf16;
mod codebook;
mod f16;
mod f32;
mod grids;
mod host;
mod iq1_m;
mod iq1_s;
mod iq2_s;
mod iq2_xs;
mod iq2_xxs;
mod iq3_s;
mod iq3_xxs;
mod iq4_nl;
mod iq4_xs;
mod k_scales;
mod mxfp4;
mod nvfp4;
mod q2_k;
mod q3_k;
mod q4_0;
mod q4_1;
mod q4_k;
mod q5_0;
mod q5_1;
mod q5_k;
mod q6_k;
mod q8_0;
mod tq1_0;
mod tq2_0;

use kiln_dsl::prelude::*;

use self::host::{f16_at, inverse, nibble_at, set_f16, u16_at, u32_at};
pub use self::{
    bf16::Bf16,
    f16::F16,
    f32::F32,
    host::{HostFormat, Quantize},
    iq1_m::Iq1M,
    iq1_s::Iq1S,
    iq2_s::Iq2S,
    iq2_xs::Iq2Xs,
    iq2_xxs::Iq2Xxs,
    iq3_s::Iq3S,
    iq3_xxs::Iq3Xxs,
    iq4_nl::Iq4Nl,
    iq4_xs::Iq4Xs,
    mxfp4::Mxfp4,
    nvfp4::Nvfp4,
    q2_k::Q2K,
    q3_k::Q3K,
    q4_0::Q4_0,
    q4_1::Q4_1,
    q4_k::Q4K,
    q5_0::Q5_0,
    q5_1::Q5_1,
    q5_k::Q5K,
    q6_k::Q6K,
    q8_0::Q8_0,
    tq1_0::Tq1_0,
    tq2_0::Tq2_0,
};

/// A format that the host and kernels decode.
pub trait Format: HostFormat + QuantFormat {}

impl<F: HostFormat + QuantFormat> Format for F {}

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
