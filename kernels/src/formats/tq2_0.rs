//! TQ2_0: 256 ternary weights with one scale, 2.0625 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 64 | qs: two bits a weight |
//! | 64 | 2 | d, f16 |
//!
//! Weight i has bits 2r and 2r + 1 of byte `32(i / 128) + i mod 32` of qs, where r = i mod 128 / 32.
//! Value: `d · (q − 1)`. Outside reference: gguf 0.19.0 (`gguf.quants.TQ2_0`).

use kiln_abi::BlockGeometry;
use kiln_dsl::prelude::*;

use super::{Arms, Format, HostFormat, f16_at, half_bits, layout::pair};

/// The format.
pub struct Tq2_0;

const D: usize = 64;
const _: () = assert!(D + 2 == Tq2_0::GEOMETRY.bytes() as usize);

impl HostFormat for Tq2_0 {
    const ID: u32 = 35;
    const NAME: &'static str = "TQ2_0";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(256, 66);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        let d = f16_at(block, D);
        for (i, out) in out.iter_mut().enumerate() {
            let q = block[32 * (i / 128) + i % 32] >> (2 * (i % 128 / 32)) & 3;
            *out = d * (f32::from(q) - 1.0);
        }
    }
}

impl Format for Tq2_0 {
    fn arms() -> Arms {
        Arms::packed::<Self>()
    }

    fn source(plane: usize, unit: usize, bit: usize) -> Option<usize> {
        match plane {
            0 => {
                let (i, b) = pair(bit);
                Some(8 * (32 * (unit / 4) + i) + 2 * (unit % 4) + b)
            }
            1 => Some(8 * D + bit),
            _ => None,
        }
    }

    fn offset(block: &[u8], _: usize) -> f32 {
        -f16_at(block, D)
    }
}

#[device]
impl TensorFormat for Tq2_0 {
    const BLK: u32 = 256;
    const UNIT: u32 = 32;
    const PLANES: &'static [Plane] = &[Plane::unit(8), Plane::block(2, 8)];

    fn decode4(u: &Unit, at: u32) -> Vec4<f32> {
        packed_decode4::<Tq2_0>(&u, at)
    }

    fn decode(u: &Unit, at: u32) -> f32 {
        packed_decode::<Tq2_0>(&u, at)
    }
}

#[device]
impl PackedFormat for Tq2_0 {
    const GROUP: u32 = 32;
    const OFFSET: bool = true;

    fn scale_offset(u: &Unit, _group: u32) -> (f32, f32) {
        let d = half_bits(u.sixteen(1));
        (d, -d)
    }

    fn lanes(u: &Unit, pack: u32) -> u32 {
        (u.word(0, pack >> 2) >> ((pack & 3) * 2)) & 0x0303_0303
    }
}
