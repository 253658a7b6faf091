//! Rows of x as the integer dot product takes them: blocks of 32 with a power of two for a scale.
//!
//! `d = 2^(e - 15)` for the smallest e that keeps |q| ≤ 32 639, where `q = round(x / d)`, ties to even, and
//! `q = 256 · hi + lo` in signed bytes. Each step is exact but the rounding, so every device makes the same bytes.
//! Shapes: x `[rows, k]` f32; y `[rows, 5, k / 32]` of 16 bytes: hi of elements 0 to 15 of each block, hi of 16 to 31,
//! lo of both, then (d, d · Σq of elements 0 to 15, d · Σq of 16 to 31, 0) as f32. An invocation owns four elements.
//! Traffic: 128 bytes read and 80 written per block. Numerics: |x - d q| ≤ d / 2.

use kiln_abi::{BufferRange, Kernel};
use kiln_dsl::prelude::*;

use crate::{
    Call, Variant,
    conformance::{Buffer, Case, Content, Expected, Random, f32_bytes, plain_step},
    fold::halves,
    gemv::SUBGROUP,
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

const LOCAL_SIZE: u32 = 256;
/// What keeps the largest q at 32 639: with 2^15 its high byte would not be a signed one.
const ROOM: f32 = 32768.0 / 32639.0;

/// The kernel.
#[kernel(local_size = LOCAL_SIZE, subgroup = subgroup, grid = [(p.k / 4).div_ceil(LOCAL_SIZE), p.rows])]
pub fn quantize_rows(
    #[len(p.rows * (p.k / 4))] x: &Buf<Vec4<f32>>,
    #[len(4 + 4 * p.rows / p.used)] step: &Buf<u32>,
    #[len(p.rows * (p.k / BLOCK) * FIELDS * 4)] y: &BufMut<u32>,
    #[push] p: QuantizeRowsPush,
    #[comptime] subgroup: Option<u32>,
) {
    let r = workgroup_id_y();
    if r >= n_rows(&step) * p.used {
        return;
    }
    let (fours, at) = (p.k / 4, global_id_x());
    let shared = Shared::<u32>::new(comptime!(put_len(LOCAL_SIZE, subgroup)));
    let four = x[r * fours + min(at, fours - 1)];
    put_four(four, at, r, fours, &y, &shared, comptime!(subgroup));
}

/// Invocations that share a block.
const SHARERS: u32 = BLOCK / 4;

/// Elements of workgroup memory that [`put_four`] takes.
pub(crate) const fn put_len(local: u32, subgroup: Option<u32>) -> u32 {
    match subgroup {
        Some(_) => 1,
        None => local,
    }
}

/// Writes elements `4 at` to `4 at + 3` of row `r`, which has `fours` times four, as their part of a block. The eight
/// invocations of a block are neighbors; all of a workgroup have to come here, those past the row to no effect.
#[device]
pub fn put_four(
    v: Vec4<f32>,
    at: u32,
    r: u32,
    fours: u32,
    y: &BufMut<u32>,
    shared: &Shared<u32>,
    #[comptime] subgroup: Option<u32>,
) {
    let most = most_of_block(
        max(max(abs(v.x()), abs(v.y())), max(abs(v.z()), abs(v.w()))),
        &shared,
        comptime!(subgroup),
    );
    // A normal power of two either way: what is smaller than 2^-126 becomes 0.
    let exponent = clamp(bitcast::<u32, f32>(most * ROOM) >> 23, 15, 254);
    let (d, inverse) =
        (bitcast::<f32, u32>((exponent - 14) << 23), bitcast::<f32, u32>((268 - exponent) << 23));
    let (q0, q1) = (rounded(v.x() * inverse), rounded(v.y() * inverse));
    let (q2, q3) = (rounded(v.z() * inverse), rounded(v.w() * inverse));
    let half = sum_of_half((q0 + q1) + (q2 + q3), &shared, comptime!(subgroup));
    if at < fours {
        let (blocks, block, word) = (fours / SHARERS, at / SHARERS, at % SHARERS);
        let (field, place) = (word / 4, word % 4);
        let row = r * FIELDS;
        y[((row + field) * blocks + block) * 4 + place] = bytes(high(q0), high(q1), high(q2), high(q3));
        y[((row + field + 2) * blocks + block) * 4 + place] = bytes(q0, q1, q2, q3);
        let last = ((row + 4) * blocks + block) * 4;
        if place == 0 {
            y[last + 1 + field] = bitcast::<u32, f32>(half as f32 * d);
        }
        if word == 1 {
            y[last] = bitcast::<u32, f32>(d);
        }
        if word == 2 {
            y[last + 3] = 0;
        }
    }
}

/// The largest of the eight values of a block's invocations.
#[device]
fn most_of_block(own: f32, shared: &Shared<u32>, #[comptime] subgroup: Option<u32>) -> f32 {
    let mut most = own;
    if comptime!(subgroup.is_some()) {
        for mask in comptime!(halves(SHARERS)) {
            let other = subgroup::shuffle_xor(most, mask);
            most = max(most, other);
        }
    } else {
        let t = local_id();
        shared[t] = bitcast::<u32, f32>(own);
        barrier();
        for i in comptime!(0..SHARERS) {
            most = max(most, bitcast::<f32, u32>(shared[t / SHARERS * SHARERS + i]));
        }
        barrier();
    }
    most
}

/// The sum of the four values of half a block's invocations.
#[device]
fn sum_of_half(own: i32, shared: &Shared<u32>, #[comptime] subgroup: Option<u32>) -> i32 {
    let mut sum = own;
    if comptime!(subgroup.is_some()) {
        for mask in comptime!(halves(SHARERS / 2)) {
            let other = subgroup::shuffle_xor(sum, mask);
            sum += other;
        }
    } else {
        let t = local_id();
        shared[t] = own as u32;
        barrier();
        sum = 0;
        for i in comptime!(0..SHARERS / 2) {
            sum += shared[t / 4 * 4 + i] as i32;
        }
        barrier();
    }
    sum
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

/// The values of a row of blocks, by plain Rust; or the word that does not fit the others.
///
/// # Errors
/// The index of a scale that is not the smallest power of two, or of a sum that is not the bytes'.
pub fn read_row(words: &[u32]) -> Result<Vec<f32>, usize> {
    let n_blocks = words.len() / (4 * FIELDS as usize);
    let mut values = Vec::with_capacity(n_blocks * BLOCK as usize);
    for b in 0..n_blocks {
        let at = |field: usize, word: usize| (field * n_blocks + b) * 4 + word;
        let byte = |i: usize, plane: usize| {
            let word = words[at(2 * plane + i / 16, i % 16 / 4)];
            i32::from(word.to_le_bytes()[i % 4].cast_signed())
        };
        let q: Vec<i32> = (0..BLOCK as usize).map(|i| 256 * byte(i, 0) + byte(i, 1)).collect();
        let d = f32::from_bits(words[at(4, 0)]);
        let most = q.iter().map(|q| q.unsigned_abs()).max().unwrap_or(0);
        let smallest = d == f32::MIN_POSITIVE || most >= 16319;
        if !d.is_normal() || d < 0.0 || d.to_bits() << 9 != 0 || most > 32639 || !smallest {
            return Err(at(4, 0));
        }
        for (half, q) in q.chunks_exact(16).enumerate() {
            if words[at(4, 1 + half)] != (q.iter().sum::<i32>() as f32 * d).to_bits() {
                return Err(at(4, 1 + half));
            }
        }
        if words[at(4, 3)] != 0 {
            return Err(at(4, 3));
        }
        values.extend(q.iter().map(|q| *q as f32 * d));
    }
    Ok(values)
}

/// What blocks can be off the values they were made of, which are `x` up to `bounds`.
pub fn with_steps(x: &[f64], bounds: &[f64]) -> Vec<f64> {
    let blocks = x.chunks(BLOCK as usize).zip(bounds.chunks(BLOCK as usize));
    let widened = blocks.flat_map(|(x, bounds)| {
        let most = x.iter().zip(bounds).fold(0.0f64, |most, (x, bound)| most.max(x.abs() + bound));
        let step = (most * f64::from(ROOM) * 2.0 / 32768.0).max(f64::from(f32::MIN_POSITIVE));
        bounds.iter().map(move |bound| bound + step / 2.0)
    });
    widened.collect()
}

/// A launch.
pub fn call(
    x: BufferRange,
    step: BufferRange,
    y: BufferRange,
    p: QuantizeRowsPush,
    subgroup: Option<u32>,
) -> Call {
    let args = QuantizeRowsArgs { x: x.into(), step: step.into(), y: y.into(), p };
    Call::new(QuantizeRows::new(subgroup), &args)
}

/// One variant for each way to meet.
pub fn variants() -> Vec<Variant> {
    let variant = |subgroup| {
        let cases = move || [(1, 32, 1), (3, 96, 1), (2, 2080, 3)].map(|shape| case(subgroup, shape)).into();
        Variant::new("quantize_rows", QuantizeRows::new(subgroup), cases)
    };
    [None, Some(SUBGROUP)].map(variant).into()
}

/// Blocks of every size, of zeros, and with subnormal numbers.
fn case(subgroup: Option<u32>, (rows, k, used): (u32, u32, u32)) -> Case {
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
            QuantizeRows::new(subgroup).bind(&QuantizeRowsArgs {
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
    fn a_row_is_read_back_and_a_wrong_word_is_found() {
        let x: Vec<f32> = Random::new(9).units(96).into_iter().chain([0.0; 32]).collect();
        let (words, values) = quantize_row(&x);
        assert_eq!(read_row(&words), Ok(values));
        for at in [0, 9, 20, 4 * 4 * 4, 4 * 4 * 4 + 1, 4 * 4 * 4 + 2, 4 * 4 * 4 + 3] {
            let mut wrong = words.clone();
            wrong[at] ^= 1;
            assert!(read_row(&wrong).is_err(), "word {at}");
        }
    }

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
