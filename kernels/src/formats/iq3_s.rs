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
    codebook::{moved_signs, signs_at, times, write_signed},
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
            // Three indexes of nine bits in each word, the last one's pieces above them.
            0 => match (bit / 32, bit % 32) {
                (word, b @ 0..27) => Some(index_bit(unit, 3 * word + b / 9, b % 9)),
                (word, b) if 5 * word + b < 36 => Some(index_bit(unit, 7, 5 * word + b - 27)),
                _ => None,
            },
            1 => Some(8 * SIGNS + 32 * unit + single(bit)),
            2 => match bit {
                0..9 => Some(index_bit(unit, 6, bit)),
                9..13 => Some(8 * SCALES + 4 * unit + bit - 9),
                _ => None,
            },
            3 => Some(bit),
            _ => None,
        }
    }

    fn table() -> Vec<u32> {
        times(grids::IQ3_S.bytes(), 8)
    }
}

/// Bit `b` of index `k` of a group.
const fn index_bit(group: usize, k: usize, b: usize) -> usize {
    if b < 8 { 8 * (QS + 8 * group + k) + b } else { 8 * (QH + group) + k }
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
        // Sixteenths of a float from 1 on.
        let sixteenths = bitcast::<f32, u32>(((u.sixteen(2) << 10) & 0x0078_0000) | 0x3f80_0000);
        let d = half_bits(u.sixteen(3));
        (fma(sixteenths, d * 4.0, d * -3.875), 0.0)
    }

    fn lanes(u: &Unit, pack: u32) -> u32 {
        // Eight times an odd number is negative with its upper four bits flipped: by a bit that stands at any of the others.
        let signs = u.word(1, 0);
        let moved = comptime!(moved_signs(u, 4, || (signs, signs)));
        let ones = comptime!(signs_at(&moved, pack, 4));
        let (first, second) = (u.word(0, 0), u.word(0, 1));
        let last = (first >> 27) | ((second >> 22) & 0x3e0);
        let late = select(pack == 6, u.sixteen(2), last);
        let word = select(pack < 3, first, select(pack < 6, second, late));
        let from = select(pack < 6, pack % 3 * 9, 0);
        u.lookup(4, word, from, 9) ^ (ones * (240 >> (pack % 4)))
    }
}
