//! Q6_K: 256 weights in 16 groups, an 8-bit scale each, 6.5625 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 128 | ql: low four bits |
//! | 128 | 64 | qh: high two bits |
//! | 192 | 16 | scales, signed bytes, one for 16 weights |
//! | 208 | 2 | d, f16 |
//!
//! Bits of weight i, with h = i / 128, r = i mod 128, g = r / 32, l = r mod 32: the low nibble is in byte
//! `64h + l` of ql (`+ 32` for odd g), its high half for g ≥ 2; the high bits are bits 2g, 2g + 1 of byte `32h + l`
//! of qh.
//! Value: `d · scale · (q − 32)`, multiplied in this order. Outside reference: gguf 0.19.0 (`gguf.quants.Q6_K`).

use kiln_abi::BlockGeometry;
use kiln_dsl::prelude::*;

use super::{HostFormat, f16_at, packed_element, packed_four};

/// The block as kernels read it: in 16-bit words, since it is aligned to two bytes only.
#[derive(Block)]
pub struct Q6KBlock {
    ql: [u16; 64],
    qh: [u16; 32],
    scales: [u16; 8],
    d: f16,
}

const _: () = assert!(Q6KBlock::BYTES == 210);

/// The format.
pub struct Q6K;

const QH: usize = 128;
const SCALES: usize = 192;
const D: usize = 208;
const _: () = assert!(D + 2 == Q6K::GEOMETRY.bytes() as usize);

impl HostFormat for Q6K {
    const ID: u32 = 14;
    const NAME: &'static str = "Q6_K";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(256, 210);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        let d = f16_at(block, D);
        for (i, out) in out.iter_mut().enumerate() {
            let (h, g, l) = (i / 128, i % 128 / 32, i % 32);
            let low = block[64 * h + l + 32 * (g % 2)] >> (4 * (g / 2)) & 15;
            let high = block[QH + 32 * h + l] >> (2 * g) & 3;
            let q = f32::from(low | high << 4) - 32.0;
            let scale = f32::from(block[SCALES + i / 16].cast_signed());
            *out = d * scale * q;
        }
    }
}

#[device]
impl QuantFormat for Q6K {
    type Block = Q6KBlock;
    const BLK: u32 = 256;

    fn decode<R: Rail>(b: &BlockRef<Q6KBlock, R>, at: u32) -> f32 {
        packed_element::<Q6K, R>(&b, at)
    }

    fn decode4<R: Rail>(b: &BlockRef<Q6KBlock, R>, at: u32) -> Vec4<f32> {
        packed_four::<Q6K, R>(&b, at)
    }
}

#[device]
impl PackedFormat for Q6K {
    const GROUP: u32 = 16;

    fn scale_offset<R: Rail>(b: &BlockRef<Q6KBlock, R>, group: u32) -> (f32, f32) {
        let byte = (b.scales[group >> 1] as u32) >> ((group & 1) * 8);
        let scale = (b.d as f32) * (((byte << 24) as i32 >> 24) as f32);
        (scale, -32.0 * scale)
    }

    fn lanes<R: Rail>(b: &BlockRef<Q6KBlock, R>, at: u32) -> u32 {
        let h = at >> 7;
        let g = (at >> 5) & 3;
        let l = (at & 31) >> 1;
        let i = h * 32 + (g & 1) * 16 + l;
        let j = h * 16 + l;
        let low = (b.ql[i] as u32) | ((b.ql[i + 1] as u32) << 16);
        let high = (b.qh[j] as u32) | ((b.qh[j + 1] as u32) << 16);
        ((low >> ((g >> 1) * 4)) & 0x0f0f_0f0f) | (((high >> (g * 2)) & 0x0303_0303) << 4)
    }
}
