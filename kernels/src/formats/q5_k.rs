//! Q5_K: 256 weights in 8 groups, a 6-bit scale and minimum each, 5.5 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 2 | d, f16 |
//! | 2 | 2 | dmin, f16 |
//! | 4 | 12 | scales and minima, as `k_scales.rs` says |
//! | 16 | 32 | qh: high bit of each weight |
//! | 48 | 128 | qs: low four bits of each weight |
//!
//! Weight i is in group g = i / 32; its nibble is in byte `32(g / 2) + i mod 32` of qs, the high one for odd g; its
//! high bit is bit g of byte i mod 32 of qh.
//! Value: `d · scale · q − dmin · minimum`, multiplied in this order; the difference rounded once. Outside reference:
//! gguf 0.19.0 (`gguf.quants.Q5_K`).

use kiln_abi::BlockGeometry;
use kiln_dsl::prelude::*;

use super::{
    Arms, Format, HostFormat, f16_at, k_scales,
    layout::{nibble, single},
    moved,
};

/// The format.
pub struct Q5K;

const SCALES: usize = 4;
const QH: usize = SCALES + k_scales::BYTES;
const QS: usize = 48;
const _: () = assert!(QS + 128 == Q5K::GEOMETRY.bytes() as usize);

impl HostFormat for Q5K {
    const ID: u32 = 13;
    const NAME: &'static str = "Q5_K";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(256, 176);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        let (d, dmin) = (f16_at(block, 0), f16_at(block, 2));
        for (g, out) in out.chunks_exact_mut(32).enumerate() {
            let (scale, min) = k_scales::scale_min(&block[SCALES..], g);
            let (scale, min) = (d * f32::from(scale), dmin * f32::from(min));
            let bytes = block[QS + 32 * (g / 2)..].iter().zip(&block[QH..]);
            for (out, (low, high)) in out.iter_mut().zip(bytes) {
                let q = low >> (4 * (g % 2)) & 15 | (high >> g & 1) << 4;
                *out = scale * f32::from(q) - min;
            }
        }
    }
}

impl Format for Q5K {
    fn arms() -> Arms {
        Arms::packed::<Self>()
    }

    fn source(plane: usize, unit: usize, bit: usize) -> Option<usize> {
        match plane {
            0 => {
                let (i, b) = nibble(bit);
                Some(8 * (QS + 32 * (unit / 2) + i) + 4 * (unit % 2) + b)
            }
            1 => Some(8 * (QH + single(bit)) + unit),
            2 => k_scales::bit(unit, bit).map(|b| 8 * SCALES + b),
            3 => Some(bit),
            _ => None,
        }
    }

    fn offset(block: &[u8], i: usize) -> f32 {
        let (_, min) = k_scales::scale_min(&block[SCALES..QH], i / 32);
        -f16_at(block, 2) * f32::from(min)
    }
}

#[device]
impl TensorFormat for Q5K {
    const BLK: u32 = 256;
    const UNIT: u32 = 32;
    const PLANES: &'static [Plane] = &[Plane::unit(16), Plane::unit(4), Plane::unit(2), Plane::block(4, 8)];

    fn decode4(u: &Unit, at: u32) -> Vec4<f32> {
        packed_decode4::<Q5K>(&u, at)
    }

    fn decode(u: &Unit, at: u32) -> f32 {
        packed_decode::<Q5K>(&u, at)
    }
}

#[device]
impl PackedFormat for Q5K {
    const GROUP: u32 = 32;
    const OFFSET: bool = true;

    fn scale_offset(u: &Unit, _group: u32) -> (f32, f32) {
        let (pair, dd) = (u.small(2), unpack_half(u.word(3, 0)));
        (dd.x() * ((pair & 63) as f32), -(dd.y() * ((pair >> 8) as f32)))
    }

    fn lanes(u: &Unit, pack: u32) -> u32 {
        ((u.word(0, pack & 3) >> ((pack >> 2) * 4)) & 0x0f0f_0f0f)
            | (moved(u.word(1, 0), pack, 4) & 0x1010_1010)
    }
}
