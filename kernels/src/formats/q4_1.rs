//! Q4_1: 32 weights with one scale and one minimum, 5 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 2 | d, f16 |
//! | 2 | 2 | m, f16 |
//! | 4 | 16 | qs: byte j has weight j in its low nibble and weight j + 16 in its high one |
//!
//! Value: `d · q + m`, the product exact in f32, the sum rounded once. Outside reference: gguf 0.19.0
//! (`gguf.quants.Q4_1`).

use kiln_abi::BlockGeometry;
use kiln_dsl::prelude::*;

use super::{
    Arms, Format, HostFormat, f16_at,
    layout::{in_halves, nibble},
};

/// The format.
pub struct Q4_1;

const QS: usize = 4;
const HALF: usize = 16;
const _: () = assert!(QS + HALF == Q4_1::GEOMETRY.bytes() as usize);

impl HostFormat for Q4_1 {
    const ID: u32 = 3;
    const NAME: &'static str = "Q4_1";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(32, 20);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        let (d, m) = (f16_at(block, 0), f16_at(block, 2));
        let value = |nibble: u8| d * f32::from(nibble) + m;
        for (j, q) in block[QS..QS + HALF].iter().enumerate() {
            out[j] = value(q & 15);
            out[j + HALF] = value(q >> 4);
        }
    }
}

impl Format for Q4_1 {
    fn arms() -> Arms {
        Arms::packed::<Self>()
    }

    fn source(plane: usize, _: usize, bit: usize) -> Option<usize> {
        match plane {
            0 => Some(in_halves(QS, nibble(bit))),
            1 => Some(bit),
            _ => None,
        }
    }

    fn offset(block: &[u8], _: usize) -> f32 {
        f16_at(block, 2)
    }
}

#[device]
impl TensorFormat for Q4_1 {
    const BLK: u32 = 32;
    const UNIT: u32 = 32;
    const PLANES: &'static [Plane] = &[Plane::unit(16), Plane::unit(4)];

    fn decode4(u: &Unit, at: u32) -> Vec4<f32> {
        packed_decode4::<Q4_1>(&u, at)
    }

    fn decode(u: &Unit, at: u32) -> f32 {
        packed_decode::<Q4_1>(&u, at)
    }
}

#[device]
impl PackedFormat for Q4_1 {
    const GROUP: u32 = 32;
    const OFFSET: bool = true;

    fn scale_offset(u: &Unit, _group: u32) -> (f32, f32) {
        let dm = unpack_half(u.word(1, 0));
        (dm.x(), dm.y())
    }

    fn lanes(u: &Unit, pack: u32) -> u32 {
        (u.word(0, pack & 3) >> ((pack >> 2) * 4)) & 0x0f0f_0f0f
    }
}
