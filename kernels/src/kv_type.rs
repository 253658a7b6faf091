//! How keys and values lie in their pages: as f16, f32, or 32 at a time as bytes under a scale.
//!
//! A line holds one head of one position, `head_dim` elements, in whole 32-bit words, so a page needs no narrow storage
//! of a device:
//!
//! | type | words of a line |
//! |---|---|
//! | f32 | `head_dim` |
//! | f16 | `head_dim / 2`, the even element in the low half |
//! | q8_0 | `head_dim / 4` of four signed bytes, then `head_dim / 64` (rounded up) of two scales, f16 |
//!
//! Value of q8_0: `d · q`, `d = max |x| / 127` over 32 elements as f16, at least the smallest normal one.

use kiln_dsl::prelude::*;

/// A type of keys and values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KvType {
    /// 16-bit floats.
    #[default]
    F16,
    /// 32-bit floats.
    F32,
    /// 32 signed bytes under an f16 scale.
    Q8_0,
}

/// Elements under one scale.
pub const KV_BLOCK: u32 = 32;
/// The smallest normal f16: a smaller scale might be taken for zero.
const SMALLEST_SCALE: f32 = 1.0 / 16384.0;

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
            KvType::Q8_0 => self.data_words(head_dim) + head_dim.div_ceil(2 * KV_BLOCK),
            KvType::F16 | KvType::F32 => self.data_words(head_dim),
        }
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

/// Element `e` of a data word, without its scale.
#[device]
pub fn kv_element(word: u32, #[comptime] ty: KvType, #[comptime] e: u32) -> f32 {
    if comptime!(ty == KvType::F32) {
        bitcast::<f32, u32>(word)
    } else if comptime!(ty == KvType::F16) {
        let pair = unpack_half(word);
        if comptime!(e == 0) { pair.x() } else { pair.y() }
    } else {
        ((word << comptime!(24 - 8 * e)) as i32 >> 24) as f32
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
        let pair = unpack_half(pages[line + comptime!(ty.data_words(head_dim)) + b / 2]);
        select(b % 2 == 0, pair.x(), pair.y())
    } else {
        1.0
    }
}

/// Brings unit `u` of `x[from..from + head_dim]` to the line that starts at word `line`.
#[device]
pub fn kv_put(
    x: &Buf<f32>,
    from: u32,
    pages: &BufMut<u32>,
    line: u32,
    u: u32,
    #[comptime] ty: KvType,
    #[comptime] head_dim: u32,
) {
    if comptime!(ty == KvType::F32) {
        pages[line + u] = bitcast::<u32, f32>(x[from + u]);
    } else if comptime!(ty == KvType::F16) {
        pages[line + u] = pack_half(vec2(x[from + 2 * u], x[from + 2 * u + 1]));
    } else {
        let mut scales = [0.0, 0.0];
        for half in comptime!(0..2u32) {
            let b = 2 * u + half;
            if b < comptime!(head_dim / KV_BLOCK) {
                let first = from + b * KV_BLOCK;
                let mut largest = 0.0;
                for i in 0..KV_BLOCK {
                    largest = max(largest, abs(x[first + i]));
                }
                let d = unpack_half(pack_half(vec2(max(largest * (1.0 / 127.0), SMALLEST_SCALE), 0.0))).x();
                for w in 0..comptime!(KV_BLOCK / 4) {
                    let mut word = 0;
                    for e in comptime!(0..4u32) {
                        let q = clamp(round_ties_even(x[first + 4 * w + e] / d), -127.0, 127.0) as i32;
                        word |= (q as u32 & 255) << comptime!(8 * e);
                    }
                    pages[line + b * comptime!(KV_BLOCK / 4) + w] = word;
                }
                scales[half] = d;
            }
        }
        pages[line + comptime!(ty.data_words(head_dim)) + u] = pack_half(vec2(scales[0], scales[1]));
    }
}
