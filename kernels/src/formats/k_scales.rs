//! The twelve bytes in which Q4_K and Q5_K hold eight scales and eight minima of six bits.
//!
//! For b < 4 the scale is the low six bits of byte b and the minimum those of byte b + 4. For b ≥ 4 the low four bits
//! of both are in byte b + 4, the scale's in its low half; the top two bits of byte b − 4 complete the scale, those of
//! byte b the minimum.

/// Bytes of the field.
pub const BYTES: usize = 12;

/// Scale and minimum of sub-block `b`, of eight.
pub fn scale_min(field: &[u8], b: usize) -> (u8, u8) {
    if b < 4 {
        return (field[b] & 63, field[b + 4] & 63);
    }
    let low = field[b + 4];
    (low & 15 | field[b - 4] >> 6 << 4, low >> 4 | field[b] >> 6 << 4)
}

/// The bit of the field behind `bit` of sub-block `b`'s pair on a device: the scale in bits 0 to 5, the minimum in 8
/// to 13.
pub fn bit(b: usize, bit: usize) -> Option<usize> {
    let (minimum, t) = (bit / 8, bit % 8);
    match t {
        0..6 if b < 4 => Some(8 * (b + 4 * minimum) + t),
        0..4 => Some(8 * (b + 4) + 4 * minimum + t),
        4..6 => Some(8 * (b - 4 + 4 * minimum) + 2 + t),
        _ => None,
    }
}
