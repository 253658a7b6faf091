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

use super::{
    HostFormat,
    codebook::{even_signs, write_signed},
    f16_at, grids, u32_at,
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
