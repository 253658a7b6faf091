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

use super::{
    HostFormat,
    codebook::{even_signs, write_signed},
    f16_at, grids, nibble_at, u16_at,
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
