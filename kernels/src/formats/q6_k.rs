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

use super::{
    Arms, Format, HostFormat, f16_at, half_bits,
    layout::{nibble, pair},
    moved,
};

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

impl Format for Q6K {
    fn arms() -> Arms {
        Arms::packed::<Self>()
    }

    fn source(plane: usize, unit: usize, bit: usize) -> Option<usize> {
        match plane {
            0 => {
                let (i, b) = nibble(bit);
                let (h, g) = (unit / 4, unit % 4);
                Some(8 * (64 * h + i + 32 * (g % 2)) + 4 * (g / 2) + b)
            }
            1 => {
                let (i, b) = pair(bit);
                Some(8 * (QH + 32 * (unit / 4) + i) + 2 * (unit % 4) + b)
            }
            2 => Some(8 * SCALES + 16 * unit + bit),
            3 => Some(8 * D + bit),
            _ => None,
        }
    }

    fn offset(block: &[u8], i: usize) -> f32 {
        -32.0 * f16_at(block, D) * f32::from(block[SCALES + i / 16].cast_signed())
    }
}

#[device]
impl TensorFormat for Q6K {
    const BLK: u32 = 256;
    const UNIT: u32 = 32;
    const PLANES: &'static [Plane] = &[Plane::unit(16), Plane::unit(8), Plane::unit(2), Plane::block(2, 8)];

    fn decode4(u: &Unit, at: u32) -> Vec4<f32> {
        packed_decode4::<Q6K>(&u, at)
    }

    fn decode(u: &Unit, at: u32) -> f32 {
        packed_decode::<Q6K>(&u, at)
    }
}

#[device]
impl PackedFormat for Q6K {
    const GROUP: u32 = 16;
    const OFFSET: bool = true;

    fn scale_offset(u: &Unit, group: u32) -> (f32, f32) {
        let byte = u.sixteen(2) >> (group * 8);
        let scale = half_bits(u.sixteen(3)) * (((byte << 24) as i32 >> 24) as f32);
        (scale, -32.0 * scale)
    }

    fn lanes(u: &Unit, pack: u32) -> u32 {
        let low = (u.word(0, pack & 3) >> ((pack >> 2) * 4)) & 0x0f0f_0f0f;
        low | (moved(u.word(1, pack >> 2), (pack & 3) * 2, 4) & 0x3030_3030)
    }
}
