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
//!
//! A device would multiply for each digit, so it has three digits in five bits, which operations on bits alone decode (`three`).
//! Of the 16 fours of digits of 64 weights, fours 0 to 3, 4 to 7 and 8 to 11 are words A, B and C of two bits a digit,
//! four n of a word in bits 2n and 2n + 1 of each byte; A, B and C are two words and a single bit for each digit. So are
//! fours 12 to 14, in bits 2 and 3, 4 and 5, and 7 of a third word's bytes. Its bits 0 and 1 are four 15, its bit 6 the
//! single bit of A, B and C for n = 3; those for n below 3 are in bit 2n of each byte of a word that two units share, an
//! odd unit's in bit 2n + 1. Bits 6 and 7 of that word's bytes are half of the scale. That is 56 bytes a block.

use kiln_abi::BlockGeometry;
use kiln_dsl::prelude::*;

use super::{Arms, Format, HostFormat, f16_at, half_bits, layout::Recoding, u32_at};

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
        let fours = PLACES.iter().map(|(byte, n)| digits_of(u32_at(block, *byte), *n));
        for (out, four) in out.chunks_exact_mut(4).zip(fours) {
            for (out, digit) in out.iter_mut().zip(four.to_le_bytes()) {
                *out = d * (f32::from(digit) - 1.0);
            }
        }
    }
}

/// Where the digits of four weights after the other are: the first of four bytes, and which digit of each.
const PLACES: [(usize, usize); 16 * UNITS] = {
    let mut places = [(0, 0); 16 * UNITS];
    let mut four = 0;
    while four < places.len() {
        places[four] = match four {
            0..40 => (4 * (four % 8), four / 8),
            40..60 => (32 + 4 * (four % 4), (four - 40) / 4),
            _ => (QH, four - 60),
        };
        four += 1;
    }
    places
};

/// Digit `n` of four bytes, a byte each.
const fn digits_of(bytes: u32, n: usize) -> u32 {
    // Of every other byte at once: what is left of a fraction of 256, times three, has its digit above.
    const EVEN: u32 = 0x00ff_00ff;
    let power = POWERS[n] as u32;
    let (even, odd) = (((bytes & EVEN) * power) & EVEN, ((bytes >> 8 & EVEN) * power) & EVEN);
    ((even * 3) >> 8) & EVEN | (odd * 3) & !EVEN
}

/// Units of a block, and words of a block as a device has it before those that units share.
const UNITS: usize = 4;
const SHARED: usize = 3 * UNITS;

/// A block as a device has it: the first two words of each unit, the third of each, those that two units share.
fn code(block: &[u8], out: &mut [u8]) {
    let mut words = [0; SHARED + 2];
    let mut fours = PLACES.iter().map(|(byte, n)| digits_of(u32_at(block, *byte), *n));
    for unit in 0..UNITS {
        let mut next = || fours.next().unwrap_or(0);
        let [a, b, c] = [(); 3].map(|()| (0..4).fold(0, |word, n| word | next() << (2 * n)));
        let (a, b, single) = five(a, b, c);
        let (d, e, f) = five(next(), next(), next());
        words[2 * unit] = a;
        words[2 * unit + 1] = b;
        words[2 * UNITS + unit] = next() | d << 2 | e << 4 | f << 7 | single & LAST;
        words[SHARED + unit / 2] |= (single & FIRST) << (unit % 2);
    }
    for (word, byte) in words[SHARED..].iter_mut().zip(&block[D..]) {
        *word |= (0..4).fold(0, |all, l| all | (u32::from(*byte) >> (2 * l) & 3) << (8 * l + 6));
    }
    for (out, word) in out.chunks_exact_mut(4).zip(words) {
        out.copy_from_slice(&word.to_le_bytes());
    }
}

/// The block behind [`code`], the least byte for its digits.
fn restore(coded: &[u8], block: &mut [u8]) {
    let word = |i: usize| u32_at(coded, 4 * i);
    let mut fours = Vec::with_capacity(16 * UNITS);
    for unit in 0..UNITS {
        let third = word(2 * UNITS + unit);
        let single = word(SHARED + unit / 2) >> (unit % 2) & FIRST | third & LAST;
        let [a, b, c] = three_of(word(2 * unit), word(2 * unit + 1), single);
        fours.extend([a, b, c].iter().flat_map(|w| (0..4).map(move |n| w >> (2 * n) & DIGITS)));
        fours.extend(three_of(third >> 2 & DIGITS, third >> 4 & DIGITS, third >> 7 & BYTES));
        fours.push(third & DIGITS);
    }
    let mut numbers = [0u32; D];
    for ((byte, n), four) in PLACES.into_iter().zip(fours) {
        for (number, digit) in numbers[byte..].iter_mut().zip(four.to_le_bytes()) {
            *number += u32::from(digit) * u32::from(POWERS[4 - n]);
        }
    }
    for (byte, number) in block.iter_mut().zip(numbers) {
        *byte = (number * 256).div_ceil(243) as u8;
    }
    for (i, byte) in block[D..].iter_mut().enumerate() {
        *byte = (0..4).fold(0, |all, l| all | ((word(SHARED + i) >> (8 * l + 6) & 3) << (2 * l)) as u8);
    }
}

/// Two words and single bits, at the lower of each digit's two, from three words of digits: the inverse of [`three`].
const fn five(a: u32, b: u32, c: u32) -> (u32, u32, u32) {
    let (two, both) = (c >> 1 & LOW, a & c & !LOW);
    let (both, escaped) = (both | both >> 1, (two & !(a >> 1)) * 3);
    (a & !both | escaped | b & both, b | both, c & LOW | a & escaped & LOW)
}

/// The inverse of [`five`].
const fn three_of(a: u32, b: u32, single: u32) -> [u32; 3] {
    let (a3, b3) = (a & a >> 1 & LOW, b & b >> 1 & LOW);
    let (both, two) = (b3 * 3, a3 | b3);
    [(a - a3 * 3) & !both | (b3 * 2) | single & a3, a & both | b & !both, single & !two | (two * 2)]
}

impl Format for Tq1_0 {
    const RECODING: Option<Recoding> = Some(Recoding { bytes: 4 * (SHARED as u32 + 2), code, restore });

    fn arms() -> Arms {
        Arms::packed::<Self>()
    }

    fn source(plane: usize, unit: usize, bit: usize) -> Option<usize> {
        match plane {
            0 => Some(64 * unit + bit),
            1 => Some(32 * (2 * UNITS + unit) + bit),
            2 => Some(32 * SHARED + bit),
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
    const UNIT: u32 = 64;
    const PLANES: &'static [Plane] = &[Plane::unit(8), Plane::unit(4), Plane::block(8, 4)];

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
        let d = half_bits(comptime!(opened(u)[6]));
        (d * 0.0625, -d)
    }

    fn lanes(u: &Unit, pack: u32) -> u32 {
        let (word, n) = (pack >> 2, pack & 3);
        let opened = comptime!(opened(u));
        let (a, b, c) = comptime!((opened[0], opened[1], opened[2]));
        let (d, e, f) = comptime!((opened[3], opened[4], opened[5]));
        let long = select(word == 0, a, select(word == 1, b, c));
        let four = select(n == 3, long >> 2, long << ((4 - n * 2) & 7));
        let last = select(n == 0, d, select(n == 1, e, select(n == 2, f, u.word(1, 0) << 4)));
        // Sixteen times the digits: most have to move up then, which is a multiplication for a device that has room for
        // those and none for shifts.
        select(word < 3, four, last) & SIXTEENTHS
    }
}

/// A unit's words of digits, A, B and C, then fours 12 to 14; the bits of its scale.
#[track_caller]
fn opened(u: &Unit) -> Vec<Ex<u32>> {
    u.once(|| {
        let ((a, b, c), (d, e, f)) = (long(u), short(u));
        vec![a, b, c, d, e, f, scale(u)]
    })
}

#[device]
fn scale(u: &Unit) -> u32 {
    let (low, high) = (u.word(2, 0) & SCALE, u.word(2, 1) & SCALE);
    ((low * GATHER) >> 24) | (((high * GATHER) >> 16) & 0xff00)
}

#[device]
fn long(u: &Unit) -> (u32, u32, u32) {
    let unit = u.in_block::<Tq1_0>();
    let shared = select(unit < 2, u.word(2, 0), u.word(2, 1)) >> (unit & 1);
    three(u.word(0, 0), u.word(0, 1), (shared & FIRST) | (u.word(1, 0) & LAST))
}

#[device]
fn short(u: &Unit) -> (u32, u32, u32) {
    let third = u.word(1, 0);
    three((third << 2) & SIXTEENTHS, third & SIXTEENTHS, (third >> 3) & (BYTES << 4))
}

/// The digits of a word with one in each byte, and their lower bits.
const DIGITS: u32 = 0x0303_0303;
const BYTES: u32 = 0x0101_0101;
/// The digits times sixteen.
const SIXTEENTHS: u32 = DIGITS << 4;
/// The lower bit of each digit of a word with sixteen; of those of n below 3, and of the last.
const LOW: u32 = 0x5555_5555;
const FIRST: u32 = 0x1515_1515;
const LAST: u32 = 0x4040_4040;
/// The bits of a shared word that are the scale's, and what multiplies them to be together above bit 24.
const SCALE: u32 = 0xc0c0_c0c0;
const GATHER: u32 = 0x0004_1041;

/// Three words of digits from two and a single bit each. A digit of the first two that is three says that C's is two:
/// in A, the single bit is A's; in B, A's is two and B's is where A's would be. Else the single bit is C's.
#[device]
fn three(a: u32, b: u32, single: u32) -> (u32, u32, u32) {
    let (a3, b3) = (a & (a >> 1) & LOW, b & (b >> 1) & LOW);
    let both = b3 * 3;
    let first = ((a - a3 * 3) & (both ^ u32::MAX)) | (both & !LOW) | (single & a3);
    (first, b ^ ((a ^ b) & both), (single & ((a3 | b3) ^ u32::MAX)) + a3 * 2 + b3 * 2)
}
