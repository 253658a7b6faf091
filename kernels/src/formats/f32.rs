//! F32: IEEE binary32, 32 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 4 | value, little-endian |
//!
//! Value: as stored. Outside reference: gguf 0.19.0 (`gguf.quants`).

use kiln_abi::BlockGeometry;

use super::Format;

/// The format.
pub struct F32;

impl Format for F32 {
    const ID: u32 = 0;
    const NAME: &'static str = "F32";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(1, 4);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        out[0] = f32::from_le_bytes([block[0], block[1], block[2], block[3]]);
    }
}
