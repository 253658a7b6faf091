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

use super::{HostFormat, codebook::write_signed, f16_at, grids, nibble_at};

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
