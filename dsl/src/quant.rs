//! What a quantization format says to a kernel. One body serves every memory: the block is behind a reference.

use kiln_dsl_macros::device;

use crate::{
    block::{Block, BlockRef},
    math::vec4,
    place::Rail,
    value::Vec4,
};

/// A format whose rows are blocks of `BLK` elements.
///
/// Elements are counted within their block. Where a block is aligned to two bytes only, read it by `u16` and shift:
/// picking single bytes costs more than the arithmetic around it.
#[device]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a quantization format",
    label = "a format implements `QuantFormat` in its own file"
)]
pub trait QuantFormat: 'static {
    /// The block as it lies in a buffer.
    type Block: Block;
    /// Elements per block.
    const BLK: u32;

    /// The element `at` (less than `BLK`).
    fn decode<R: Rail>(b: &BlockRef<Self::Block, R>, at: u32) -> f32;

    /// The elements `at` to `at + 3`; `at` is a multiple of four. It equals four calls of [`QuantFormat::decode`].
    fn decode4<R: Rail>(b: &BlockRef<Self::Block, R>, at: u32) -> Vec4<f32> {
        vec4(Self::decode(b, at), Self::decode(b, at + 1), Self::decode(b, at + 2), Self::decode(b, at + 3))
    }
}
