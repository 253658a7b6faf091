//! IQ2_XS: 256 weights in 16 groups, their size from a codebook of 512, a 4-bit scale each, 2.3125 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 2 | d, f16 |
//! | 2 | 64 | qs, u16 for 8 weights: index in bits 0 to 8, sign index in bits 9 to 15 |
//! | 66 | 8 | scales: nibble g is for the 16 weights from 16g on, low half of a byte first |
//!
//! Signs: seven bits, the eighth by parity (`codebook.rs`).
//! Value: `d · (0.5 + scale) · 0.25 · entry · sign`, multiplied in this order. Outside reference: gguf 0.19.0
//! (`gguf.quants.IQ2_XS`).

use kiln_abi::BlockGeometry;
use kiln_dsl::prelude::*;

use super::{
    Arms, Format, HostFormat,
    codebook::{
        all_signs, even_signs, half_of, moved_signs, negated, signs_at, spread_bit, spread_seven, times,
        two_scale, write_signed,
    },
    f16_at, grids, half_bits, nibble_at, u16_at,
};

/// The format.
pub struct Iq2Xs;

const QS: usize = 2;
const SCALES: usize = 66;
const _: () = assert!(SCALES + 8 == Iq2Xs::GEOMETRY.bytes() as usize);

impl HostFormat for Iq2Xs {
    const ID: u32 = 17;
    const NAME: &'static str = "IQ2_XS";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(256, 74);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        let d = f16_at(block, 0);
        for (l, out) in out.chunks_exact_mut(8).enumerate() {
            let scale = d * (0.5 + f32::from(nibble_at(block, SCALES, l / 2))) * 0.25;
            let word = u16_at(block, QS + 2 * l);
            let entry = grids::IQ2_XS.entry(usize::from(word & 511));
            write_signed(out, scale, entry, even_signs(u32::from(word >> 9)));
        }
    }
}

impl Format for Iq2Xs {
    fn arms() -> Arms {
        Arms::packed::<Self>()
    }

    fn source(plane: usize, unit: usize, bit: usize) -> Option<usize> {
        match plane {
            // Three indexes of nine bits and the low ones of the fourth, then signs and its high ones.
            0 => {
                let (entry, b) = match bit {
                    0..32 => (bit / 9, bit % 9),
                    _ => match spread_seven(bit - 32) {
                        sign @ 0..28 => (sign / 7, 9 + sign % 7),
                        spare => (3, spare - 23),
                    },
                };
                Some(8 * QS + 64 * unit + 16 * entry + b)
            }
            1 => Some(8 * SCALES + 8 * unit + bit),
            2 => Some(bit),
            _ => None,
        }
    }

    fn table() -> Vec<u32> {
        times(grids::IQ2_XS.bytes(), 2)
    }
}

#[device]
impl TensorFormat for Iq2Xs {
    const BLK: u32 = 256;
    const UNIT: u32 = 32;
    const PLANES: &'static [Plane] =
        &[Plane::unit(8), Plane::unit(1), Plane::block(2, 8), Plane::pairs(1024)];

    fn decode4(u: &Unit, at: u32) -> Vec4<f32> {
        packed_decode4::<Iq2Xs>(&u, at)
    }

    fn decode(u: &Unit, at: u32) -> f32 {
        packed_decode::<Iq2Xs>(&u, at)
    }
}

#[device]
impl PackedFormat for Iq2Xs {
    const GROUP: u32 = 16;
    const OFFSET: bool = false;

    fn scale_offset(u: &Unit, group: u32) -> (f32, f32) {
        // Neighbors have the bytes of a pair. A multiplication, for it is the same for all rows of a lane.
        let even = (u.in_block::<Iq2Xs>() & 1) == 0;
        let own = select(even, 0xf << (group * 4), 0xf00 << (group * 4));
        let up = select(even, (1 << 19) >> (group * 4), (1 << 11) >> (group * 4));
        (two_scale(half_bits(u.sixteen(2)), (u.sixteen(1) & own) * up), 0.0)
    }

    fn lanes(u: &Unit, pack: u32) -> u32 {
        let (l, low, high) = (pack >> 1, u.word(0, 0), u.word(0, 1));
        // Three bits above where it ends, as an entry has eight bytes.
        let last = ((low >> 24) & 0xf8) | ((high >> 20) & 0xf00);
        let entry = u.lookup_pair(3, select(l < 3, low, last), select(l < 3, l * 9, 3), 9);
        let bit = spread_bit(pack);
        let moved = comptime!(moved_signs(u, 2, || (high, all_signs(high))));
        negated(half_of(entry, pack), comptime!(signs_at(&moved, bit, 2)), bit % 2)
    }
}
