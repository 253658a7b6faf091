//! Q4_0: 32 weights with one scale, 4.5 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 2 | d, f16 |
//! | 2 | 16 | qs: byte j has weight j in its low nibble and weight j + 16 in its high one |
//!
//! Value: `d · (q − 8)`. Outside reference: gguf 0.19.0 (`gguf.quants.Q4_0`).

use kiln_abi::BlockGeometry;

use super::{Format, f16_at};

/// The format.
pub struct Q4_0;

const QS: usize = 2;
const HALF: usize = 16;
const _: () = assert!(QS + HALF == Q4_0::GEOMETRY.bytes() as usize);

impl Format for Q4_0 {
    const ID: u32 = 2;
    const NAME: &'static str = "Q4_0";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(32, 18);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        let d = f16_at(block, 0);
        let value = |nibble: u8| d * (f32::from(nibble) - 8.0);
        for (j, q) in block[QS..QS + HALF].iter().enumerate() {
            out[j] = value(q & 15);
            out[j + HALF] = value(q >> 4);
        }
    }
}
