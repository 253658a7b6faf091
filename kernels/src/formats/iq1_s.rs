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

use super::{HostFormat, f16_at, grids, u16_at};

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
