//! Q4_1: 32 weights with one scale and one minimum, 5 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 2 | d, f16 |
//! | 2 | 2 | m, f16 |
//! | 4 | 16 | qs: byte j has weight j in its low nibble and weight j + 16 in its high one |
//!
//! Value: `d · q + m`, the product exact in f32, the sum rounded once. Outside reference: gguf 0.19.0
//! (`gguf.quants.Q4_1`).

use kiln_abi::BlockGeometry;

use super::{Format, f16_at};

/// The format.
pub struct Q4_1;

const QS: usize = 4;
const HALF: usize = 16;
const _: () = assert!(QS + HALF == Q4_1::GEOMETRY.bytes() as usize);

impl Format for Q4_1 {
    const ID: u32 = 3;
    const NAME: &'static str = "Q4_1";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(32, 20);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        let (d, m) = (f16_at(block, 0), f16_at(block, 2));
        let value = |nibble: u8| d * f32::from(nibble) + m;
        for (j, q) in block[QS..QS + HALF].iter().enumerate() {
            out[j] = value(q & 15);
            out[j + HALF] = value(q >> 4);
        }
    }
}
