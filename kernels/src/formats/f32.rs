//! F32: IEEE binary32, 32 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 4 | value, little-endian |
//!
//! Value: as stored. Outside reference: gguf 0.19.0 (`gguf.quants`).

use kiln_abi::BlockGeometry;
use kiln_dsl::prelude::*;

use super::HostFormat;

/// Four values, the piece that kernels read at once.
#[derive(Block)]
pub struct F32Block {
    v: [f32; 4],
}

const _: () = assert!(F32Block::BYTES == 16);

/// The format.
pub struct F32;

impl HostFormat for F32 {
    const ID: u32 = 0;
    const NAME: &'static str = "F32";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(1, 4);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        out[0] = f32::from_le_bytes([block[0], block[1], block[2], block[3]]);
    }
}

#[device]
impl QuantFormat for F32 {
    type Block = F32Block;
    const BLK: u32 = 4;

    fn decode<R: Rail>(b: &BlockRef<F32Block, R>, at: u32) -> f32 {
        b.v[at]
    }

    fn decode4<R: Rail>(b: &BlockRef<F32Block, R>, at: u32) -> Vec4<f32> {
        vec4(b.v[at], b.v[at + 1], b.v[at + 2], b.v[at + 3])
    }
}
