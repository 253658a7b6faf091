//! Workgroup memory seen as other elements: the bytes that go in come out, whatever the two types are.

use kiln_abi::{BufferRange, Device, Kernel, LaunchError, launch::check_device};
use kiln_dsl::prelude::*;

use super::{Row, same, text, words_of};

pub(super) const CASES: &[Row] = &[
    ("larger elements over narrower ones", |device| {
        both_ways::<f16, f32>(device)?;
        both_ways::<f16, Vec4<f16>>(device)?;
        both_ways::<u16, Vec4<u32>>(device)?;
        both_ways::<u8, u32>(device)?;
        both_ways::<Vec2<f16>, Vec4<f32>>(device)?;
        both_ways::<u32, Vec4<f16>>(device)
    }),
    ("smaller elements over vectors", |device| {
        both_ways::<Vec4<f32>, f32>(device)?;
        both_ways::<Vec4<u32>, Vec2<f16>>(device)?;
        both_ways::<Vec4<u16>, f32>(device)
    }),
    ("elements of one size", |device| {
        both_ways::<u32, Vec2<f16>>(device)?;
        both_ways::<Vec3<f32>, Vec3<i32>>(device)?;
        both_ways::<Vec2<f32>, Vec4<f16>>(device)
    }),
    ("components of a view", components),
    ("a tile of halves and its sums over one array of words", |device| tiles(device).map(drop)),
];

/// Elements of a view are stored, the memory's are read.
#[kernel(local_size = 64, grid = 1)]
fn stored<H: Elem + Value, U: Elem + Value>(
    x: &Buf<U>,
    y: &BufMut<H>,
    #[comptime] held: u32,
    #[comptime] seen: u32,
) {
    let view = Shared::<H>::new(held).reuse_as::<U>(seen);
    for i in (local_id()..seen).step_by(64) {
        view[i] = x[i];
    }
    let memory = view.reuse_as::<H>(held);
    for i in (local_id()..held).step_by(64) {
        y[i] = memory[i];
    }
}

/// The memory's elements are stored, those of a view are read.
#[kernel(local_size = 64, grid = 1)]
fn loaded<H: Elem + Value, U: Elem + Value>(
    x: &Buf<H>,
    y: &BufMut<U>,
    #[comptime] held: u32,
    #[comptime] seen: u32,
) {
    let memory = Shared::<H>::new(held);
    for i in (local_id()..held).step_by(64) {
        memory[i] = x[i];
    }
    let view = memory.reuse_as::<U>(seen);
    for i in (local_id()..seen).step_by(64) {
        y[i] = view[i];
    }
}

/// 384 words by way of either kernel. No byte makes a NaN, which need not keep its bits.
fn both_ways<H: Elem + Value, U: Elem + Value>(device: &dyn Device) -> Result<(), String> {
    let x: Vec<u32> = (0..384u32).map(|i| i.wrapping_mul(0x9e37_79b9) & 0x3b3b_3b3b).collect();
    let (held, seen) = (1536 / H::BYTES, 1536 / U::BYTES);
    let (stored, loaded) = (Stored::<H, U>::new(held, seen), Loaded::<H, U>::new(held, seen));
    for (name, bytes) in [("stored", workgroup_bytes(&stored)?), ("loaded", workgroup_bytes(&loaded)?)] {
        // Three components have no padding in workgroup memory.
        if bytes > 1536 {
            return Err(format!("{name}: expected one array of 1536 bytes; found {bytes}"));
        }
    }
    let mut expected = x.clone();
    if H::BYTES == 16 && H::shape().lanes == 3 {
        // Nor is there anything to compare behind the third.
        expected.iter_mut().skip(3).step_by(4).for_each(|w| *w = 0);
    }
    let zeros = vec![0; x.len()];
    let name = |way| move |e| format!("{} over {}, {way}: {e}", U::name(), H::name());
    let args = |r: &[BufferRange]| StoredArgs { x: r[0].into(), y: r[1].into() };
    let found = words_of(device, &stored, &[&x, &zeros], args)?;
    same(&found, &expected).map_err(name("stored"))?;
    let args = |r: &[BufferRange]| LoadedArgs { x: r[0].into(), y: r[1].into() };
    let found = words_of(device, &loaded, &[&x, &zeros], args)?;
    same(&found, &expected).map_err(name("loaded"))
}

fn workgroup_bytes(kernel: &impl Kernel) -> Result<u32, String> {
    Ok(kernel.stage().map_err(text)?.layout.workgroup_bytes)
}

/// Components by a constant and by a value of the device, stored and read; those of halves over words are read alone.
#[kernel(local_size = 32, grid = 1)]
fn parts(x: &Buf<u32>, y: &BufMut<u32>) {
    let t = local_id();
    let fours = Shared::<u32>::new(128).reuse_as::<Vec4<f32>>(32);
    for c in 0..4u32 {
        fours[t][3 - c] = x[4 * t + c] as f32;
    }
    fours[t][1] += 0.5;
    barrier();
    let mine = fours[31 - t];
    let halves = fours.reuse_as::<Vec2<f16>>(64);
    halves[t] = vec2(mine.x() as f16, mine.y() as f16);
    halves[t + 32] = vec2(mine.z() as f16, mine.w() as f16);
    barrier();
    let other = t ^ 1;
    y[4 * t] = (halves[other][0] as f32 * 2.0) as u32;
    y[4 * t + 1] = (halves[other][1] as f32 * 2.0) as u32;
    y[4 * t + 2] = (halves[other + 32][t & 1] as f32 * 2.0) as u32;
    y[4 * t + 3] = (halves[other + 32].y() as f32 * 2.0) as u32;
}

fn components(device: &dyn Device) -> Result<(), String> {
    let x: Vec<u32> = (0..128).map(|i| i * 5 % 97).collect();
    let expected: Vec<u32> = (0..32usize)
        .flat_map(|t| {
            let four = &x[4 * (31 - (t ^ 1))..];
            let v = [2 * four[3], 2 * four[2] + 1, 2 * four[1], 2 * four[0]];
            [v[0], v[1], v[2 + (t & 1)], v[3]]
        })
        .collect();
    let args = |r: &[BufferRange]| PartsArgs { x: r[0].into(), y: r[1].into() };
    same(&words_of(device, &Parts, &[&x, &[0; 128]], args)?, &expected)
}

/// y = a · b, whose factors and then their product lie in one array.
#[kernel(local_size = 8, subgroup = 8, grid = 1)]
fn product(a: &Buf<Vec2<f16>>, b: &Buf<Vec2<f16>>, y: &BufMut<f32>) {
    dims!(M = 8, N = 8, K = 8);
    let factors = Shared::<u32>::new(64).reuse_as::<Vec2<f16>>(64);
    for i in (local_id()..32).step_by(8) {
        factors[i] = a[i];
        factors[i + 32] = b[i];
    }
    barrier();
    let left = Tile::<f16, MatA, Sg, M, K>::load(&factors, 0, 4);
    let right = Tile::<f16, MatB, Sg, K, N>::load(&factors, 32, 4);
    let sums = factors.reuse_as::<f32>(64);
    tile::store(mul_add(left, right, Tile::<f32, Acc, Sg, M, N>::zero()), &sums, 0, 8);
    barrier();
    for i in (local_id()..64).step_by(8) {
        y[i] = sums[i];
    }
}

/// Whether the device has such matrices; what it made of them is right.
pub fn tiles(device: &dyn Device) -> Result<bool, String> {
    let staged = Product.stage().map_err(text)?;
    match check_device(device, &staged) {
        Err(
            LaunchError::MissingCapability { .. }
            | LaunchError::LeftOut { .. }
            | LaunchError::MissingProduct { .. }
            | LaunchError::SubgroupSize { .. },
        ) => return Ok(false),
        other => other.map_err(text)?,
    }
    let factor = |i: usize, by: usize| (i * by % 7) as f32 - 3.0;
    let pairs = |by: usize| -> Vec<u32> {
        let half = |i| u32::from(f16::from_f32(factor(i, by)).to_bits());
        (0..32).map(|i| half(2 * i) | half(2 * i + 1) << 16).collect()
    };
    let sum = |i: usize| (0..8).map(|k| factor(i / 8 * 8 + k, 3) * factor(8 * k + i % 8, 5)).sum::<f32>();
    let expected: Vec<u32> = (0..64).map(|i| sum(i).to_bits()).collect();
    let args = |r: &[BufferRange]| ProductArgs { a: r[0].into(), b: r[1].into(), y: r[2].into() };
    same(&words_of(device, &Product, &[&pairs(3), &pairs(5), &[0; 64]], args)?, &expected)?;
    Ok(true)
}
