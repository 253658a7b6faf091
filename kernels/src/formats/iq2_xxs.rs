//! IQ2_XXS: 256 weights in 8 groups, their size from a codebook of 256, a 4-bit scale each, 2.0625 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 2 | d, f16 |
//! | 2 | 64 | for each group of 32 weights: four index bytes, each for 8 weights, and a u32: sign index of entry l in bits 7l to 7l + 6, scale in bits 28 to 31 |
//!
//! Signs: seven bits, the eighth by parity (`codebook.rs`).
//! Value: `d · (0.5 + scale) · 0.25 · entry · sign`, multiplied in this order. Outside reference: gguf 0.19.0
//! (`gguf.quants.IQ2_XXS`).

use kiln_abi::BlockGeometry;
use kiln_dsl::prelude::*;

use super::{
    Arms, Format, HostFormat,
    codebook::{
        all_signs, even_signs, half_of, moved_signs, negated, signs_at, spread_bit, spread_seven, times,
        write_signed,
    },
    f16_at, grids, half_bits, u32_at,
};

/// The format.
pub struct Iq2Xxs;

const GROUPS: usize = 2;
const _: () = assert!(GROUPS + 64 == Iq2Xxs::GEOMETRY.bytes() as usize);

impl HostFormat for Iq2Xxs {
    const ID: u32 = 16;
    const NAME: &'static str = "IQ2_XXS";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(256, 66);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        let d = f16_at(block, 0);
        for (out, group) in out.chunks_exact_mut(32).zip(block[GROUPS..].chunks_exact(8)) {
            let word = u32_at(group, 4);
            let scale = d * (0.5 + (word >> 28) as f32) * 0.25;
            for (l, (out, index)) in out.chunks_exact_mut(8).zip(group).enumerate() {
                let entry = grids::IQ2_XXS.entry(usize::from(*index));
                write_signed(out, scale, entry, even_signs(word >> (7 * l)));
            }
        }
    }
}

impl Format for Iq2Xxs {
    fn arms() -> Arms {
        Arms::packed::<Self>()
    }

    fn source(plane: usize, unit: usize, bit: usize) -> Option<usize> {
        match plane {
            0 if bit < 32 => Some(8 * GROUPS + 64 * unit + bit),
            0 => Some(8 * GROUPS + 64 * unit + 32 + spread_seven(bit - 32)),
            1 => Some(bit),
            _ => None,
        }
    }

    fn table() -> Vec<u32> {
        times(grids::IQ2_XXS.bytes(), 2)
    }
}

#[device]
impl TensorFormat for Iq2Xxs {
    const BLK: u32 = 256;
    const UNIT: u32 = 32;
    const PLANES: &'static [Plane] = &[Plane::unit(8), Plane::block(2, 8), Plane::pairs(512)];

    fn decode4(u: &Unit, at: u32) -> Vec4<f32> {
        packed_decode4::<Iq2Xxs>(&u, at)
    }

    fn decode(u: &Unit, at: u32) -> f32 {
        packed_decode::<Iq2Xxs>(&u, at)
    }
}

#[device]
impl PackedFormat for Iq2Xxs {
    const GROUP: u32 = 32;
    const OFFSET: bool = false;

    fn scale_offset(u: &Unit, _group: u32) -> (f32, f32) {
        (half_bits(u.sixteen(1)) * fma((u.word(0, 1) >> 28) as f32, 0.125, 0.0625), 0.0)
    }

    fn lanes(u: &Unit, pack: u32) -> u32 {
        let entry = u.lookup_pair(2, u.word(0, 0), (pack >> 1) * 8, 8);
        let (bit, word) = (spread_bit(pack), u.word(0, 1));
        let moved = comptime!(moved_signs(u, 2, || (word, all_signs(word))));
        negated(half_of(entry, pack), comptime!(signs_at(&moved, bit, 2)), bit % 2)
    }
}
