//! Q8_0: 32 weights with one scale, 8.5 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 2 | d, f16 |
//! | 2 | 32 | qs, signed bytes |
//!
//! Value: `d · q`, exact in f32. Outside reference: gguf 0.19.0 (`gguf.quants.Q8_0`).

use kiln_abi::BlockGeometry;

use super::{Format, f16_at};

/// The format.
pub struct Q8_0;

const QS: usize = 2;
const _: () = assert!(QS + 32 == Q8_0::GEOMETRY.bytes() as usize);

impl Format for Q8_0 {
    const ID: u32 = 8;
    const NAME: &'static str = "Q8_0";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(32, 34);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        let d = f16_at(block, 0);
        for (out, q) in out.iter_mut().zip(&block[QS..]) {
            *out = d * f32::from(q.cast_signed());
        }
    }
}
