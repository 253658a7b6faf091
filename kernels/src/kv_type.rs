//! How keys and values lie in their pages: as f16, f32, or 32 at a time as nine-bit integers under a scale.
//!
//! A line holds one head of one position, `head_dim` elements, in whole 32-bit words, so a page needs no narrow storage
//! of a device:
//!
//! | type | words of a line |
//! |---|---|
//! | f32 | `head_dim` |
//! | f16 | `head_dim / 2`, the even element in the low half |
//! | q8_0 | `head_dim / 4` of four signed bytes, `head_dim / 32` of 32 low bits, `head_dim / 64` (rounded up) of two scales, f16 |
//!
//! Value of q8_0: `d · (2 · byte + low bit)`, `d = max |x| / 255` over 32 elements as f16, at least the smallest normal
//! one; x is the Hadamard transform of 32 elements of the head, for keys as they are after their rotation. Keys have
//! channels far larger than the rest, and plain bytes under one scale for all move the logits of a small model by 0.1.
//! The transform spreads the large channels, which halves that; the low bit costs 12 % of the memory and halves it
//! again.

use kiln_dsl::prelude::*;

use crate::hadamard::hadamard;

/// A type of keys and values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KvType {
    /// 16-bit floats.
    #[default]
    F16,
    /// 32-bit floats.
    F32,
    /// 32 integers of nine bits, a byte and a low bit each, under an f16 scale.
    Q8_0,
}

/// Elements under one scale.
pub const KV_BLOCK: u32 = 32;
/// The smallest normal f16: a smaller scale might be taken for zero.
pub const SMALLEST_SCALE: f32 = 1.0 / 16384.0;

impl KvType {
    /// Every type.
    pub const ALL: [KvType; 3] = [KvType::F16, KvType::F32, KvType::Q8_0];

    /// Its name, as `--kv-type` takes it.
    pub const fn name(self) -> &'static str {
        match self {
            KvType::F16 => "f16",
            KvType::F32 => "f32",
            KvType::Q8_0 => "q8_0",
        }
    }

    /// The type called `name`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.name() == name)
    }

    /// Whether lines hold the Hadamard transform of their runs of [`KV_BLOCK`] elements.
    pub const fn is_mixed(self) -> bool {
        matches!(self, KvType::Q8_0)
    }

    /// What a head's width must be a multiple of.
    pub const fn multiple(self) -> u32 {
        match self {
            KvType::F16 => 2,
            KvType::F32 => 1,
            KvType::Q8_0 => KV_BLOCK,
        }
    }

    /// Elements of a data word.
    pub const fn per_word(self) -> u32 {
        match self {
            KvType::F16 => 2,
            KvType::F32 => 1,
            KvType::Q8_0 => 4,
        }
    }

    /// Data words of a line.
    pub const fn data_words(self, head_dim: u32) -> u32 {
        head_dim / self.per_word()
    }

    /// Words of a line, scales included.
    pub const fn line_words(self, head_dim: u32) -> u32 {
        match self {
            KvType::Q8_0 => self.scale_word(head_dim) + head_dim.div_ceil(2 * KV_BLOCK),
            KvType::F16 | KvType::F32 => self.data_words(head_dim),
        }
    }

    /// The word of a line at which q8_0 has its scales, after the data and the low bits.
    const fn scale_word(self, head_dim: u32) -> u32 {
        self.data_words(head_dim) + head_dim / KV_BLOCK
    }

    /// Elements that one invocation of `kv_store` brings to a line: what shares a word.
    pub const fn unit(self) -> u32 {
        match self {
            KvType::F16 => 2,
            KvType::F32 => 1,
            KvType::Q8_0 => 2 * KV_BLOCK,
        }
    }
}

/// The low bits of the elements of data word `w`, from bit 0 on, of the line that starts at word `line`; none where the
/// type has none.
#[device]
pub fn kv_low(pages: &Buf<u32>, line: u32, w: u32, #[comptime] ty: KvType, #[comptime] head_dim: u32) -> u32 {
    if comptime!(ty == KvType::Q8_0) {
        pages[line + comptime!(ty.data_words(head_dim)) + w / 8] >> (4 * (w % 8))
    } else {
        0
    }
}

/// Element `e` of a data word with the low bits of its elements, without its scale.
#[device]
pub fn kv_element(word: u32, low: u32, #[comptime] ty: KvType, #[comptime] e: u32) -> f32 {
    if comptime!(ty == KvType::F32) {
        bitcast::<f32, u32>(word)
    } else if comptime!(ty == KvType::F16) {
        let pair = unpack_half(word);
        if comptime!(e == 0) { pair.x() } else { pair.y() }
    } else {
        let byte = (word << comptime!(24 - 8 * e)) as i32 >> 24;
        (byte * 2 + (low >> e & 1) as i32) as f32
    }
}

/// The scale of block `b` of the line that starts at word `line`; one where the type has none.
#[device]
pub fn kv_scale(
    pages: &Buf<u32>,
    line: u32,
    b: u32,
    #[comptime] ty: KvType,
    #[comptime] head_dim: u32,
) -> f32 {
    if comptime!(ty == KvType::Q8_0) {
        let pair = unpack_half(pages[line + comptime!(ty.scale_word(head_dim)) + b / 2]);
        select(b % 2 == 0, pair.x(), pair.y())
    } else {
        1.0
    }
}

/// Brings a head, which is in workgroup memory, to the line that starts at word `line`, for invocation `t` of `local`;
/// every invocation has to come here, and the head is not the same afterwards.
#[device]
pub fn kv_put(
    x: &Shared<f32>,
    pages: &BufMut<u32>,
    line: u32,
    t: u32,
    #[comptime] local: u32,
    #[comptime] ty: KvType,
    #[comptime] head_dim: u32,
) {
    if comptime!(ty.is_mixed()) {
        hadamard(&x, t, comptime!(head_dim), comptime!(local));
    }
    for u in (t..comptime!(head_dim.div_ceil(ty.unit()))).step_by(local) {
        kv_put_unit(&x, &pages, line, u, comptime!(ty), comptime!(head_dim));
    }
}

/// The nearest f16 to a positive value in its normal range, of two the even one.
///
/// By the bits: a driver may take packing and unpacking for nothing, and what is stored is then not what divided.
#[device]
fn rounded_to_half(x: f32) -> f32 {
    let bits = bitcast::<u32, f32>(x);
    bitcast::<f32, u32>((bits + 0xfff + (bits >> 13 & 1)) & 0xffff_e000)
}

/// Unit `u` of a line.
#[device]
fn kv_put_unit(
    x: &Shared<f32>,
    pages: &BufMut<u32>,
    line: u32,
    u: u32,
    #[comptime] ty: KvType,
    #[comptime] head_dim: u32,
) {
    if comptime!(ty == KvType::F32) {
        pages[line + u] = bitcast::<u32, f32>(x[u]);
    } else if comptime!(ty == KvType::F16) {
        pages[line + u] = pack_half(vec2(x[2 * u], x[2 * u + 1]));
    } else {
        let mut scales = [0.0, 0.0];
        for half in comptime!(0..2u32) {
            let b = 2 * u + half;
            if b < comptime!(head_dim / KV_BLOCK) {
                let first = b * KV_BLOCK;
                let mut largest = 0.0;
                for i in 0..KV_BLOCK {
                    largest = max(largest, abs(x[first + i]));
                }
                let d = rounded_to_half(max(largest * (1.0 / 255.0), SMALLEST_SCALE));
                let mut low = 0;
                for w in 0..comptime!(KV_BLOCK / 4) {
                    let mut word = 0;
                    for e in comptime!(0..4u32) {
                        let q = clamp(round_ties_even(x[first + 4 * w + e] / d), -255.0, 255.0) as i32;
                        word |= ((q >> 1) as u32 & 255) << comptime!(8 * e);
                        low |= (q as u32 & 1) << (4 * w + e);
                    }
                    pages[line + b * comptime!(KV_BLOCK / 4) + w] = word;
                }
                pages[line + comptime!(ty.data_words(head_dim)) + b] = low;
                scales[half] = d;
            }
        }
        pages[line + comptime!(ty.scale_word(head_dim)) + u] = pack_half(vec2(scales[0], scales[1]));
    }
}
