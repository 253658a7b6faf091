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

use super::{
    HostFormat,
    codebook::{even_signs, write_signed},
    f16_at, grids, u32_at,
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
