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
    // What stands in the place of an eighth sign cancels out.
    let two = word ^ (word >> 4);
    let four = two ^ (two >> 16);
    word ^ ((four ^ (four >> 8)) << 28)
}

/// A one in each byte of pack `pack` that is negative, of signs that [`spread_seven`] lays out.
#[device]
pub fn ones_of(signs: u32, pack: u32) -> u32 {
    (signs >> ((pack >> 1) + (pack & 1) * 4)) & 0x0101_0101
}

/// The four bytes of pack `pack` of an entry that has two.
#[device]
pub fn half_of(entry: Vec2<u32>, pack: u32) -> u32 {
    select((pack & 1) == 0, entry.x(), entry.y())
}

/// Four bytes, none of them zero, negated where `ones` has a one.
#[device]
pub fn negated(bytes: u32, ones: u32) -> u32 {
    // -b is !b + 1, which carries into no other byte.
    (bytes ^ (ones * 255)) + ones
}
