//! TQ2_0: 256 ternary weights with one scale, 2.0625 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 64 | qs: two bits a weight |
//! | 64 | 2 | d, f16 |
//!
//! Weight i has bits 2r and 2r + 1 of byte `32(i / 128) + i mod 32` of qs, where r = i mod 128 / 32.
//! Value: `d · (q − 1)`. Outside reference: gguf 0.19.0 (`gguf.quants.TQ2_0`).

use kiln_abi::BlockGeometry;

use super::{HostFormat, f16_at};

/// The format.
pub struct Tq2_0;

const D: usize = 64;
const _: () = assert!(D + 2 == Tq2_0::GEOMETRY.bytes() as usize);

impl HostFormat for Tq2_0 {
    const ID: u32 = 35;
    const NAME: &'static str = "TQ2_0";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(256, 66);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        let d = f16_at(block, D);
        for (i, out) in out.iter_mut().enumerate() {
            let q = block[32 * (i / 128) + i % 32] >> (2 * (i % 128 / 32)) & 3;
            *out = d * (f32::from(q) - 1.0);
        }
    }
}
