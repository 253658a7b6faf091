//! Q4_0: 32 weights with one scale, 4.5 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 2 | d, f16 |
//! | 2 | 16 | qs: byte j has weight j in its low nibble and weight j + 16 in its high one |
//!
//! Value: `d · (q − 8)`. To quantize: `d = x / −8` for the x of largest magnitude (of equals the first), `q = x · (1 / d) +
//! 8.5` without its fraction, at most 15. Outside reference: gguf 0.19.0 (`gguf.quants.Q4_0`).

use kiln_abi::BlockGeometry;
use kiln_dsl::prelude::*;

use super::{HostFormat, Quantize, f16_at, inverse, packed_element, packed_four, set_f16};

/// The block as kernels read it: in 16-bit words, since it is aligned to two bytes only.
#[derive(Block)]
pub struct Q4_0Block {
    d: f16,
    qs: [u16; 8],
}

const _: () = assert!(Q4_0Block::BYTES == 18);

/// The format.
pub struct Q4_0;

const QS: usize = 2;
const HALF: usize = 16;
const _: () = assert!(QS + HALF == Q4_0::GEOMETRY.bytes() as usize);

impl HostFormat for Q4_0 {
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

impl Quantize for Q4_0 {
    fn quantize(values: &[f32], block: &mut [u8]) {
        let larger = |max: f32, x: f32| if x.abs() > max.abs() { x } else { max };
        let largest = values.iter().copied().reduce(larger).unwrap_or(0.0);
        let d = largest / -8.0;
        let inverse = inverse(d);
        set_f16(block, 0, d);
        let quant = |x: f32| ((x * inverse + 8.5) as u8).min(15);
        for (j, byte) in block[QS..QS + HALF].iter_mut().enumerate() {
            *byte = quant(values[j]) | quant(values[j + HALF]) << 4;
        }
    }
}

#[device]
impl QuantFormat for Q4_0 {
    type Block = Q4_0Block;
    const BLK: u32 = 32;

    fn decode<R: Rail>(b: &BlockRef<Q4_0Block, R>, at: u32) -> f32 {
        packed_element::<Q4_0, R>(&b, at)
    }

    fn decode4<R: Rail>(b: &BlockRef<Q4_0Block, R>, at: u32) -> Vec4<f32> {
        packed_four::<Q4_0, R>(&b, at)
    }
}

#[device]
impl PackedFormat for Q4_0 {
    const GROUP: u32 = 32;

    fn scale_offset<R: Rail>(b: &BlockRef<Q4_0Block, R>, _group: u32) -> (f32, f32) {
        let d = b.d as f32;
        (d, -8.0 * d)
    }

    fn lanes<R: Rail>(b: &BlockRef<Q4_0Block, R>, at: u32) -> u32 {
        let i = (at >> 1) & 7;
        let word = (b.qs[i] as u32) | ((b.qs[i + 1] as u32) << 16);
        (word >> ((at >> 4) * 4)) & 0x0f0f_0f0f
    }
}
