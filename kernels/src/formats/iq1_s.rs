//! IQ1_S: 256 weights in 8 groups, each entry of a ternary codebook of 2048, a 3-bit scale and a shift each, 1.5625 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 2 | d, f16 |
//! | 2 | 32 | qs: low eight index bits, a byte for 8 weights |
//! | 34 | 16 | qh, u16 for each group of 32 weights: high index bits of entry l in bits 3l to 3l + 2, scale in bits 12 to 14, shift's sign in bit 15 |
//!
//! Value: `d · (2 · scale + 1) · (entry + shift)`, multiplied in this order, shift ±0.125 (minus where its bit is
//! set). Outside reference: gguf 0.19.0 (`gguf.quants.IQ1_S`).

use kiln_abi::BlockGeometry;
use kiln_dsl::prelude::*;

use super::{Arms, Format, HostFormat, f16_at, grids, half_bits, u16_at};

/// The format.
pub struct Iq1S;

const QS: usize = 2;
const QH: usize = 34;
const _: () = assert!(QH + 16 == Iq1S::GEOMETRY.bytes() as usize);

/// What every weight of a group is off the codebook's values, either way.
pub(super) const SHIFT: f32 = 0.125;

impl HostFormat for Iq1S {
    const ID: u32 = 19;
    const NAME: &'static str = "IQ1_S";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(256, 50);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        let d = f16_at(block, 0);
        for (l, out) in out.chunks_exact_mut(8).enumerate() {
            let qh = u16_at(block, QH + 2 * (l / 4));
            let scale = d * f32::from(2 * (qh >> 12 & 7) + 1);
            let shift = if qh >> 15 == 1 { -SHIFT } else { SHIFT };
            let index = usize::from(block[QS + l]) | usize::from(qh >> (3 * (l % 4)) & 7) << 8;
            for (out, value) in out.iter_mut().zip(grids::IQ1.entry(index)) {
                *out = scale * (value + shift);
            }
        }
    }
}

impl Format for Iq1S {
    fn arms() -> Arms {
        Arms::packed::<Self>()
    }

    fn source(plane: usize, unit: usize, bit: usize) -> Option<usize> {
        let index_bit =
            |(l, b)| if b < 8 { 8 * (QS + 4 * unit + l) + b } else { 8 * QH + 16 * unit + 3 * l + b - 8 };
        match plane {
            0 => Some(index_bit(in_low(bit))),
            1 => match bit {
                0 => Some(8 * QH + 16 * unit + 15),
                1..12 => Some(index_bit((3, bit - 1))),
                12 => Some(index_bit((2, 10))),
                _ => Some(8 * QH + 16 * unit + bit - 1),
            },
            2 => Some(bit),
            _ => None,
        }
    }

    // A device's scale is a 64th of this one, and its offset minus eight of those.
    fn offset(block: &[u8], i: usize) -> f32 {
        let qh = u16_at(block, QH + 2 * (i / 32));
        -SHIFT * f16_at(block, 0) * f32::from(2 * (qh >> 12 & 7) + 1)
    }

    fn table() -> Vec<u32> {
        ternary_table()
    }
}

#[device]
impl TensorFormat for Iq1S {
    const BLK: u32 = 256;
    const UNIT: u32 = 32;
    const PLANES: &'static [Plane] =
        &[Plane::unit(4), Plane::unit(2), Plane::block(2, 8), Plane::table(2048)];

    fn decode4(u: &Unit, at: u32) -> Vec4<f32> {
        packed_decode4::<Iq1S>(&u, at)
    }

    fn decode(u: &Unit, at: u32) -> f32 {
        packed_decode::<Iq1S>(&u, at)
    }
}

#[device]
impl PackedFormat for Iq1S {
    const GROUP: u32 = 32;
    const OFFSET: bool = true;
    const CENTER: Option<f32> = Some(-8.0);

    fn scale_offset(u: &Unit, _group: u32) -> (f32, f32) {
        // Eighths of a float from 1 on.
        let eighths = bitcast::<f32, u32>(((u.sixteen(1) & 0xe000) << 7) + 0x3f80_0000);
        let d = half_bits(u.sixteen(2));
        let scale = fma(eighths, d * 0.25, d * -0.234_375);
        (scale, scale * -8.0)
    }

    fn lanes(u: &Unit, pack: u32) -> u32 {
        let (low, high, l) = (u.word(0, 0), u.sixteen(1), pack >> 1);
        let word = select(l < 2, low, select(l == 2, third_index(low, high & 0x1000), high));
        let entry = u.lookup(3, word, select(l == 1, 13, select(l == 3, 1, 2)), 11);
        shifted(entry, pack, (high & 1) * SIXTEEN)
    }
}

/// Index and bit of it behind a bit of the word that two indexes and ten bits of a third have: indexes begin where an
/// entry's number is its address.
pub(super) const fn in_low(bit: usize) -> (usize, usize) {
    match bit {
        2..13 => (0, bit - 2),
        13..24 => (1, bit - 13),
        24.. => (2, bit - 24),
        _ => (2, bit + 8),
    }
}

/// The third index, from bit 2 on, of that word and its highest bit, which is bit 12.
#[device]
pub(super) fn third_index(low: u32, highest: u32) -> u32 {
    (((low << 10) | (low >> 22)) & 0xffc) | highest
}

/// Sixteen in each byte.
pub(super) const SIXTEEN: u32 = 0x1010_1010;

/// Pack `pack` of an entry, 64 times its values with their shift and eight more: without `less`, which is sixteen in each
/// byte, for a shift below.
#[device]
pub(super) fn shifted(entry: u32, pack: u32, less: u32) -> u32 {
    ((entry << ((pack & 1) * 2)) & 0xc0c0_c0c0) | (SIXTEEN - less)
}

/// The codebook: an entry a word, value j in two bits of byte j mod 4, the upper ones for the first four.
pub(super) fn ternary_table() -> Vec<u32> {
    let at = |j: usize| 8 * (j % 4) + 6 - 2 * (j / 4);
    let word = |entry: usize| {
        let values = grids::IQ1.entry(entry);
        values.iter().enumerate().fold(0, |w, (j, v)| w | ((*v as i32) & 3).cast_unsigned() << at(j))
    };
    (0..2048).map(word).collect()
}
