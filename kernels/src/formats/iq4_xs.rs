//! IQ4_XS: 256 weights of sixteen uneven values in 8 groups, a 6-bit scale each, 4.25 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 2 | d, f16 |
//! | 2 | 2 | scales_h, u16: bits 2g and 2g + 1 are the high bits of scale g |
//! | 4 | 4 | scales_l: nibble g is the low bits of scale g, low half of a byte first |
//! | 8 | 128 | qs: 16 bytes a group; byte j has weight j in its low nibble and weight j + 16 in its high one |
//!
//! Value: `d · (scale − 32) · table[q]`, multiplied in this order (table: `codebook.rs`). Outside reference: gguf
//! 0.19.0 (`gguf.quants.IQ4_XS`).

use kiln_abi::BlockGeometry;
use kiln_dsl::prelude::*;

use super::{
    Arms, Format, HostFormat,
    codebook::{IQ4_VALUES, pair_table, two_pairs},
    f16_at, half_bits,
    layout::coded_nibble,
    nibble_at, u16_at,
};

/// The format.
pub struct Iq4Xs;

const SCALES_H: usize = 2;
const SCALES_L: usize = 4;
const QS: usize = 8;
const _: () = assert!(QS + 128 == Iq4Xs::GEOMETRY.bytes() as usize);

impl HostFormat for Iq4Xs {
    const ID: u32 = 23;
    const NAME: &'static str = "IQ4_XS";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(256, 136);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        let (d, scales_h) = (f16_at(block, 0), u16_at(block, SCALES_H));
        for (g, out) in out.chunks_exact_mut(32).enumerate() {
            let scale = nibble_at(block, SCALES_L, g) | ((scales_h >> (2 * g) & 3) as u8) << 4;
            let scale = d * (f32::from(scale) - 32.0);
            for (i, out) in out.iter_mut().enumerate() {
                let q = block[QS + 16 * g + i % 16] >> (4 * (i / 16)) & 15;
                *out = scale * f32::from(IQ4_VALUES[usize::from(q)]);
            }
        }
    }
}

impl Format for Iq4Xs {
    fn arms() -> Arms {
        Arms::packed::<Self>()
    }

    fn source(plane: usize, unit: usize, bit: usize) -> Option<usize> {
        match plane {
            0 => {
                let (i, b) = coded_nibble(bit);
                Some(8 * (QS + 16 * unit + i % 16) + 4 * (i / 16) + b)
            }
            1 => match bit {
                0..4 => Some(8 * SCALES_L + 4 * unit + bit),
                4..6 => Some(8 * SCALES_H + 2 * unit + bit - 4),
                _ => None,
            },
            2 => Some(bit),
            _ => None,
        }
    }

    fn table() -> Vec<u32> {
        pair_table(&IQ4_VALUES)
    }
}

#[device]
impl TensorFormat for Iq4Xs {
    const BLK: u32 = 256;
    const UNIT: u32 = 32;
    const PLANES: &'static [Plane] =
        &[Plane::unit(16), Plane::unit(1), Plane::block(2, 8), Plane::table(256)];

    fn decode4(u: &Unit, at: u32) -> Vec4<f32> {
        packed_decode4::<Iq4Xs>(&u, at)
    }

    fn decode(u: &Unit, at: u32) -> f32 {
        packed_decode::<Iq4Xs>(&u, at)
    }
}

#[device]
impl PackedFormat for Iq4Xs {
    const GROUP: u32 = 32;
    const OFFSET: bool = false;

    fn scale_offset(u: &Unit, _group: u32) -> (f32, f32) {
        let d = half_bits(u.sixteen(2));
        (d * ((u.small(1) as f32) - 32.0), 0.0)
    }

    fn lanes(u: &Unit, pack: u32) -> u32 {
        two_pairs(&u, 3, u.word(0, pack >> 1), pack & 1)
    }
}
