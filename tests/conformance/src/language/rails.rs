//! One decoding body over every memory a block can lie in: an element of a buffer by its index, read-only or written,
//! and a copy in workgroup memory; and four elements at once against one at a time.

use kiln_abi::{BufferRange, Device, Kernel, spirv::Op};
use kiln_dsl::prelude::*;

use super::{Row, same, text, words_of};

pub(super) const CASES: &[Row] = &[
    ("decoding on each rail, fours equal ones", |device| {
        every_rail::<Nibbles>(device)?;
        every_rail::<Bytes>(device)
    }),
    ("an element by its index reads its bytes alone", by_index),
];

/// 32 weights: a scale, an offset and nibbles, low halves first.
#[derive(Block)]
pub struct NibblesBlock {
    d: f16,
    m: f16,
    qs: [u16; 8],
}

/// Its fours are written out: one word holds the four nibbles.
pub struct Nibbles;

#[device]
impl QuantFormat for Nibbles {
    type Block = NibblesBlock;
    const BLK: u32 = 32;
    fn decode<R: Rail>(b: &BlockRef<NibblesBlock, R>, at: u32) -> f32 {
        let nibble = (b.qs[at >> 2] as u32) >> ((at & 3) * 4) & 15;
        fma(nibble as f32, b.d as f32, b.m as f32)
    }
    fn decode4<R: Rail>(b: &BlockRef<NibblesBlock, R>, at: u32) -> Vec4<f32> {
        let word = b.qs[at >> 2] as u32;
        let (d, m) = (b.d as f32, b.m as f32);
        vec4(
            fma((word & 15) as f32, d, m),
            fma((word >> 4 & 15) as f32, d, m),
            fma((word >> 8 & 15) as f32, d, m),
            fma((word >> 12) as f32, d, m),
        )
    }
}

/// 16 signed bytes with a scale of their own; the fours are the trait's.
#[derive(Block)]
pub struct BytesBlock {
    qs: [i8; 16],
    d: f32,
}

pub struct Bytes;

#[device]
impl QuantFormat for Bytes {
    type Block = BytesBlock;
    const BLK: u32 = 16;
    fn decode<R: Rail>(b: &BlockRef<BytesBlock, R>, at: u32) -> f32 {
        b.d * (b.qs[at] as f32)
    }
}

/// Six rows of y: ones and fours from the buffer, from a buffer that may be written, from workgroup memory.
#[kernel(local_size = 8, grid = 1)]
fn rails<F: QuantFormat>(w: &Buf<F::Block>, written: &BufMut<F::Block>, y: &BufMut<f32>, #[comptime] n: u32) {
    let t = local_id();
    let staged = Shared::<F::Block>::new(n);
    for i in (t..n).step_by(8) {
        stage_block(&w[i], &staged[i]);
    }
    barrier();
    let elements = comptime!(n * F::BLK);
    for e in (t * 4..elements).step_by(32) {
        let (block, at) = (e / F::BLK, e % F::BLK);
        for k in comptime!(0..4u32) {
            y[e + k] = F::decode(&w[block], at + k);
            y[elements * 2 + e + k] = F::decode(&written[block], at + k);
            y[elements * 4 + e + k] = F::decode(&staged[block], at + k);
        }
        let (a, b, c) =
            (F::decode4(&w[block], at), F::decode4(&written[block], at), F::decode4(&staged[block], at));
        for k in comptime!(0..4u32) {
            y[elements + e + k] = a[k];
            y[elements * 3 + e + k] = b[k];
            y[elements * 5 + e + k] = c[k];
        }
    }
}

fn every_rail<F: QuantFormat>(device: &dyn Device) -> Result<(), String> {
    let n = 5;
    let bytes = n * <F::Block as Elem>::BYTES;
    // Small exponents everywhere, so that no scale is infinite or not a number.
    let byte = |i: u32| (i.wrapping_mul(0x9e37_79b9) >> 9) as u8 & 0x3b;
    let block: Vec<u8> = (0..bytes.next_multiple_of(4)).map(byte).collect();
    let w: Vec<u32> = block.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect();
    let elements = (n * F::BLK) as usize;
    let kernel = Rails::<F>::new(n);
    let args = |r: &[BufferRange]| RailsArgs { w: r[0].into(), written: r[1].into(), y: r[2].into() };
    let found = words_of(device, &kernel, &[&w, &w, &vec![0; 6 * elements]], args)?;
    let (ones, rest) = found.split_at(elements);
    if !ones.iter().any(|&v| v != ones[0]) {
        return Err("expected weights that differ".to_owned());
    }
    rest.chunks_exact(elements).try_for_each(|row| same(row, ones))
}

/// One element: y[0] is weight x[0] of block x[1].
#[kernel(local_size = 1, grid = 1)]
fn one_element(w: &Buf<NibblesBlock>, x: &Buf<u32>, y: &BufMut<f32>) {
    y[0] = Nibbles::decode(&w[x[1]], x[0]);
}

fn by_index(device: &dyn Device) -> Result<(), String> {
    let staged = OneElement.stage().map_err(text)?;
    let (mut at, mut loads) = (5, 0);
    while let Some(&first) = staged.words.get(at) {
        loads += usize::from(first & 0xffff == u32::from(Op::Load.number()));
        at += (first >> 16).max(1) as usize;
    }
    // Two of x; scale, offset and one word of the block.
    if loads != 5 {
        return Err(format!("expected 5 loads, the block is never copied; found {loads}"));
    }
    let half = |v: f32| u32::from(f16::from_f32(v).to_bits());
    let block = [half(0.5) | half(-1.0) << 16, 0x7654_3210, 0xfedc_ba98, 0, 0];
    let w = [[0; 5], block].concat();
    for at in 0..16 {
        let args = |r: &[BufferRange]| OneElementArgs { w: r[0].into(), x: r[1].into(), y: r[2].into() };
        let found = words_of(device, &OneElement, &[&w, &[at, 1], &[0]], args)?;
        same(&found, &[(at as f32 * 0.5 - 1.0).to_bits()])?;
    }
    Ok(())
}
