//! What the host has to know of a format, apart from any device.

use kiln_abi::BlockGeometry;

/// A tensor format as files hold it.
pub trait HostFormat {
    /// ggml's type id, as GGUF files store it.
    const ID: u32;
    /// ggml's name.
    const NAME: &'static str;
    /// Elements and bytes of a block.
    const GEOMETRY: BlockGeometry;

    /// The values of one block: `block` has `GEOMETRY.bytes()` bytes, `out` room for `GEOMETRY.elements()` values.
    fn dequantize(block: &[u8], out: &mut [f32]);
}

/// A format that the host writes.
pub trait Quantize: HostFormat {
    /// The block nearest to `GEOMETRY.elements()` finite values, by the format's plain rule.
    ///
    /// A scale too large for f16 is infinite; one whose inverse is too large for f32 makes every quant zero.
    fn quantize(values: &[f32], block: &mut [u8]);
}

/// `1 / d`, zero where it is not finite.
pub fn inverse(d: f32) -> f32 {
    let inverse = d.recip();
    if inverse.is_finite() { inverse } else { 0.0 }
}

/// Stores `value` as a little-endian f16 at byte `at` of a block.
pub fn set_f16(block: &mut [u8], at: usize, value: f32) {
    block[at..at + 2].copy_from_slice(&half::f16::from_f32(value).to_le_bytes());
}

/// The little-endian u16 at byte `at` of a block.
pub fn u16_at(block: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([block[at], block[at + 1]])
}

/// The little-endian u32 at byte `at` of a block.
pub fn u32_at(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
}

/// The little-endian f16 at byte `at` of a block.
pub fn f16_at(block: &[u8], at: usize) -> f32 {
    half::f16::from_bits(u16_at(block, at)).to_f32()
}

/// Nibble `i` of a block's bytes from `at` on, the low half of a byte first.
pub fn nibble_at(block: &[u8], at: usize, i: usize) -> u8 {
    block[at + i / 2] >> (4 * (i % 2)) & 15
}
