//! F16: IEEE binary16, 16 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 2 | value, little-endian |
//!
//! Value: widened exactly. Outside reference: gguf 0.19.0 (`gguf.quants`).

use kiln_abi::BlockGeometry;

use super::{Format, f16_at};

/// The format.
pub struct F16;

impl Format for F16 {
    const ID: u32 = 1;
    const NAME: &'static str = "F16";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(1, 2);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        out[0] = f16_at(block, 0);
    }
}
