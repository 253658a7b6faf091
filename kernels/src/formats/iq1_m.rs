//! IQ1_M: 256 weights in 16 groups, each entry of a ternary codebook of 2048 with a shift, a 3-bit scale a group, 1.75 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 32 | qs: low eight index bits, a byte for 8 weights |
//! | 32 | 16 | qh: nibble l, low half of a byte first, has the high index bits of entry l in bits 0 to 2, its shift's sign in bit 3 |
//! | 48 | 8 | scales, four u16: the scale of the 16 weights from 64w + 16k on is in bits 3k to 3k + 2 of word w; bits 12 to 15 of word w are bits 4w to 4w + 3 of d, f16 |
//!
//! Value: `d · (2 · scale + 1) · (entry + shift)`, multiplied in this order, shift ±0.125 (minus where its bit is
//! set). Outside reference: gguf 0.19.0 (`gguf.quants.IQ1_M`).

use kiln_abi::BlockGeometry;
use kiln_dsl::prelude::*;

use super::{
    Arms, Format, HostFormat, grids, half_bits,
    iq1_s::{SHIFT, shifted_table},
    nibble_at, u16_at,
};

/// The format.
pub struct Iq1M;

const QH: usize = 32;
const SCALES: usize = 48;
const _: () = assert!(SCALES + 8 == Iq1M::GEOMETRY.bytes() as usize);

/// The scale of the block, in four pieces.
fn d(block: &[u8]) -> f32 {
    let piece = |w: usize| u16_at(block, SCALES + 2 * w) >> 12 << (4 * w);
    half::f16::from_bits((0..4).fold(0, |d, w| d | piece(w))).to_f32()
}

impl HostFormat for Iq1M {
    const ID: u32 = 29;
    const NAME: &'static str = "IQ1_M";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(256, 56);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        let word = |w: usize| u16_at(block, SCALES + 2 * w);
        let d = d(block);
        for (l, out) in out.chunks_exact_mut(8).enumerate() {
            let scale = d * f32::from(2 * (word(l / 8) >> (3 * (l / 2 % 4)) & 7) + 1);
            let qh = nibble_at(block, QH, l);
            let shift = if qh >> 3 == 1 { -SHIFT } else { SHIFT };
            let index = usize::from(block[l]) | usize::from(qh & 7) << 8;
            for (out, value) in out.iter_mut().zip(grids::IQ1.entry(index)) {
                *out = scale * (value + shift);
            }
        }
    }
}

impl Format for Iq1M {
    fn arms() -> Arms {
        Arms::packed::<Self>()
    }

    fn source(plane: usize, unit: usize, bit: usize) -> Option<usize> {
        match plane {
            // Four indexes of eleven bits with the shift's sign above, one after another over both planes.
            0 | 1 => {
                let (l, b) = ((32 * plane + bit) / 12, (32 * plane + bit) % 12);
                Some(if b < 8 { 8 * (4 * unit + l) + b } else { 8 * QH + 16 * unit + 4 * l + b - 8 })
            }
            2 if bit < 6 => {
                let group = 2 * unit + bit / 3;
                Some(8 * SCALES + 16 * (group / 4) + 3 * (group % 4) + bit % 3)
            }
            3 => Some(8 * SCALES + 16 * (bit / 4) + 12 + bit % 4),
            _ => None,
        }
    }

    fn offset(block: &[u8], i: usize) -> f32 {
        let (word, group) = (u16_at(block, SCALES + 2 * (i / 64)), i / 16);
        -9.0 / 8.0 * d(block) * f32::from(2 * (word >> (3 * (group % 4)) & 7) + 1)
    }

    fn table() -> Vec<u32> {
        shifted_table(2)
    }
}

#[device]
impl TensorFormat for Iq1M {
    const BLK: u32 = 256;
    const UNIT: u32 = 32;
    const PLANES: &'static [Plane] =
        &[Plane::unit(4), Plane::unit(2), Plane::unit(1), Plane::block(2, 8), Plane::table(2048)];

    fn decode4(u: &Unit, at: u32) -> Vec4<f32> {
        packed_decode4::<Iq1M>(&u, at)
    }

    fn decode(u: &Unit, at: u32) -> f32 {
        packed_decode::<Iq1M>(&u, at)
    }
}

#[device]
impl PackedFormat for Iq1M {
    const GROUP: u32 = 16;
    const OFFSET: bool = true;

    fn scale_offset(u: &Unit, group: u32) -> (f32, f32) {
        let scale = half_bits(u.small(3)) * ((((u.small(2) >> (group * 3)) & 7) * 2 + 1) as f32) * 0.25;
        (scale, -4.5 * scale)
    }

    fn lanes(u: &Unit, pack: u32) -> u32 {
        let (low, high, l) = (u.word(0, 0), u.small(1), pack >> 1);
        let late = select(l == 2, (low >> 24) | (high << 8), high);
        let (word, from) = (select(l < 2, low, late), select(l == 1, 12, select(l == 3, 4, 0)));
        let entry = u.lookup(4, word, from, 11);
        // Four times the value, and the shift, plus four and a half: bytes from 0 to 9.
        let up = 0x0101_0101 - ((word >> (from + 11)) & 1) * 0x0101_0101;
        ((entry >> ((pack & 1) * 4)) & 0x0c0c_0c0c) | up
    }
}
