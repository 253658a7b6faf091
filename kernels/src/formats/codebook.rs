//! Rules that several codebook formats share: the signs and the tables of sixteen values.

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
