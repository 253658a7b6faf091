//! IQ2_S: 256 weights in 16 groups, their size from a codebook of 1024, a 4-bit scale each, 2.5625 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 2 | d, f16 |
//! | 2 | 32 | qs: low eight index bits, a byte for 8 weights |
//! | 34 | 32 | signs: a byte for 8 weights, set bits minus |
//! | 66 | 8 | qh: bits 2l and 2l + 1 of byte b are the high index bits of entry 4b + l |
//! | 74 | 8 | scales: nibble g is for the 16 weights from 16g on, low half of a byte first |
//!
//! Value: `d · (0.5 + scale) · 0.25 · entry · sign`, multiplied in this order. Outside reference: gguf 0.19.0
//! (`gguf.quants.IQ2_S`).

use kiln_abi::BlockGeometry;
use kiln_dsl::prelude::*;

use super::{
    Arms, Format, HostFormat,
    codebook::{half_of, moved_signs, negated, signs_at, times, two_scale, write_signed},
    f16_at, grids, half_bits,
    layout::single,
    nibble_at,
};

/// The format.
pub struct Iq2S;

const QS: usize = 2;
const SIGNS: usize = 34;
const QH: usize = 66;
const SCALES: usize = 74;
const _: () = assert!(SCALES + 8 == Iq2S::GEOMETRY.bytes() as usize);

impl HostFormat for Iq2S {
    const ID: u32 = 22;
    const NAME: &'static str = "IQ2_S";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(256, 82);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        let d = f16_at(block, 0);
        for (l, out) in out.chunks_exact_mut(8).enumerate() {
            let scale = d * (0.5 + f32::from(nibble_at(block, SCALES, l / 2))) * 0.25;
            let high = usize::from(block[QH + l / 4] >> (2 * (l % 4)) & 3);
            let entry = grids::IQ2_S.entry(usize::from(block[QS + l]) | high << 8);
            write_signed(out, scale, entry, block[SIGNS + l]);
        }
    }
}

impl Format for Iq2S {
    fn arms() -> Arms {
        Arms::packed::<Self>()
    }

    fn source(plane: usize, unit: usize, bit: usize) -> Option<usize> {
        match plane {
            // Three indexes of ten bits, the high bits of the fourth above them, its low ones with the scales.
            0 if bit < 30 => Some(index_bit(unit, bit / 10, bit % 10)),
            0 if bit < 32 => Some(index_bit(unit, 3, bit - 22)),
            0 => Some(8 * SIGNS + 32 * unit + single(bit - 32)),
            1 if bit < 8 => Some(index_bit(unit, 3, bit)),
            1 => Some(8 * (SCALES - 1) + 8 * unit + bit),
            2 => Some(bit),
            _ => None,
        }
    }

    fn table() -> Vec<u32> {
        times(grids::IQ2_S.bytes(), 2)
    }
}

/// Bit `b` of index `l` of 32 weights.
const fn index_bit(unit: usize, l: usize, b: usize) -> usize {
    if b < 8 { 8 * (QS + 4 * unit + l) + b } else { 8 * (QH + unit) + 2 * l + b - 8 }
}

#[device]
impl TensorFormat for Iq2S {
    const BLK: u32 = 256;
    const UNIT: u32 = 32;
    const PLANES: &'static [Plane] =
        &[Plane::unit(8), Plane::unit(2), Plane::block(2, 8), Plane::pairs(2048)];

    fn decode4(u: &Unit, at: u32) -> Vec4<f32> {
        packed_decode4::<Iq2S>(&u, at)
    }

    fn decode(u: &Unit, at: u32) -> f32 {
        packed_decode::<Iq2S>(&u, at)
    }
}

#[device]
impl PackedFormat for Iq2S {
    const GROUP: u32 = 16;
    const OFFSET: bool = false;

    fn scale_offset(u: &Unit, group: u32) -> (f32, f32) {
        let own = u.sixteen(1) & (0xf00 << (group * 4));
        (two_scale(half_bits(u.sixteen(2)), own << (11 - group * 4)), 0.0)
    }

    fn lanes(u: &Unit, pack: u32) -> u32 {
        let (l, word) = (pack >> 1, u.word(0, 0));
        // Three bits above where it ends, as an entry has eight bytes.
        let last = ((u.sixteen(1) << 3) & 0x7f8) | ((word >> 19) & 0x1800);
        let entry = u.lookup_pair(3, select(l < 3, word, last), select(l < 3, l * 10, 3), 10);
        let signs = u.word(0, 1);
        let moved = comptime!(moved_signs(u, 2, || (signs, signs)));
        negated(half_of(entry, pack), comptime!(signs_at(&moved, pack, 2)), pack % 2)
    }
}
