//! BF16: the upper half of an IEEE binary32, 16 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 2 | upper 16 bits of an f32, little-endian |
//!
//! Value: widened exactly. Outside reference: gguf 0.19.0 (`gguf.quants.BF16`).

use kiln_abi::BlockGeometry;
use kiln_dsl::prelude::*;

use super::HostFormat;

/// Four values, the piece that kernels read at once.
#[derive(Block)]
pub struct Bf16Block {
    v: [u32; 2],
}

const _: () = assert!(Bf16Block::BYTES == 8);

/// The format.
pub struct Bf16;

impl HostFormat for Bf16 {
    const ID: u32 = 30;
    const NAME: &'static str = "BF16";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(1, 2);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        out[0] = f32::from_le_bytes([0, 0, block[0], block[1]]);
    }
}

#[device]
impl QuantFormat for Bf16 {
    type Block = Bf16Block;
    const BLK: u32 = 4;

    fn decode<R: Rail>(b: &BlockRef<Bf16Block, R>, at: u32) -> f32 {
        widen((b.v[at >> 1] >> ((at & 1) * 16)) << 16)
    }

    fn decode4<R: Rail>(b: &BlockRef<Bf16Block, R>, at: u32) -> Vec4<f32> {
        let a = b.v[at >> 1];
        let c = b.v[(at >> 1) + 1];
        vec4(widen(a << 16), widen(a & 0xffff_0000), widen(c << 16), widen(c & 0xffff_0000))
    }
}

#[device]
fn widen(bits: u32) -> f32 {
    bitcast::<f32, u32>(bits)
}
