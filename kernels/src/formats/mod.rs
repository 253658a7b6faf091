//! Tensor formats: one file each. Nothing else in the project names or matches on one.

pub mod bf16;
mod codebook;
mod f16;
mod f32;
mod grids;
pub mod host;
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
pub mod layout;
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

use crate::gemv::Arms;

use self::host::{f16_at, inverse, nibble_at, set_f16, u16_at, u32_at};
use self::layout::Recoding;
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
pub trait Format: HostFormat + TensorFormat {
    /// How blocks are coded anew before their bits move, for a format whose own code would cost more than its bytes.
    const RECODING: Option<Recoding> = None;

    /// The bit of a block behind `bit` of a plane's field of the block's unit `unit`; none where the field is wider
    /// than what it holds. A field of the whole block has unit 0. Every bit of a block has one place.
    fn source(plane: usize, unit: usize, bit: usize) -> Option<usize>;

    /// How kernels multiply with it: `Arms::packed::<Self>()` for a packed format, else `Arms::plain::<Self>()`.
    fn arms() -> Arms;

    /// What element `i` of a block has beside `scale * q`: of a packed format the very offset that
    /// `PackedFormat::scale_offset` gives for its group, whatever scale and q are there. Bounds of its products are as wide
    /// as it says, so that the kernel `offset_each` holds one against the other. Without `PackedFormat` nobody asks for it.
    fn offset(block: &[u8], i: usize) -> f32 {
        let _ = (block, i);
        0.0
    }

    /// The words of the format's table, if it has that plane.
    fn table() -> Vec<u32> {
        Vec::new()
    }
}

/// The value of a half's sixteen bits.
#[device]
pub fn half_bits(bits: u32) -> f32 {
    unpack_half(bits).x()
}

/// `word` with bit `from` of each byte at bit `to`; a mask drops what comes from a neighbor.
#[device]
pub fn moved(word: u32, from: u32, to: u32) -> u32 {
    select(from > to, word >> ((from - to) & 7), word << ((to - from) & 7))
}
