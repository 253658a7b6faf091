//! Q3_K: 256 weights in 16 groups, a 6-bit scale each, 3.4375 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 32 | hmask: high bit of each weight |
//! | 32 | 64 | qs: low two bits of each weight |
//! | 96 | 12 | scales, six bits each |
//! | 108 | 2 | d, f16 |
//!
//! Weight i, with h = i / 128 and r = i mod 128 / 32: low bits 2r and 2r + 1 of byte `32h + i mod 32` of qs, high bit
//! `4h + r` of byte i mod 32 of hmask; its group g is i / 16. Scale g: low four bits in byte g mod 8, its high half
//! for g ≥ 8; high two bits 2(g / 4) and up of byte `8 + g mod 4`.
//! Value: `d · (scale − 32) · (q − 4)` with q of three bits, multiplied in this order. Outside reference: gguf 0.19.0
//! (`gguf.quants.Q3_K`).

use kiln_abi::BlockGeometry;
use kiln_dsl::prelude::*;

use super::{
    Arms, Format, HostFormat, f16_at, half_bits,
    layout::{pair, single},
    moved,
};

/// The format.
pub struct Q3K;

const QS: usize = 32;
const SCALES: usize = 96;
const D: usize = 108;
const _: () = assert!(D + 2 == Q3K::GEOMETRY.bytes() as usize);

/// The scale of group `g` of a block, from -32 to 31.
fn scale_at(block: &[u8], g: usize) -> f32 {
    let low = block[SCALES + g % 8] >> (4 * (g / 8)) & 15;
    let high = block[SCALES + 8 + g % 4] >> (2 * (g / 4)) & 3;
    f32::from(low | high << 4) - 32.0
}

impl HostFormat for Q3K {
    const ID: u32 = 11;
    const NAME: &'static str = "Q3_K";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(256, 110);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        let d = f16_at(block, D);
        for (i, out) in out.iter_mut().enumerate() {
            let (h, r, g) = (i / 128, i % 128 / 32, i / 16);
            let low = block[QS + 32 * h + i % 32] >> (2 * r) & 3;
            let high = block[i % 32] >> (4 * h + r) & 1;
            let q = f32::from(low | high << 2) - 4.0;
            *out = d * scale_at(block, g) * q;
        }
    }
}

impl Format for Q3K {
    fn arms() -> Arms {
        Arms::packed::<Self>()
    }

    fn source(plane: usize, unit: usize, bit: usize) -> Option<usize> {
        match plane {
            0 => {
                let (i, b) = pair(bit);
                Some(8 * (QS + 32 * (unit / 4) + i) + 2 * (unit % 4) + b)
            }
            1 => Some(8 * single(bit) + unit),
            2 => {
                let (g, b) = (2 * unit + bit / 8, bit % 8);
                match b {
                    0..4 => Some(8 * (SCALES + g % 8) + 4 * (g / 8) + b),
                    4..6 => Some(8 * (SCALES + 8 + g % 4) + 2 * (g / 4) + b - 4),
                    _ => None,
                }
            }
            3 => Some(8 * D + bit),
            _ => None,
        }
    }

    fn offset(block: &[u8], i: usize) -> f32 {
        -4.0 * f16_at(block, D) * scale_at(block, i / 16)
    }
}

#[device]
impl TensorFormat for Q3K {
    const BLK: u32 = 256;
    const UNIT: u32 = 32;
    const PLANES: &'static [Plane] = &[Plane::unit(8), Plane::unit(4), Plane::unit(2), Plane::block(2, 8)];

    fn decode4(u: &Unit, at: u32) -> Vec4<f32> {
        packed_decode4::<Q3K>(&u, at)
    }

    fn decode(u: &Unit, at: u32) -> f32 {
        packed_decode::<Q3K>(&u, at)
    }
}

#[device]
impl PackedFormat for Q3K {
    const GROUP: u32 = 16;
    const OFFSET: bool = true;

    fn scale_offset(u: &Unit, group: u32) -> (f32, f32) {
        let byte = (u.sixteen(2) >> (group * 8)) & 63;
        let scale = half_bits(u.sixteen(3)) * ((byte as f32) - 32.0);
        (scale, -4.0 * scale)
    }

    fn lanes(u: &Unit, pack: u32) -> u32 {
        ((u.word(0, pack >> 2) >> ((pack & 3) * 2)) & 0x0303_0303)
            | (moved(u.word(1, 0), pack, 2) & 0x0404_0404)
    }
}
