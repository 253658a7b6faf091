//! Rules that several codebook formats share: the signs and the tables of sixteen values.

use kiln_dsl::prelude::*;

/// The values of the IQ4 formats.
pub const IQ4_VALUES: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// E2M1 floats (sign, two exponent bits, one mantissa bit), doubled so that they are whole.
pub const E2M1_DOUBLED: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// The eight signs that the low seven bits of `index` stand for: the eighth makes the number of minus signs even.
pub fn even_signs(index: u32) -> u8 {
    let seven = index as u8 & 0x7f;
    seven | (seven.count_ones() as u8 & 1) << 7
}

/// Writes `scale · value` for each value, negated where its bit of `signs` is set.
pub fn write_signed(out: &mut [f32], scale: f32, values: impl IntoIterator<Item = f32>, signs: u8) {
    for (j, (out, value)) in out.iter_mut().zip(values).enumerate() {
        let product = scale * value;
        *out = if signs >> j & 1 == 1 { -product } else { product };
    }
}

/// For each byte of two nibbles, their values: the low one's in byte 0, the high one's in byte 2.
pub fn pair_table(values: &[i8; 16]) -> Vec<u32> {
    let value = |nibble: usize| u32::from(values[nibble].cast_unsigned());
    (0..256).map(|byte| value(byte & 15) | value(byte >> 4) << 16).collect()
}

/// The four values behind the bytes 2h and 2h + 1 of `word`, whose nibbles [`pair_table`], the format's plane `plane`, is
/// looked up for; h is 0 or 1.
#[device]
pub fn two_pairs(u: &Unit, plane: u32, word: u32, h: u32) -> u32 {
    u.lookup(plane, word, h * 16, 8) + u.lookup(plane, word, h * 16 + 8, 8) * 256
}

/// Where the bit of a word of signs on a device comes from: bit p of byte l is the sign of element 8p + l, bit 4 + p that
/// of element 8p + 4 + l.
///
/// Files keep seven bits for eight signs; the places of the eighth hold the bits 28 to 31 of the file's word.
pub const fn spread_seven(bit: usize) -> usize {
    let (l, p) = (bit / 8, bit % 8);
    if bit < 28 { 7 * (p % 4) + 4 * (p / 4) + l } else { bit }
}

/// All signs of a word that [`spread_seven`] lays out: the eighth of each makes the number of minus signs even.
#[device]
pub fn all_signs(word: u32) -> u32 {
    // Up, for a shift up may be a multiplication; what stands in the place of an eighth sign cancels out.
    let three = word ^ (word << 4) ^ (word << 8);
    word ^ ((three ^ (three << 12) ^ (three << 24)) & 0xf000_0000)
}

/// The bit of each byte that [`spread_seven`] gives pack `pack`.
#[device]
pub fn spread_bit(pack: u32) -> u32 {
    (pack >> 1) + (pack & 1) * 4
}

/// A word of signs moved down by 0, `n`, 2 `n`, ... bits, for [`negated`]: made once, for a driver works out each bit alone
/// where it meets the whole for each. `all` has the signs from bit 4 of each byte on, if not all of them.
#[track_caller]
pub fn moved_signs(u: &Unit, n: u32, signs: impl FnOnce() -> (Ex<u32>, Ex<u32>)) -> Vec<Ex<u32>> {
    u.once(|| {
        let (first, all) = signs();
        (0..8).step_by(n as usize).map(|by| moved_down(if by + n <= 4 { first } else { all }, by)).collect()
    })
}

#[device]
fn moved_down(word: u32, #[comptime] by: u32) -> u32 {
    word >> by
}

/// A one for each byte whose bit `bit` of a word of signs is set, at bit `bit % n`.
#[track_caller]
pub fn signs_at(moved: &[Ex<u32>], bit: Ex<u32>, n: u32) -> Ex<u32> {
    let last = moved.len() - 1;
    let word =
        (0..last).rev().fold(moved[last], |later, i| first_of(moved[i], later, bit, (i as u32 + 1) * n));
    ones_at(word, bit, n)
}

#[device]
fn first_of(word: u32, later: u32, bit: u32, #[comptime] end: u32) -> u32 {
    select(bit < end, word, later)
}

#[device]
fn ones_at(word: u32, bit: u32, #[comptime] n: u32) -> u32 {
    word & (0x0101_0101 << (bit % n))
}

/// The four bytes of pack `pack` of an entry that has two.
#[device]
pub fn half_of(entry: Vec2<u32>, pack: u32) -> u32 {
    select((pack & 1) == 0, entry.x(), entry.y())
}

/// Four bytes, multiples of `2^(n - 1)` and none of them zero, negated where `ones`, of [`signs_at`], has one at bit `at`.
///
/// What is above a byte's bits that are zero can be flipped by a bit that stands at any of these: `n` neighbors of one
/// shift.
#[device]
pub fn negated(bytes: u32, ones: u32, at: u32) -> u32 {
    // -b is !b + 1, which carries into no other byte.
    (bytes ^ (ones * (255 >> at))) + ones
}

/// `d · (0.5 + s) · 0.125` for the s in bits 19 to 22 of a word whose other bits are zero: the sixteenths of a float from 1
/// on.
#[device]
pub fn two_scale(d: f32, word: u32) -> f32 {
    // A sum, for the word was moved up: both are one instruction.
    fma(bitcast::<f32, u32>(word + 0x3f80_0000), d * 2.0, d * -1.9375)
}

/// The codebook's bytes times `by`.
pub fn times(bytes: Vec<u32>, by: u32) -> Vec<u32> {
    // No byte carries: codebooks are of small numbers.
    bytes.into_iter().map(|four| four * by).collect()
}
