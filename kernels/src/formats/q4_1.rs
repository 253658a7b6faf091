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
use kiln_dsl::prelude::*;

use super::{HostFormat, f16_at, packed_element, packed_four};

/// The block as kernels read it: in 32-bit words.
#[derive(Block)]
pub struct Q4_1Block {
    d: f16,
    m: f16,
    qs: [u32; 4],
}

const _: () = assert!(Q4_1Block::BYTES == 20);

/// The format.
pub struct Q4_1;

const QS: usize = 4;
const HALF: usize = 16;
const _: () = assert!(QS + HALF == Q4_1::GEOMETRY.bytes() as usize);

impl HostFormat for Q4_1 {
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

#[device]
impl QuantFormat for Q4_1 {
    type Block = Q4_1Block;
    const BLK: u32 = 32;

    fn decode<R: Rail>(b: &BlockRef<Q4_1Block, R>, at: u32) -> f32 {
        packed_element::<Q4_1, R>(&b, at)
    }

    fn decode4<R: Rail>(b: &BlockRef<Q4_1Block, R>, at: u32) -> Vec4<f32> {
        packed_four::<Q4_1, R>(&b, at)
    }
}

#[device]
impl PackedFormat for Q4_1 {
    const GROUP: u32 = 32;

    fn scale_offset<R: Rail>(b: &BlockRef<Q4_1Block, R>, _group: u32) -> (f32, f32) {
        (b.d as f32, b.m as f32)
    }

    fn lanes<R: Rail>(b: &BlockRef<Q4_1Block, R>, at: u32) -> u32 {
        (b.qs[(at >> 2) & 3] >> ((at >> 4) * 4)) & 0x0f0f_0f0f
    }
}
