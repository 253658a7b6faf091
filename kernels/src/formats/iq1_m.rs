//! IQ1_M: 256 weights in 16 groups, each entry of a ternary codebook of 2048 with a shift, a 3-bit scale a group, 1.75 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 32 | qs: low eight index bits, a byte for 8 weights |
//! | 32 | 16 | qh: nibble l, low half of a byte first, has the high index bits of entry l in bits 0 to 2, its shift's sign in bit 3 |
//! | 48 | 8 | scales, four u16: the scale of the 16 weights from 64w + 16k on is in bits 3k to 3k + 2 of word w; bits 12 to 15 of word w are bits 4w to 4w + 3 of d, f16 |
//!
//! Value: `d · (2 · scale + 1) · (entry + shift)`, multiplied in this order, shift ±0.125 (minus where its bit is
//! set). Outside reference: gguf 0.19.0 (`gguf.quants.IQ1_M`).

use kiln_abi::BlockGeometry;

use super::{HostFormat, grids, iq1_s::SHIFT, nibble_at, u16_at};

/// The format.
pub struct Iq1M;

const QH: usize = 32;
const SCALES: usize = 48;
const _: () = assert!(SCALES + 8 == Iq1M::GEOMETRY.bytes() as usize);

impl HostFormat for Iq1M {
    const ID: u32 = 29;
    const NAME: &'static str = "IQ1_M";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(256, 56);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        let word = |w: usize| u16_at(block, SCALES + 2 * w);
        let d = (0..4).fold(0, |d, w| d | word(w) >> 12 << (4 * w));
        let d = half::f16::from_bits(d).to_f32();
        for (l, out) in out.chunks_exact_mut(8).enumerate() {
            let scale = d * f32::from(2 * (word(l / 8) >> (3 * (l / 2 % 4)) & 7) + 1);
            let qh = nibble_at(block, QH, l);
            let shift = if qh >> 3 == 1 { -SHIFT } else { SHIFT };
            let index = usize::from(block[l]) | usize::from(qh & 7) << 8;
            for (out, value) in out.iter_mut().zip(grids::IQ1.entry(index)) {
                *out = scale * (value + shift);
            }
        }
    }
}
