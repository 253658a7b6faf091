//! Rows of x as the integer dot product takes them: blocks of 32 with one scale d.
//!
//! Two planes: `d = 2^(e - 15)` for the smallest e that keeps |q| ≤ 32 639, where `q = round(x / d)`, ties to even, and
//! `q = 256 · hi + lo` in signed bytes. One plane: `d = D · 2^e` for the smallest nine-bit D that keeps |q| ≤ 127,
//! q a signed byte. Each step is exact but the rounding, so every device makes the same bytes.
//! Shapes: x `[rows, k]` f32; y `[rows, fields, k / 32]` of 16 bytes: per plane, hi first, the bytes of elements 0 to 15
//! of each block and those of 16 to 31, then (d, d · Σq of elements 0 to 15, d · Σq of 16 to 31, 0) as f32. An
//! invocation owns four elements. Traffic: 128 bytes read and 80 or 48 written per block. Numerics: |x - d q| ≤ d / 2.

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
/// Fields of 16 bytes that a block of two planes has.
pub const FIELDS: u32 = Planes::Two.fields();

/// How many bytes stand for an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Planes {
    /// One: the class int8.
    One,
    /// Two, hi and lo: the class f16.
    Two,
}

impl Planes {
    /// Planes of bytes.
    pub const fn count(self) -> u32 {
        match self {
            Planes::One => 1,
            Planes::Two => 2,
        }
    }

    /// Fields of 16 bytes that a block has.
    pub const fn fields(self) -> u32 {
        2 * self.count() + 1
    }

    /// The largest |q|.
    const fn most(self) -> i32 {
        match self {
            Planes::One => 127,
            Planes::Two => 32639,
        }
    }
}

/// Bytes of `rows` rows of `k` elements.
pub const fn row_bytes(planes: Planes, rows: u64, k: u32) -> u64 {
    rows * (k / BLOCK * planes.fields() * 16) as u64
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
    #[len(p.rows * (p.k / BLOCK) * planes.fields() * 4)] y: &BufMut<u32>,
    #[push] p: QuantizeRowsPush,
    #[comptime] planes: Planes,
    #[comptime] subgroup: Option<u32>,
) {
    let r = workgroup_id_y();
    if r >= n_rows(&step) * p.used {
        return;
    }
    let (fours, at) = (p.k / 4, global_id_x());
    let shared = Shared::<u32>::new(comptime!(put_len(LOCAL_SIZE, subgroup)));
    let four = x[r * fours + min(at, fours - 1)];
    put_four(four, at, r, fours, &y, &shared, comptime!(planes), comptime!(subgroup));
}

/// Invocations that share a block.
pub(crate) const SHARERS: u32 = BLOCK / 4;

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
    #[comptime] planes: Planes,
    #[comptime] subgroup: Option<u32>,
) {
    let most = most_of_block(
        max(max(abs(v.x()), abs(v.y())), max(abs(v.z()), abs(v.w()))),
        &shared,
        comptime!(subgroup),
    );
    let two = comptime!(planes == Planes::Two);
    let (d, inverse) = if comptime!(two) { fine(most) } else { coarse(most) };
    let (fields, limit) = comptime!((planes.fields(), planes.most()));
    let q0 = rounded(v.x() * inverse, comptime!(limit));
    let q1 = rounded(v.y() * inverse, comptime!(limit));
    let q2 = rounded(v.z() * inverse, comptime!(limit));
    let q3 = rounded(v.w() * inverse, comptime!(limit));
    let half = sum_of_half((q0 + q1) + (q2 + q3), &shared, comptime!(subgroup));
    if at < fours {
        let (blocks, block, word) = (fours / SHARERS, at / SHARERS, at % SHARERS);
        let (field, place) = (word / 4, word % 4);
        let row = r * fields;
        if comptime!(two) {
            y[((row + field) * blocks + block) * 4 + place] = bytes(high(q0), high(q1), high(q2), high(q3));
        }
        let low = comptime!(fields - 3);
        y[((row + field + low) * blocks + block) * 4 + place] = bytes(q0, q1, q2, q3);
        let last = ((row + (fields - 1)) * blocks + block) * 4;
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

/// The sum of the eight values of a block's invocations, as a tree.
#[device]
pub(crate) fn sum_of_block(own: f32, shared: &Shared<u32>, #[comptime] subgroup: Option<u32>) -> f32 {
    let mut sum = own;
    for mask in comptime!(halves(SHARERS)) {
        if comptime!(subgroup.is_some()) {
            let other = subgroup::shuffle_xor(sum, mask);
            sum += other;
        } else {
            let t = local_id();
            shared[t] = bitcast::<u32, f32>(sum);
            barrier();
            sum += bitcast::<f32, u32>(shared[t ^ mask]);
            barrier();
        }
    }
    sum
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

/// d and 1 / d of a block of two planes whose largest element is `most`.
#[device]
fn fine(most: f32) -> (f32, f32) {
    // A normal power of two either way: what is smaller than 2^-126 becomes 0.
    let exponent = clamp(bitcast::<u32, f32>(most * ROOM) >> 23, 15, 254);
    (bitcast::<f32, u32>((exponent - 14) << 23), bitcast::<f32, u32>((268 - exponent) << 23))
}

/// d and 1 / d of a block of one plane whose largest element is `most`.
#[device]
fn coarse(most: f32) -> (f32, f32) {
    let bits = bitcast::<u32, f32>(most);
    let exponent = clamp(bits >> 23, 16, 254);
    // The mantissa over 127, up to a whole number of nine bits.
    let steps = (((bits & 0x007f_ffff) | 0x0080_0000) + (STEP - 1)) / STEP;
    let d = (steps as f32) * bitcast::<f32, u32>((exponent - 15) << 23);
    let inverse = ((0x8000_0000 / steps) as f32) * TWO_TO_MINUS_31;
    (d, inverse * bitcast::<f32, u32>((269 - exponent) << 23))
}

/// A mantissa's 2^23 to 2^24 over this is a number of nine bits, or a little more.
const STEP: u32 = 127 << 8;
/// 2^-31.
const TWO_TO_MINUS_31: f32 = 1.0 / 2_147_483_648.0;

/// The nearest integer, ties to even; a NaN or an infinity, which no row has, stays within range.
#[device]
fn rounded(x: f32, #[comptime] most: i32) -> i32 {
    round_ties_even(clamp(x, -(most as f32), most as f32)) as i32
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
pub fn quantize_row(planes: Planes, x: &[f32]) -> (Vec<u32>, Vec<f32>) {
    let n_blocks = x.len() / BLOCK as usize;
    let mut words = vec![0; n_blocks * planes.fields() as usize * 4];
    let mut values = Vec::with_capacity(x.len());
    for (b, block) in x.chunks_exact(BLOCK as usize).enumerate() {
        let most = block.iter().fold(0.0f32, |most, x| f32::max(most, f32::abs(*x)));
        let (d, inverse) = match planes {
            Planes::Two => {
                let exponent = ((most * ROOM).to_bits() >> 23).clamp(15, 254);
                (f32::from_bits((exponent - 14) << 23), f32::from_bits((268 - exponent) << 23))
            }
            Planes::One => {
                let exponent = (most.to_bits() >> 23).clamp(16, 254) as i32;
                let mantissa = f64::from(most.to_bits() & 0x7f_ffff) + 8_388_608.0;
                let steps = (mantissa / 32512.0).ceil();
                let inverse = (2_147_483_648.0 / steps).floor() * 2f64.powi(142 - 31 - exponent);
                ((steps * 2f64.powi(exponent - 142)) as f32, inverse as f32)
            }
        };
        let most = planes.most() as f32;
        let quant = |x: &f32| (x * inverse).round_ties_even().clamp(-most, most) as i32;
        let q: Vec<i32> = block.iter().map(quant).collect();
        let mut put =
            |field: usize, word: usize, value: u32| words[(field * n_blocks + b) * 4 + word] = value;
        for (i, four) in q.chunks_exact(4).enumerate() {
            let word = |byte: fn(i32) -> i32| {
                u32::from_le_bytes(std::array::from_fn(|j| byte(four[j]).to_le_bytes()[0]))
            };
            let last = planes.count() as usize - 1;
            put(2 * last + i / 4, i % 4, word(|q| q));
            if planes == Planes::Two {
                put(i / 4, i % 4, word(|q| (q + 128) >> 8));
            }
        }
        let sums = 2 * planes.count() as usize;
        put(sums, 0, d.to_bits());
        for (half, q) in q.chunks_exact(16).enumerate() {
            put(sums, 1 + half, (q.iter().sum::<i32>() as f32 * d).to_bits());
        }
        values.extend(q.iter().map(|q| *q as f32 * d));
    }
    (words, values)
}

/// The values of a row of blocks of two planes, by plain Rust; or the word that does not fit the others.
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
    planes: Planes,
    subgroup: Option<u32>,
) -> Call {
    let args = QuantizeRowsArgs { x: x.into(), step: step.into(), y: y.into(), p };
    Call::new(QuantizeRows::new(planes, subgroup), &args)
}

/// One variant for each number of planes and way to meet.
pub fn variants() -> Vec<Variant> {
    let variant = |(planes, subgroup)| {
        let shapes = [(1, 32, 1), (3, 96, 1), (2, 2080, 3)];
        let cases = move || shapes.map(|shape| case(planes, subgroup, shape)).into();
        Variant::new("quantize_rows", QuantizeRows::new(planes, subgroup), cases)
    };
    let ways = |planes| [None, Some(SUBGROUP)].map(|subgroup| variant((planes, subgroup)));
    [Planes::One, Planes::Two].into_iter().flat_map(ways).collect()
}

/// Blocks of every size, of zeros, and with subnormal numbers.
fn case(planes: Planes, subgroup: Option<u32>, (rows, k, used): (u32, u32, u32)) -> Case {
    let mut random = Random::new(u64::from(k));
    let n = rows * used;
    let mut x = random.units((n * k) as usize);
    for (i, block) in x.chunks_exact_mut(BLOCK as usize).enumerate() {
        let size = [1.0, 0.0, 1e-37, 3e38, 1e-3, 777.0][i % 6];
        block.iter_mut().for_each(|x| *x *= size);
    }
    // Subnormal inputs may count as zero on a device.
    x.iter_mut().filter(|x| x.is_subnormal()).for_each(|x| *x = 0.0);
    let words = x.chunks_exact(k as usize).flat_map(|x| quantize_row(planes, x).0).collect();
    Case {
        name: format!("rows = {n}, k = {k}"),
        buffers: vec![
            Buffer::Input(f32_bytes(&x)),
            Buffer::Input(plain_step(rows)),
            Buffer::Output(usize::try_from(row_bytes(planes, n.into(), k)).unwrap_or(0)),
        ],
        expected: vec![Expected { binding: 2, content: Content::Words(words) }],
        bind: Box::new(move |r| {
            let p = QuantizeRowsPush { rows: n, k, used };
            QuantizeRows::new(planes, subgroup).bind(&QuantizeRowsArgs {
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
        let (words, values) = quantize_row(Planes::Two, &x);
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
        for (planes, bits) in [(Planes::One, 7), (Planes::Two, 15)] {
            let (words, values) = quantize_row(planes, &x);
            let d = &words[(planes.fields() - 1) as usize * 40..];
            for ((x, v), d) in x.chunks(32).zip(values.chunks(32)).zip(d.chunks(4)) {
                let most = x.iter().fold(0.0f32, |m, x| f32::max(m, f32::abs(*x)));
                let d = f32::from_bits(d[0]);
                assert!(d <= most * 2.02 / (1 << bits) as f32, "{planes:?}: a step of {d} for {most}");
                assert!(x.iter().zip(v).all(|(x, v)| (x - v).abs() <= d * 0.50001));
            }
        }
    }

    #[test]
    fn one_plane_uses_all_of_its_steps() {
        // The smallest step that serves is most / 127; nine bits of it lose at most one part in 258.
        for most in [1.0f32, 1.999_999_9, 127.0, 3e38, 1.5, 1e-30] {
            let (words, _) = quantize_row(Planes::One, &[[most].as_slice(), &[0.0; 31]].concat());
            let q = words[0] & 0xff;
            assert!((126..=127).contains(&q), "{most}: {q}");
        }
    }
}
