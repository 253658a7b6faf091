//! IQ3_S: 256 weights in 8 groups, their size from a codebook of 512, a 4-bit scale each, 3.4375 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 2 | d, f16 |
//! | 2 | 64 | qs: low eight index bits, a byte for 4 weights |
//! | 66 | 8 | qh: bit k of byte g is the high index bit of entry k of group g |
//! | 74 | 32 | signs: a byte for 8 weights, set bits minus |
//! | 106 | 4 | scales: nibble g is for the 32 weights from 32g on, low half of a byte first |
//!
//! Value: `d · (1 + 2 · scale) · entry · sign`, multiplied in this order. Outside reference: gguf 0.19.0
//! (`gguf.quants.IQ3_S`).

use kiln_abi::BlockGeometry;
use kiln_dsl::prelude::*;

use super::{
    Arms, Format, HostFormat,
    codebook::{signed, write_signed},
    f16_at, grids, half_bits,
    layout::single,
    nibble_at,
};

/// The format.
pub struct Iq3S;

const QS: usize = 2;
const QH: usize = 66;
const SIGNS: usize = 74;
const SCALES: usize = 106;
const _: () = assert!(SCALES + 4 == Iq3S::GEOMETRY.bytes() as usize);

impl HostFormat for Iq3S {
    const ID: u32 = 21;
    const NAME: &'static str = "IQ3_S";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(256, 110);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        let d = f16_at(block, 0);
        let entry = |k: usize| {
            let high = usize::from(block[QH + k / 8] >> (k % 8) & 1);
            grids::IQ3_S.entry(usize::from(block[QS + k]) | high << 8)
        };
        for (l, out) in out.chunks_exact_mut(8).enumerate() {
            let scale = d * f32::from(1 + 2 * nibble_at(block, SCALES, l / 4));
            let values = entry(2 * l).into_iter().chain(entry(2 * l + 1));
            write_signed(out, scale, values, block[SIGNS + l]);
        }
    }
}

impl Format for Iq3S {
    fn arms() -> Arms {
        Arms::packed::<Self>()
    }

    fn source(plane: usize, unit: usize, bit: usize) -> Option<usize> {
        match plane {
            0 => Some(8 * QS + 64 * unit + bit),
            1 => Some(8 * SIGNS + 32 * unit + single(bit)),
            2 => match bit {
                0..8 => Some(8 * QH + 8 * unit + bit),
                8..12 => Some(8 * SCALES + 4 * unit + bit - 8),
                _ => None,
            },
            3 => Some(bit),
            _ => None,
        }
    }

    fn table() -> Vec<u32> {
        grids::IQ3_S.bytes()
    }
}

#[device]
impl TensorFormat for Iq3S {
    const BLK: u32 = 256;
    const UNIT: u32 = 32;
    const PLANES: &'static [Plane] =
        &[Plane::unit(8), Plane::unit(4), Plane::unit(2), Plane::block(2, 8), Plane::table(512)];

    fn decode4(u: &Unit, at: u32) -> Vec4<f32> {
        packed_decode4::<Iq3S>(&u, at)
    }

    fn decode(u: &Unit, at: u32) -> f32 {
        packed_decode::<Iq3S>(&u, at)
    }
}

#[device]
impl PackedFormat for Iq3S {
    const GROUP: u32 = 32;
    const OFFSET: bool = false;

    fn scale_offset(u: &Unit, _group: u32) -> (f32, f32) {
        let d = half_bits(u.small(3));
        (d * (1.0 + 2.0 * ((u.small(2) >> 8) as f32)), 0.0)
    }

    fn lanes(u: &Unit, pack: u32) -> u32 {
        let high = (u.small(2) << (8 - pack)) & 0x100;
        let index = ((u.word(0, pack >> 2) >> ((pack & 3) * 8)) & 0xff) | high;
        signed(u.lookup(index), u.word(1, 0), pack)
    }
}
