//! BF16: the upper half of an IEEE binary32, 16 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 2 | upper 16 bits of an f32, little-endian |
//!
//! Value: widened exactly. Outside reference: gguf 0.19.0 (`gguf.quants.BF16`).

use kiln_abi::BlockGeometry;

use super::Format;

/// The format.
pub struct Bf16;

impl Format for Bf16 {
    const ID: u32 = 30;
    const NAME: &'static str = "BF16";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(1, 2);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        out[0] = f32::from_le_bytes([0, 0, block[0], block[1]]);
    }
}
