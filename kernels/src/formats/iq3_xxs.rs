//! IQ3_XXS: 256 weights in 8 groups, their size from a codebook of 256, a 4-bit scale each, 3.0625 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 2 | d, f16 |
//! | 2 | 64 | qs: an index byte for 4 weights |
//! | 66 | 32 | u32 for each group of 32 weights: sign index of its weights from 8l on in bits 7l to 7l + 6, scale in bits 28 to 31 |
//!
//! Signs: seven bits, the eighth by parity (`codebook.rs`).
//! Value: `d · (0.5 + scale) · 0.5 · entry · sign`, multiplied in this order. Outside reference: gguf 0.19.0
//! (`gguf.quants.IQ3_XXS`).

use kiln_abi::BlockGeometry;
use kiln_dsl::prelude::*;

use super::{
    Arms, Format, HostFormat,
    codebook::{
        all_signs, even_signs, moved_signs, negated, signs_at, spread_bit, spread_seven, times, write_signed,
    },
    f16_at, grids, half_bits, u32_at,
};

/// The format.
pub struct Iq3Xxs;

const QS: usize = 2;
const SIGNS: usize = 66;
const _: () = assert!(SIGNS + 32 == Iq3Xxs::GEOMETRY.bytes() as usize);

impl HostFormat for Iq3Xxs {
    const ID: u32 = 18;
    const NAME: &'static str = "IQ3_XXS";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(256, 98);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        let d = f16_at(block, 0);
        let entry = |k: usize| grids::IQ3_XXS.entry(usize::from(block[QS + k]));
        for (l, out) in out.chunks_exact_mut(8).enumerate() {
            let word = u32_at(block, SIGNS + 4 * (l / 4));
            let scale = d * (0.5 + (word >> 28) as f32) * 0.5;
            let values = entry(2 * l).into_iter().chain(entry(2 * l + 1));
            write_signed(out, scale, values, even_signs(word >> (7 * (l % 4))));
        }
    }
}

impl Format for Iq3Xxs {
    fn arms() -> Arms {
        Arms::packed::<Self>()
    }

    fn source(plane: usize, unit: usize, bit: usize) -> Option<usize> {
        match plane {
            0 => Some(8 * QS + 64 * unit + bit),
            1 => Some(8 * SIGNS + 32 * unit + spread_seven(bit)),
            2 => Some(bit),
            _ => None,
        }
    }

    fn table() -> Vec<u32> {
        times(grids::IQ3_XXS.bytes(), 2)
    }
}

#[device]
impl TensorFormat for Iq3Xxs {
    const BLK: u32 = 256;
    const UNIT: u32 = 32;
    const PLANES: &'static [Plane] = &[Plane::unit(8), Plane::unit(4), Plane::block(2, 8), Plane::table(256)];

    fn decode4(u: &Unit, at: u32) -> Vec4<f32> {
        packed_decode4::<Iq3Xxs>(&u, at)
    }

    fn decode(u: &Unit, at: u32) -> f32 {
        packed_decode::<Iq3Xxs>(&u, at)
    }
}

#[device]
impl PackedFormat for Iq3Xxs {
    const GROUP: u32 = 32;
    const OFFSET: bool = false;

    fn scale_offset(u: &Unit, _group: u32) -> (f32, f32) {
        (half_bits(u.sixteen(2)) * fma((u.word(1, 0) >> 28) as f32, 0.25, 0.125), 0.0)
    }

    fn lanes(u: &Unit, pack: u32) -> u32 {
        let four = u.lookup(3, u.word(0, pack >> 2), (pack & 3) * 8, 8);
        // Twice a codebook of even numbers: multiples of four.
        let (bit, word) = (spread_bit(pack), u.word(1, 0));
        let moved = comptime!(moved_signs(u, 3, || (word, all_signs(word))));
        negated(four, comptime!(signs_at(&moved, bit, 3)), bit % 3)
    }
}
