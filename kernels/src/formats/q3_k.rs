//! Q3_K: 256 weights in 16 groups, a 6-bit scale each, 3.4375 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 32 | hmask: high bit of each weight |
//! | 32 | 64 | qs: low two bits of each weight |
//! | 96 | 12 | scales, six bits each |
//! | 108 | 2 | d, f16 |
//!
//! Weight i, with h = i / 128 and r = i mod 128 / 32: low bits 2r and 2r + 1 of byte `32h + i mod 32` of qs, high bit
//! `4h + r` of byte i mod 32 of hmask; its group g is i / 16. Scale g: low four bits in byte g mod 8, its high half
//! for g ≥ 8; high two bits 2(g / 4) and up of byte `8 + g mod 4`.
//! Value: `d · (scale − 32) · (q − 4)` with q of three bits, multiplied in this order. Outside reference: gguf 0.19.0
//! (`gguf.quants.Q3_K`).

use kiln_abi::BlockGeometry;

use super::{HostFormat, f16_at};

/// The format.
pub struct Q3K;

const QS: usize = 32;
const SCALES: usize = 96;
const D: usize = 108;
const _: () = assert!(D + 2 == Q3K::GEOMETRY.bytes() as usize);

impl HostFormat for Q3K {
    const ID: u32 = 11;
    const NAME: &'static str = "Q3_K";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(256, 110);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        let d = f16_at(block, D);
        for (i, out) in out.iter_mut().enumerate() {
            let (h, r, g) = (i / 128, i % 128 / 32, i / 16);
            let low = block[QS + 32 * h + i % 32] >> (2 * r) & 3;
            let high = block[i % 32] >> (4 * h + r) & 1;
            let q = f32::from(low | high << 2) - 4.0;
            let low = block[SCALES + g % 8] >> (4 * (g / 8)) & 15;
            let high = block[SCALES + 8 + g % 4] >> (2 * (g / 4)) & 3;
            let scale = f32::from(low | high << 4) - 32.0;
            *out = d * scale * q;
        }
    }
}
