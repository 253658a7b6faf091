//! TQ1_0: 256 ternary weights with one scale, 1.6875 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 32 | qs: byte l has digit n of weight 32n + l, n below 5 |
//! | 32 | 16 | qs: byte l has digit n of weight 160 + 16n + l, n below 5 |
//! | 48 | 4 | qh: byte l has digit n of weight 240 + 4n + l, n below 4 |
//! | 52 | 2 | d, f16 |
//!
//! A byte is a fraction of 256 in base three: digit n is the whole part of `3 · (byte · 3ⁿ mod 256) / 256`.
//! Value: `d · (digit − 1)`. Outside reference: gguf 0.19.0 (`gguf.quants.TQ1_0`).

use kiln_abi::BlockGeometry;

use super::{HostFormat, f16_at};

/// The format.
pub struct Tq1_0;

const QH: usize = 48;
const D: usize = 52;
const _: () = assert!(D + 2 == Tq1_0::GEOMETRY.bytes() as usize);

const POWERS: [u8; 5] = [1, 3, 9, 27, 81];

impl HostFormat for Tq1_0 {
    const ID: u32 = 34;
    const NAME: &'static str = "TQ1_0";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(256, 54);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        let d = f16_at(block, D);
        let mut rest = out;
        for (bytes, digits) in [(&block[..32], 5), (&block[32..QH], 5), (&block[QH..D], 4)] {
            let (part, after) = rest.split_at_mut(digits * bytes.len());
            rest = after;
            for (n, out) in part.chunks_exact_mut(bytes.len()).enumerate() {
                for (out, byte) in out.iter_mut().zip(bytes) {
                    let fraction = byte.wrapping_mul(POWERS[n]);
                    let digit = (u16::from(fraction) * 3) >> 8;
                    *out = d * (f32::from(digit) - 1.0);
                }
            }
        }
    }
}
