//! Rows of x as the integer dot product takes them: blocks of 32 with a power of two for a scale.
//!
//! `d = 2^(e - 15)` for the smallest e that keeps |q| ≤ 32 639, where `q = round(x / d)`, ties to even, and
//! `q = 256 · hi + lo` in signed bytes. Each step is exact but the rounding, so every device makes the same bytes.
//! Shapes: x `[rows, k]` f32; y `[rows, 5, k / 32]` of 16 bytes: hi of elements 0 to 15 of each block, hi of 16 to 31,
//! lo of both, then (d, d · Σq of elements 0 to 15, d · Σq of 16 to 31, 0) as f32. An invocation owns a block.
//! Traffic: 128 bytes read and 80 written per block. Numerics: |x - d q| ≤ d / 2.

use kiln_abi::{BufferRange, Kernel};
use kiln_dsl::prelude::*;

use crate::{
    Call, Variant,
    conformance::{Buffer, Case, Content, Expected, Random, f32_bytes, plain_step},
    step::n_rows,
};

/// Elements of a block.
pub const BLOCK: u32 = 32;
/// Fields of 16 bytes that a block has.
pub const FIELDS: u32 = 5;

/// Bytes of `rows` rows of `k` elements.
pub const fn row_bytes(rows: u64, k: u32) -> u64 {
    rows * (k / BLOCK * FIELDS * 16) as u64
}

/// Push constants of `quantize_rows`.
#[derive(Clone, Copy, Debug, Push)]
pub struct QuantizeRowsPush {
    /// Rows that the command has room for.
    pub rows: u32,
    /// Elements of a row, a multiple of 32.
    pub k: u32,
    /// Rows of x for a row of the step.
    pub used: u32,
}

const LOCAL_SIZE: u32 = 64;
/// What keeps the largest q at 32 639: with 2^15 its high byte would not be a signed one.
const ROOM: f32 = 32768.0 / 32639.0;

/// The kernel.
#[kernel(local_size = LOCAL_SIZE, grid = [(p.k / BLOCK).div_ceil(LOCAL_SIZE), p.rows])]
pub fn quantize_rows(
    #[len(p.rows * (p.k / 4))] x: &Buf<Vec4<f32>>,
    #[len(4 + 4 * p.rows / p.used)] step: &Buf<u32>,
    #[len(p.rows * (p.k / BLOCK) * FIELDS)] y: &BufMut<Vec4<u32>>,
    #[push] p: QuantizeRowsPush,
) {
    let r = workgroup_id_y();
    let block = global_id_x();
    let blocks = p.k / BLOCK;
    if r < n_rows(&step) * p.used && block < blocks {
        let mut v = [splat::<Vec4<f32>>(0.0); 8];
        let mut most = 0.0;
        for i in comptime!(0..8u32) {
            let four = x[(r * blocks + block) * 8 + i];
            v[i] = four;
            most = max(most, max(max(abs(four.x()), abs(four.y())), max(abs(four.z()), abs(four.w()))));
        }
        // A normal power of two either way: what is smaller than 2^-126 becomes 0.
        let exponent = clamp(bitcast::<u32, f32>(most * ROOM) >> 23, 15, 254);
        let (d, inverse) =
            (bitcast::<f32, u32>((exponent - 14) << 23), bitcast::<f32, u32>((268 - exponent) << 23));
        let mut words = [0u32; 16];
        let mut sums = [0; 2];
        for i in comptime!(0..8u32) {
            let four = v[i];
            let (q0, q1) = (rounded(four.x() * inverse), rounded(four.y() * inverse));
            let (q2, q3) = (rounded(four.z() * inverse), rounded(four.w() * inverse));
            sums[i / 4] += (q0 + q1) + (q2 + q3);
            words[i] = bytes(high(q0), high(q1), high(q2), high(q3));
            words[i + 8] = bytes(q0, q1, q2, q3);
        }
        let at = r * blocks * FIELDS + block;
        for i in comptime!(0..4u32) {
            y[at + i * blocks] = vec4(words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]);
        }
        let (s0, s1) = (sums[0] as f32 * d, sums[1] as f32 * d);
        y[at + 4 * blocks] =
            vec4(bitcast::<u32, f32>(d), bitcast::<u32, f32>(s0), bitcast::<u32, f32>(s1), 0);
    }
}

/// The nearest integer, ties to even; a NaN or an infinity, which no row has, stays within range.
#[device]
fn rounded(x: f32) -> i32 {
    round_ties_even(clamp(x, -32639.0, 32639.0)) as i32
}

/// `hi` of `q = 256 · hi + lo` with `lo` a signed byte.
#[device]
fn high(q: i32) -> i32 {
    (q + 128) >> 8
}

/// The low bytes of four integers as a word.
#[device]
fn bytes(a: i32, b: i32, c: i32, d: i32) -> u32 {
    let (a, b) = (a as u32 & 0xff, b as u32 & 0xff);
    let (c, d) = (c as u32 & 0xff, d as u32 & 0xff);
    (a | (b << 8)) | ((c << 16) | (d << 24))
}

/// A row in this form, by plain Rust: the words of y, and the values that they stand for.
pub fn quantize_row(x: &[f32]) -> (Vec<u32>, Vec<f32>) {
    let n_blocks = x.len() / BLOCK as usize;
    let mut words = vec![0; n_blocks * FIELDS as usize * 4];
    let mut values = Vec::with_capacity(x.len());
    for (b, block) in x.chunks_exact(BLOCK as usize).enumerate() {
        let most = block.iter().fold(0.0f32, |most, x| f32::max(most, f32::abs(*x)));
        let exponent = ((most * ROOM).to_bits() >> 23).clamp(15, 254);
        let (d, inverse) = (f32::from_bits((exponent - 14) << 23), f32::from_bits((268 - exponent) << 23));
        let quant = |x: &f32| (x * inverse).round_ties_even().clamp(-32639.0, 32639.0) as i32;
        let q: Vec<i32> = block.iter().map(quant).collect();
        let mut put =
            |field: usize, word: usize, value: u32| words[(field * n_blocks + b) * 4 + word] = value;
        for (i, four) in q.chunks_exact(4).enumerate() {
            let word = |byte: fn(i32) -> i32| {
                u32::from_le_bytes(std::array::from_fn(|j| byte(four[j]).to_le_bytes()[0]))
            };
            put(i / 4, i % 4, word(|q| (q + 128) >> 8));
            put(2 + i / 4, i % 4, word(|q| q));
        }
        put(4, 0, d.to_bits());
        for (half, q) in q.chunks_exact(16).enumerate() {
            put(4, 1 + half, (q.iter().sum::<i32>() as f32 * d).to_bits());
        }
        values.extend(q.iter().map(|q| *q as f32 * d));
    }
    (words, values)
}

/// A launch.
pub fn call(x: BufferRange, step: BufferRange, y: BufferRange, p: QuantizeRowsPush) -> Call {
    Call::new(QuantizeRows::new(), &QuantizeRowsArgs { x: x.into(), step: step.into(), y: y.into(), p })
}

/// The kernel's one variant.
pub fn variants() -> Vec<Variant> {
    let cases = || [(1, 32, 1), (3, 96, 1), (2, 2080, 3)].map(case).into();
    vec![Variant::new("quantize_rows", QuantizeRows::new(), cases)]
}

/// Blocks of every size, of zeros, and with subnormal numbers.
fn case((rows, k, used): (u32, u32, u32)) -> Case {
    let mut random = Random::new(u64::from(k));
    let n = rows * used;
    let mut x = random.units((n * k) as usize);
    for (i, block) in x.chunks_exact_mut(BLOCK as usize).enumerate() {
        let size = [1.0, 0.0, 1e-37, 3e38, 1e-3, 777.0][i % 6];
        block.iter_mut().for_each(|x| *x *= size);
    }
    // Subnormal inputs may count as zero on a device.
    x.iter_mut().filter(|x| x.is_subnormal()).for_each(|x| *x = 0.0);
    let words = x.chunks_exact(k as usize).flat_map(|x| quantize_row(x).0).collect();
    Case {
        name: format!("rows = {n}, k = {k}"),
        buffers: vec![
            Buffer::Input(f32_bytes(&x)),
            Buffer::Input(plain_step(rows)),
            Buffer::Output(usize::try_from(row_bytes(n.into(), k)).unwrap_or(0)),
        ],
        expected: vec![Expected { binding: 2, content: Content::Words(words) }],
        bind: Box::new(move |r| {
            let p = QuantizeRowsPush { rows: n, k, used };
            QuantizeRows::new().bind(&QuantizeRowsArgs {
                x: r[0].into(),
                step: r[1].into(),
                y: r[2].into(),
                p,
            })
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_within_half_a_step() {
        let x = Random::new(7).units(320);
        let (_, values) = quantize_row(&x);
        for (x, v) in x.chunks(32).zip(values.chunks(32)) {
            let most = x.iter().fold(0.0f32, |m, x| f32::max(m, f32::abs(*x)));
            let step = 2f32.powi((most * ROOM).log2().floor() as i32 + 1 - 15);
            assert!(x.iter().zip(v).all(|(x, v)| (x - v).abs() <= step / 2.0));
        }
    }
}
