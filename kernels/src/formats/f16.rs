//! F16: IEEE binary16, 16 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 2 | value, little-endian |
//!
//! Value: widened exactly. Outside reference: gguf 0.19.0 (`gguf.quants`).

use kiln_abi::BlockGeometry;
use kiln_dsl::prelude::*;

use super::{Arms, Format, HostFormat, f16_at};

/// The format.
pub struct F16;

impl HostFormat for F16 {
    const ID: u32 = 1;
    const NAME: &'static str = "F16";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(1, 2);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        out[0] = f16_at(block, 0);
    }
}

impl Format for F16 {
    fn arms() -> Arms {
        Arms::plain::<Self>()
    }

    fn source(plane: usize, unit: usize, bit: usize) -> Option<usize> {
        (plane == 0).then_some(16 * 8 * unit + bit)
    }
}

#[device]
impl TensorFormat for F16 {
    const BLK: u32 = 1;
    const UNIT: u32 = 8;
    const PLANES: &'static [Plane] = &[Plane::unit(16)];

    fn decode4(u: &Unit, at: u32) -> Vec4<f32> {
        let a = unpack_half(u.word(0, at >> 1));
        let b = unpack_half(u.word(0, (at >> 1) + 1));
        vec4(a.x(), a.y(), b.x(), b.y())
    }

    fn decode_halves(u: &Unit, at: u32) -> Vec4<u32> {
        let first = at >> 1;
        vec4(u.word(0, first), u.word(0, first + 1), u.word(0, first + 2), u.word(0, first + 3))
    }
}
