//! Q5_0: 32 weights with one scale, 5.5 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 2 | d, f16 |
//! | 2 | 4 | qh, u32: bit i is the high bit of weight i |
//! | 6 | 16 | qs: byte j has the low bits of weight j in its low nibble and those of weight j + 16 in its high one |
//!
//! Value: `d · (q − 16)`. Outside reference: gguf 0.19.0 (`gguf.quants.Q5_0`).

use kiln_abi::BlockGeometry;
use kiln_dsl::prelude::*;

use super::{
    Arms, Format, HostFormat, f16_at, half_bits,
    layout::{in_halves, nibble, single},
    moved, u32_at,
};

/// The format.
pub struct Q5_0;

const QH: usize = 2;
const QS: usize = 6;
const HALF: usize = 16;
const _: () = assert!(QS + HALF == Q5_0::GEOMETRY.bytes() as usize);

impl HostFormat for Q5_0 {
    const ID: u32 = 6;
    const NAME: &'static str = "Q5_0";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(32, 22);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        let (d, qh) = (f16_at(block, 0), u32_at(block, QH));
        for (i, out) in out.iter_mut().enumerate() {
            let low = block[QS + i % HALF] >> (4 * (i / HALF)) & 15;
            let q = low | ((qh >> i & 1) as u8) << 4;
            *out = d * (f32::from(q) - 16.0);
        }
    }
}

impl Format for Q5_0 {
    fn arms() -> Arms {
        Arms::packed::<Self>()
    }

    fn source(plane: usize, _: usize, bit: usize) -> Option<usize> {
        match plane {
            0 => Some(in_halves(QS, nibble(bit))),
            1 => Some(8 * QH + single(bit)),
            2 => Some(bit),
            _ => None,
        }
    }

    fn offset(block: &[u8], _: usize) -> f32 {
        -16.0 * f16_at(block, 0)
    }
}

#[device]
impl TensorFormat for Q5_0 {
    const BLK: u32 = 32;
    const UNIT: u32 = 32;
    const PLANES: &'static [Plane] = &[Plane::unit(16), Plane::unit(4), Plane::unit(2)];

    fn decode4(u: &Unit, at: u32) -> Vec4<f32> {
        packed_decode4::<Q5_0>(&u, at)
    }

    fn decode(u: &Unit, at: u32) -> f32 {
        packed_decode::<Q5_0>(&u, at)
    }
}

#[device]
impl PackedFormat for Q5_0 {
    const GROUP: u32 = 32;
    const OFFSET: bool = true;

    fn scale_offset(u: &Unit, _group: u32) -> (f32, f32) {
        let d = half_bits(u.sixteen(2));
        (d, -16.0 * d)
    }

    fn lanes(u: &Unit, pack: u32) -> u32 {
        ((u.word(0, pack & 3) >> ((pack >> 2) * 4)) & 0x0f0f_0f0f)
            | (moved(u.word(1, 0), pack, 4) & 0x1010_1010)
    }
}
