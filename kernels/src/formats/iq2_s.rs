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

use super::{HostFormat, codebook::write_signed, f16_at, grids, nibble_at};

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
