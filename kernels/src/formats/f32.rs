//! F32: IEEE binary32, 32 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 4 | value, little-endian |
//!
//! Value: as stored. Outside reference: gguf 0.19.0 (`gguf.quants`).

use kiln_abi::BlockGeometry;
use kiln_dsl::prelude::*;

use super::{Arms, Format, HostFormat};

/// The format.
pub struct F32;

impl HostFormat for F32 {
    const ID: u32 = 0;
    const NAME: &'static str = "F32";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(1, 4);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        out[0] = f32::from_le_bytes([block[0], block[1], block[2], block[3]]);
    }
}

impl Format for F32 {
    fn arms() -> Arms {
        Arms::plain::<Self>()
    }

    fn source(plane: usize, unit: usize, bit: usize) -> Option<usize> {
        (plane == 0).then_some(32 * 4 * unit + bit)
    }
}

#[device]
impl TensorFormat for F32 {
    const BLK: u32 = 1;
    const UNIT: u32 = 4;
    const PLANES: &'static [Plane] = &[Plane::unit(16)];

    fn decode4(u: &Unit, at: u32) -> Vec4<f32> {
        vec4(
            bitcast::<f32, u32>(u.word(0, at)),
            bitcast::<f32, u32>(u.word(0, at + 1)),
            bitcast::<f32, u32>(u.word(0, at + 2)),
            bitcast::<f32, u32>(u.word(0, at + 3)),
        )
    }
}
