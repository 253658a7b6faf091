//! What lanes hand each other: a reduce-scatter over arrays of variables, and tables in workgroup memory.

use kiln_abi::{Device, Kernel};
use kiln_dsl::prelude::*;

use super::{Row, same, text, words_of};

pub(super) const CASES: &[Row] = &[
    ("reduce-scatter by shuffle_xor", reduce_scattered),
    ("folds over clusters", clusters_folded),
    ("workgroup memory in two phases", memory_reused),
    ("workgroup memory of one type, then of another", memory_retyped),
    ("a table staged into workgroup memory", table_staged),
];

/// Each four lanes hold `4 * rows` sums in parts: lane `l` ends with the sums `l * rows..`, added in one fixed order.
#[kernel(local_size = 64, grid = 1)]
fn reduce_scatter(x: &Buf<f32>, y: &BufMut<f32>, #[comptime] rows: u32) {
    let t = local_id();
    let acc = [0.0; rows * 4];
    for i in comptime!(0..rows * 4) {
        acc[i] = x[t * (rows * 4) + i];
    }
    for mask in comptime!([2u32, 1]) {
        let upper = t & mask != 0;
        for i in comptime!(0..rows * mask) {
            let other = comptime!(i + rows * mask);
            let (low, high) = (acc[i], acc[other]);
            let (kept, sent) = (select(upper, high, low), select(upper, low, high));
            acc[i] = kept + subgroup::shuffle_xor(sent, mask);
        }
    }
    for i in comptime!(0..rows) {
        y[t * rows + i] = acc[i];
    }
}

fn reduce_scattered(device: &dyn Device) -> Result<(), String> {
    for rows in [1, 3] {
        let n = 4 * rows as usize;
        let value = |t: usize, i: usize| ((t * 37 + i * 11) % 101) as f32 * 0.125;
        let x: Vec<u32> = (0..64 * n).map(|at| value(at / n, at % n).to_bits()).collect();
        let sum = |t: usize, row: usize| {
            let parts = [t, t ^ 2, t ^ 1, t ^ 3].map(|lane| value(lane, (t % 4) * rows as usize + row));
            ((parts[0] + parts[1]) + (parts[2] + parts[3])).to_bits()
        };
        let expected: Vec<u32> =
            (0..64 * rows as usize).map(|at| sum(at / rows as usize, at % rows as usize)).collect();
        let empty = vec![0; expected.len()];
        let found = words_of(device, &ReduceScatter::new(rows), &[&x, &empty], |r| ReduceScatterArgs {
            x: r[0].into(),
            y: r[1].into(),
        })?;
        same(&found, &expected)?;
    }
    Ok(())
}

/// y = x reversed in its workgroup, then the sum of each half of that; one array does for both.
#[kernel(local_size = 64, grid = 2)]
fn two_phases(x: &Buf<u32>, y: &BufMut<u32>) {
    let t = local_id();
    let tile = Shared::<u32>::new(64);
    tile[t] = x[global_id_x()];
    barrier();
    let mine = tile[63 - t];
    y[global_id_x()] = mine;
    let halves = tile.reuse(2);
    if t < 2 {
        halves[t] = 0;
    }
    barrier();
    atomic::add(&halves[t / 32], mine);
    barrier();
    if t < 2 {
        y[128 + workgroup_id_x() * 2 + t] = halves[t];
    }
}

fn memory_reused(device: &dyn Device) -> Result<(), String> {
    let bytes = TwoPhases.stage().map_err(text)?.layout.workgroup_bytes;
    if bytes != 256 {
        return Err(format!("expected 256 bytes of workgroup memory; found {bytes}"));
    }
    let x: Vec<u32> = (0..128).map(|i| i * i + 3).collect();
    let reversed: Vec<u32> = x.chunks_exact(64).flat_map(|row| row.iter().rev().copied()).collect();
    let sums = reversed.chunks_exact(32).map(|half| half.iter().sum::<u32>());
    let expected: Vec<u32> = reversed.iter().copied().chain(sums).collect();
    let args = |r: &[kiln_abi::BufferRange]| TwoPhasesArgs { x: r[0].into(), y: r[1].into() };
    same(&words_of(device, &TwoPhases, &[&x, &[0; 132]], args)?, &expected)
}

/// One array holds counts, then floats, then signed numbers.
#[kernel(local_size = 64, grid = 2)]
fn three_types(x: &Buf<u32>, y: &BufMut<u32>) {
    let t = local_id();
    let counts = Shared::<u32>::new(64);
    counts[t] = x[global_id_x()];
    barrier();
    let mine = counts[63 - t];
    let floats = counts.reuse_as::<f32>(64);
    floats[t] = mine as f32 * 0.5;
    floats[t] += 0.25;
    barrier();
    let other = floats[t ^ 1];
    let signed = floats.reuse_as::<i32>(32);
    if t < 32 {
        signed[t] = 7 - t as i32;
    }
    barrier();
    y[global_id_x()] = bitcast::<u32, _>(other) + signed[t / 2] as u32;
}

fn memory_retyped(device: &dyn Device) -> Result<(), String> {
    let bytes = ThreeTypes.stage().map_err(text)?.layout.workgroup_bytes;
    if bytes != 256 {
        return Err(format!("expected 256 bytes of workgroup memory; found {bytes}"));
    }
    let x: Vec<u32> = (0..128).map(|i| i * 31 + 3).collect();
    let expected: Vec<u32> = (0..128usize)
        .map(|i| {
            let (first, t) = (i & 64, i & 63);
            let other = x[first + 63 - (t ^ 1)] as f32 * 0.5 + 0.25;
            other.to_bits().wrapping_add((7 - t as i32 / 2) as u32)
        })
        .collect();
    let args = |r: &[kiln_abi::BufferRange]| ThreeTypesArgs { x: r[0].into(), y: r[1].into() };
    same(&words_of(device, &ThreeTypes, &[&x, &[0; 128]], args)?, &expected)
}

/// y[i] = table[x[i]], the table read once per workgroup.
#[kernel(local_size = 64, grid = 2)]
fn lookup(table: &Buf<u32>, x: &Buf<u32>, y: &BufMut<u32>, #[comptime] n: u32) {
    let staged = stage_table(&table, n);
    let i = global_id_x();
    y[i] = staged[x[i]];
}

fn table_staged(device: &dyn Device) -> Result<(), String> {
    for n in [1u32, 64, 100, 4096] {
        let table: Vec<u32> = (0..n).map(|i| i.wrapping_mul(0x9e37_79b9)).collect();
        let x: Vec<u32> = (0..128).map(|i| (i * 977) % n).collect();
        let expected: Vec<u32> = x.iter().map(|&i| table[i as usize]).collect();
        let found = words_of(device, &Lookup::new(n), &[&table, &x, &[0; 128]], |r| LookupArgs {
            table: r[0].into(),
            x: r[1].into(),
            y: r[2].into(),
        })?;
        same(&found, &expected)?;
    }
    Ok(())
}

#[kernel(local_size = 64, grid = 1)]
fn clusters(x: &Buf<f32>, y: &BufMut<f32>, #[comptime] lanes: u32) {
    let t = local_id();
    let v = x[t];
    y[t * 3] = subgroup::cluster_add(v, lanes);
    y[t * 3 + 1] = subgroup::cluster_min(v, lanes);
    y[t * 3 + 2] = subgroup::cluster_max(v, lanes);
}

fn clusters_folded(device: &dyn Device) -> Result<(), String> {
    // Magnitudes apart, so that another order of additions gives other bits.
    let x: Vec<f32> = (0..64i32).map(|i| ((i * 29) % 17 - 8) as f32 * 10f32.powi(i % 7)).collect();
    for lanes in [1usize, 2, 4] {
        let fold = |t: usize, f: fn(f32, f32) -> f32| {
            let mut row: Vec<f32> = x[t / lanes * lanes..][..lanes].to_vec();
            while row.len() > 1 {
                row = row.chunks_exact(2).map(|pair| f(pair[0], pair[1])).collect();
            }
            row[0].to_bits()
        };
        let expected: Vec<u32> =
            (0..64).flat_map(|t| [fold(t, |a, b| a + b), fold(t, f32::min), fold(t, f32::max)]).collect();
        let words: Vec<u32> = x.iter().map(|v| v.to_bits()).collect();
        let args = |r: &[kiln_abi::BufferRange]| ClustersArgs { x: r[0].into(), y: r[1].into() };
        let found = words_of(device, &Clusters::new(lanes as u32), &[&words, &[0; 192]], args)?;
        same(&found, &expected)?;
    }
    Ok(())
}
