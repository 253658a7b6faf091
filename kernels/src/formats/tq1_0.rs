//! TQ1_0: 256 ternary weights with one scale, 1.6875 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 32 | qs: byte l has digit n of weight 32n + l, n below 5 |
//! | 32 | 16 | qs: byte l has digit n of weight 160 + 16n + l, n below 5 |
//! | 48 | 4 | qh: byte l has digit n of weight 240 + 4n + l, n below 4 |
//! | 52 | 2 | d, f16 |
//!
//! A byte is a fraction of 256 in base three: digit n is the whole part of `3 · (byte · 3ⁿ mod 256) / 256`.
//! Value: `d · (digit − 1)`. Outside reference: gguf 0.19.0 (`gguf.quants.TQ1_0`).

use kiln_abi::BlockGeometry;
use kiln_dsl::prelude::*;

use super::{Arms, Format, HostFormat, f16_at, half_bits};

/// The format.
pub struct Tq1_0;

const QH: usize = 48;
const D: usize = 52;
const _: () = assert!(D + 2 == Tq1_0::GEOMETRY.bytes() as usize);

const POWERS: [u8; 5] = [1, 3, 9, 27, 81];

impl HostFormat for Tq1_0 {
    const ID: u32 = 34;
    const NAME: &'static str = "TQ1_0";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(256, 54);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        let d = f16_at(block, D);
        let mut rest = out;
        for (bytes, digits) in [(&block[..32], 5), (&block[32..QH], 5), (&block[QH..D], 4)] {
            let (part, after) = rest.split_at_mut(digits * bytes.len());
            rest = after;
            for (n, out) in part.chunks_exact_mut(bytes.len()).enumerate() {
                for (out, byte) in out.iter_mut().zip(bytes) {
                    let fraction = byte.wrapping_mul(POWERS[n]);
                    let digit = (u16::from(fraction) * 3) >> 8;
                    *out = d * (f32::from(digit) - 1.0);
                }
            }
        }
    }
}

impl Format for Tq1_0 {
    fn arms() -> Arms {
        Arms::packed::<Self>()
    }

    fn source(plane: usize, _: usize, bit: usize) -> Option<usize> {
        match plane {
            0 => Some(bit),
            1 => Some(8 * QH + bit),
            2 => Some(8 * D + bit),
            _ => None,
        }
    }

    fn offset(block: &[u8], _: usize) -> f32 {
        -f16_at(block, D)
    }
}

#[device]
impl TensorFormat for Tq1_0 {
    const BLK: u32 = 256;
    const UNIT: u32 = 32;
    const PLANES: &'static [Plane] = &[Plane::block(48, 8), Plane::block(4, 8), Plane::block(2, 8)];

    fn decode4(u: &Unit, at: u32) -> Vec4<f32> {
        packed_decode4::<Tq1_0>(&u, at)
    }

    fn decode(u: &Unit, at: u32) -> f32 {
        packed_decode::<Tq1_0>(&u, at)
    }
}

#[device]
impl PackedFormat for Tq1_0 {
    const GROUP: u32 = 32;
    const OFFSET: bool = true;

    fn scale_offset(u: &Unit, _group: u32) -> (f32, f32) {
        let d = half_bits(u.small(2));
        (d, -d)
    }

    fn lanes(u: &Unit, pack: u32) -> u32 {
        // Units 0 to 4 take a digit of the first 32 bytes each, unit 5 and 6 two of the next 16, unit 7 their last and
        // the four of the last 4 bytes.
        let unit = u.in_block::<Tq1_0>();
        let (first, last, j) = (unit < 5, unit == 7, pack & 3);
        let four = u.sixteen(0, select(first, pack >> 2, 2));
        let word = select(j < 2, select(j == 0, four.x(), four.y()), select(j == 2, four.z(), four.w()));
        let bytes = select(pack > 3, select(last, u.word(1, 0), word), word);
        // The power of the unit's first digit; of units 5 and 6 the second half has the next one.
        let own = power_of_three(select(first, unit, unit * 2 - 10));
        let second = select(first, own, own * 3);
        let power = select(pack > 3, select(last, power_of_three(j), second), own);
        // The second and fourth digit are where they belong already.
        let (even, odd) = (digits(bytes & BYTES, power), digits((bytes >> 8) & BYTES, power));
        ((even >> 8) & BYTES) | (odd & !BYTES)
    }
}

/// The bytes 0 and 2 of a word.
const BYTES: u32 = 0x00ff_00ff;

/// Three to the power of `n`, which is below 5.
#[device]
fn power_of_three(n: u32) -> u32 {
    select(n == 4, 81, (0x1b09_0301 >> ((n & 3) * 8)) & 0xff)
}

/// The next base-three digits of two fractions in 16 bits each, after a multiplication by `power`: in bits 8 and 9, 24
/// and 25; what is left of the fractions is below them.
#[device]
fn digits(fractions: u32, power: u32) -> u32 {
    ((fractions * power) & BYTES) * 3
}
