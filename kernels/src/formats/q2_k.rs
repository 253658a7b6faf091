//! Q2_K: 256 weights in 16 groups, a 4-bit scale and minimum each, 2.625 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 16 | scales: byte g has the scale of group g in its low nibble, its minimum in the high one |
//! | 16 | 64 | qs: two bits a weight |
//! | 80 | 2 | d, f16 |
//! | 82 | 2 | dmin, f16 |
//!
//! Weight i, with h = i / 128, has bits 2r and 2r + 1 of byte `32h + i mod 32` of qs, where r = i mod 128 / 32; its
//! group is i / 16.
//! Value: `d · scale · q − dmin · minimum`, multiplied in this order; the difference rounded once. Outside reference:
//! gguf 0.19.0 (`gguf.quants.Q2_K`).

use kiln_abi::BlockGeometry;
use kiln_dsl::prelude::*;

use super::{Arms, Format, HostFormat, f16_at, layout::pair};

/// The format.
pub struct Q2K;

const QS: usize = 16;
const D: usize = 80;
const DMIN: usize = 82;
const _: () = assert!(DMIN + 2 == Q2K::GEOMETRY.bytes() as usize);

impl HostFormat for Q2K {
    const ID: u32 = 10;
    const NAME: &'static str = "Q2_K";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(256, 84);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        let (d, dmin) = (f16_at(block, D), f16_at(block, DMIN));
        for (i, out) in out.iter_mut().enumerate() {
            let q = block[QS + 32 * (i / 128) + i % 32] >> (2 * (i % 128 / 32)) & 3;
            let scales = block[i / 16];
            *out = d * f32::from(scales & 15) * f32::from(q) - dmin * f32::from(scales >> 4);
        }
    }
}

impl Format for Q2K {
    fn arms() -> Arms {
        Arms::packed::<Self>()
    }

    fn source(plane: usize, unit: usize, bit: usize) -> Option<usize> {
        match plane {
            0 => {
                let (i, b) = pair(bit);
                Some(8 * (QS + 32 * (unit / 4) + i) + 2 * (unit % 4) + b)
            }
            1 => Some(16 * unit + bit),
            2 => Some(8 * D + bit),
            _ => None,
        }
    }

    fn offset(block: &[u8], i: usize) -> f32 {
        -f16_at(block, D + 2) * f32::from(block[i / 16] >> 4)
    }
}

#[device]
impl TensorFormat for Q2K {
    const BLK: u32 = 256;
    const UNIT: u32 = 32;
    const PLANES: &'static [Plane] = &[Plane::unit(8), Plane::unit(2), Plane::block(4, 8)];

    fn decode4(u: &Unit, at: u32) -> Vec4<f32> {
        packed_decode4::<Q2K>(&u, at)
    }

    fn decode(u: &Unit, at: u32) -> f32 {
        packed_decode::<Q2K>(&u, at)
    }
}

#[device]
impl PackedFormat for Q2K {
    const GROUP: u32 = 16;
    const OFFSET: bool = true;

    fn scale_offset(u: &Unit, group: u32) -> (f32, f32) {
        let (byte, dd) = (u.sixteen(1) >> (group * 8), unpack_half(u.word(2, 0)));
        (dd.x() * ((byte & 15) as f32), -(dd.y() * (((byte >> 4) & 15) as f32)))
    }

    fn lanes(u: &Unit, pack: u32) -> u32 {
        (u.word(0, pack >> 2) >> ((pack & 3) * 2)) & 0x0303_0303
    }
}
