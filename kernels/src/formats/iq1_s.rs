//! IQ1_S: 256 weights in 8 groups, each entry of a ternary codebook of 2048, a 3-bit scale and a shift each, 1.5625 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 2 | d, f16 |
//! | 2 | 32 | qs: low eight index bits, a byte for 8 weights |
//! | 34 | 16 | qh, u16 for each group of 32 weights: high index bits of entry l in bits 3l to 3l + 2, scale in bits 12 to 14, shift's sign in bit 15 |
//!
//! Value: `d · (2 · scale + 1) · (entry + shift)`, multiplied in this order, shift ±0.125 (minus where its bit is
//! set). Outside reference: gguf 0.19.0 (`gguf.quants.IQ1_S`).

use kiln_abi::BlockGeometry;
use kiln_dsl::prelude::*;

use super::{Arms, Format, HostFormat, f16_at, grids, half_bits, u16_at};

/// The format.
pub struct Iq1S;

const QS: usize = 2;
const QH: usize = 34;
const _: () = assert!(QH + 16 == Iq1S::GEOMETRY.bytes() as usize);

/// What every weight of a group is off the codebook's values, either way.
pub(super) const SHIFT: f32 = 0.125;

impl HostFormat for Iq1S {
    const ID: u32 = 19;
    const NAME: &'static str = "IQ1_S";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(256, 50);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        let d = f16_at(block, 0);
        for (l, out) in out.chunks_exact_mut(8).enumerate() {
            let qh = u16_at(block, QH + 2 * (l / 4));
            let scale = d * f32::from(2 * (qh >> 12 & 7) + 1);
            let shift = if qh >> 15 == 1 { -SHIFT } else { SHIFT };
            let index = usize::from(block[QS + l]) | usize::from(qh >> (3 * (l % 4)) & 7) << 8;
            for (out, value) in out.iter_mut().zip(grids::IQ1.entry(index)) {
                *out = scale * (value + shift);
            }
        }
    }
}

impl Format for Iq1S {
    fn arms() -> Arms {
        Arms::packed::<Self>()
    }

    fn source(plane: usize, unit: usize, bit: usize) -> Option<usize> {
        match plane {
            // Four indexes of eleven bits, one after another over both planes.
            0 | 1 if 32 * plane + bit < 44 => {
                let (l, b) = ((32 * plane + bit) / 11, (32 * plane + bit) % 11);
                Some(if b < 8 { 8 * (QS + 4 * unit + l) + b } else { 8 * QH + 16 * unit + 3 * l + b - 8 })
            }
            1 => Some(8 * QH + 16 * unit + bit),
            2 => Some(bit),
            _ => None,
        }
    }

    fn offset(block: &[u8], i: usize) -> f32 {
        let qh = u16_at(block, QH + 2 * (i / 32));
        let shift = if qh >> 15 == 0 { SHIFT } else { -SHIFT };
        (shift - 1.0) * f16_at(block, 0) * f32::from(2 * (qh >> 12 & 7) + 1)
    }

    fn table() -> Vec<u32> {
        shifted_table(0)
    }
}

#[device]
impl TensorFormat for Iq1S {
    const BLK: u32 = 256;
    const UNIT: u32 = 32;
    const PLANES: &'static [Plane] =
        &[Plane::unit(4), Plane::unit(2), Plane::block(2, 8), Plane::table(2048)];

    fn decode4(u: &Unit, at: u32) -> Vec4<f32> {
        packed_decode4::<Iq1S>(&u, at)
    }

    fn decode(u: &Unit, at: u32) -> f32 {
        packed_decode::<Iq1S>(&u, at)
    }
}

#[device]
impl PackedFormat for Iq1S {
    const GROUP: u32 = 32;
    const OFFSET: bool = true;

    fn scale_offset(u: &Unit, _group: u32) -> (f32, f32) {
        let qh = u.small(1);
        let scale = half_bits(u.small(2)) * ((((qh >> 12) & 7) * 2 + 1) as f32);
        (scale, scale * select((qh >> 15) == 0, SHIFT - 1.0, -SHIFT - 1.0))
    }

    fn lanes(u: &Unit, pack: u32) -> u32 {
        let (low, high, l) = (u.word(0, 0), u.small(1), pack >> 1);
        let late = select(l == 2, (low >> 22) | (high << 10), high);
        let entry = u.lookup(3, select(l < 2, low, late), select(l == 1, 11, select(l == 3, 1, 0)), 11);
        // A value, plus one: the shift is in the offset.
        (entry >> ((pack & 1) * 4)) & 0x0303_0303
    }
}

/// The codebook: an entry a word, value j + 1 of it in the bits `low` and `low + 1` of byte j mod 4's half j / 4.
pub(super) fn shifted_table(low: usize) -> Vec<u32> {
    let at = |j: usize| 8 * (j % 4) + 4 * (j / 4) + low;
    let word = |entry: usize| {
        let values = grids::IQ1.entry(entry);
        values.iter().enumerate().fold(0, |w, (j, v)| w | ((*v + 1.0) as u32) << at(j))
    };
    (0..2048).map(word).collect()
}
