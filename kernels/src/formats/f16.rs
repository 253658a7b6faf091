//! F16: IEEE binary16, 16 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 2 | value, little-endian |
//!
//! Value: widened exactly. Outside reference: gguf 0.19.0 (`gguf.quants`).

use kiln_abi::BlockGeometry;
use kiln_dsl::prelude::*;

use super::{HostFormat, f16_at};

/// Four values, the piece that kernels read at once.
#[derive(Block)]
pub struct F16Block {
    v: [u32; 2],
}

const _: () = assert!(F16Block::BYTES == 8);

/// The format.
pub struct F16;

impl HostFormat for F16 {
    const ID: u32 = 1;
    const NAME: &'static str = "F16";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(1, 2);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        out[0] = f16_at(block, 0);
    }
}

#[device]
impl QuantFormat for F16 {
    type Block = F16Block;
    const BLK: u32 = 4;

    fn decode<R: Rail>(b: &BlockRef<F16Block, R>, at: u32) -> f32 {
        unpack_half(b.v[at >> 1] >> ((at & 1) * 16)).x()
    }

    fn decode4<R: Rail>(b: &BlockRef<F16Block, R>, at: u32) -> Vec4<f32> {
        let a = unpack_half(b.v[at >> 1]);
        let c = unpack_half(b.v[(at >> 1) + 1]);
        vec4(a.x(), a.y(), c.x(), c.y())
    }
}
