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
    iq1_s::{SHIFT, SIXTEEN, in_low, shifted, ternary_table, third_index},
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
        let index_bit =
            |(l, b)| if b < 8 { 8 * (4 * unit + l) + b } else { 8 * QH + 16 * unit + 4 * l + b - 8 };
        match (plane, bit) {
            (0, _) => Some(index_bit(in_low(bit))),
            (1, 0..4) => Some(8 * QH + 16 * unit + 4 * bit + 3),
            (1, 4) => Some(index_bit((2, 10))),
            (1, _) => Some(index_bit((3, bit - 5))),
            // A byte of d and the scales of a group of each unit in each word.
            (2, _) => match (bit / 32, bit % 32) {
                (word, b @ 0..8) => Some(8 * SCALES + 16 * (2 * word + b / 4) + 12 + b % 4),
                (word, b) => {
                    let (unit, b) = ((b - 8) / 3, (b - 8) % 3);
                    Some(8 * SCALES + 16 * (unit / 2) + 6 * (unit % 2) + 3 * word + b)
                }
            },
            _ => None,
        }
    }

    // As in IQ1_S.
    fn offset(block: &[u8], i: usize) -> f32 {
        let (word, group) = (u16_at(block, SCALES + 2 * (i / 64)), i / 16);
        -SHIFT * d(block) * f32::from(2 * (word >> (3 * (group % 4)) & 7) + 1)
    }

    fn table() -> Vec<u32> {
        ternary_table()
    }
}

#[device]
impl TensorFormat for Iq1M {
    const BLK: u32 = 256;
    const UNIT: u32 = 32;
    const PLANES: &'static [Plane] =
        &[Plane::unit(4), Plane::unit(2), Plane::block(8, 8), Plane::table(2048)];

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
    const CENTER: Option<f32> = Some(-8.0);

    fn scale_offset(u: &Unit, group: u32) -> (f32, f32) {
        let (word, unit) = (u.word(2, group), u.in_block::<Iq1M>());
        let d = half_bits((u.word(2, 0) & 0xff) | (u.word(2, 1) << 8));
        // Eighths of a float from 1 on.
        let own = (word >> (unit * 3)) & 0x700;
        let eighths = bitcast::<f32, u32>((own << 12) + 0x3f80_0000);
        let scale = fma(eighths, d * 0.25, d * -0.234_375);
        (scale, scale * -8.0)
    }

    fn lanes(u: &Unit, pack: u32) -> u32 {
        let (low, high, l) = (u.word(0, 0), u.sixteen(1), pack >> 1);
        let word = select(l < 2, low, select(l == 2, third_index(low, (high << 8) & 0x1000), high));
        let entry = u.lookup(3, word, select(l == 1, 13, select(l == 3, 5, 2)), 11);
        shifted(entry, pack, (high & (1 << l)) * (SIXTEEN >> l))
    }
}
