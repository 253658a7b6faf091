//! BF16: the upper half of an IEEE binary32, 16 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 2 | upper 16 bits of an f32, little-endian |
//!
//! Value: widened exactly. Outside reference: gguf 0.19.0 (`gguf.quants.BF16`).

use kiln_abi::BlockGeometry;
use kiln_dsl::prelude::*;

use super::{Arms, Format, HostFormat};

/// The format.
pub struct Bf16;

impl HostFormat for Bf16 {
    const ID: u32 = 30;
    const NAME: &'static str = "BF16";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(1, 2);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        out[0] = f32::from_le_bytes([0, 0, block[0], block[1]]);
    }
}

impl Format for Bf16 {
    fn arms() -> Arms {
        Arms::plain::<Self>()
    }

    fn source(plane: usize, unit: usize, bit: usize) -> Option<usize> {
        (plane == 0).then_some(16 * 8 * unit + bit)
    }
}

#[device]
impl TensorFormat for Bf16 {
    const BLK: u32 = 1;
    const UNIT: u32 = 8;
    const PLANES: &'static [Plane] = &[Plane::unit(16)];

    fn decode4(u: &Unit, at: u32) -> Vec4<f32> {
        let a = u.word(0, at >> 1);
        let b = u.word(0, (at >> 1) + 1);
        vec4(widen(a << 16), widen(a & 0xffff_0000), widen(b << 16), widen(b & 0xffff_0000))
    }
}

#[device]
fn widen(bits: u32) -> f32 {
    bitcast::<f32, u32>(bits)
}
