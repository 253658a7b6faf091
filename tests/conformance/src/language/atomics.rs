//! Atomics on buffers and on workgroup memory.

use kiln_abi::{BufferRange, Device};
use kiln_dsl::prelude::*;

use super::{Row, same, words_of};

pub(super) const CASES: &[Row] = &[
    ("a histogram over workgroups", counted),
    ("every atomic in workgroup memory", gathered),
    ("every atomic in a buffer", gathered_in_buffer),
    ("tickets", tickets_are_given_once),
    ("the last workgroup finishes", finished_by_the_last),
    ("an acquire of a release", handed_on),
];

/// y[c] = how many x are c, counted in workgroup memory first.
#[kernel(local_size = 64, grid = 4)]
fn histogram(x: &Buf<u32>, y: &BufMut<u32>) {
    let t = local_id();
    let local = Shared::<u32>::new(16);
    if t < 16 {
        local[t] = 0;
    }
    barrier();
    atomic::add(&local[x[global_id_x()]], 1);
    barrier();
    if t < 16 && local[t] > 0 {
        atomic::add(&y[t], local[t]);
    }
}

fn counted(device: &dyn Device) -> Result<(), String> {
    let x: Vec<u32> = (0..256).map(|i| (i * i) % 16).collect();
    let count = |c: u32| x.iter().filter(|&&v| v == c).count() as u32;
    let expected: Vec<u32> = (0..16).map(count).collect();
    let args = |r: &[BufferRange]| HistogramArgs { x: r[0].into(), y: r[1].into() };
    same(&words_of(device, &Histogram, &[&x, &[0; 16]], args)?, &expected)
}

/// What is left in eleven places, and the sum that each lane saw of an exchange.
#[kernel(local_size = 32, grid = 1)]
fn gather(x: &Buf<u32>, y: &BufMut<u32>) {
    let t = local_id();
    let words = Shared::<u32>::new(8);
    let numbers = Shared::<i32>::new(4);
    if t < 8 {
        words[t] = select(t == 1 || t == 3, !0, 0);
        if t < 4 {
            numbers[t] = 0;
        }
    }
    barrier();
    let (v, n) = (x[t], x[t] as i32 - 1000);
    atomic::add(&words[0], v);
    atomic::min(&words[1], v);
    atomic::max(&words[2], v);
    atomic::bitand(&words[3], v | 0xff00);
    atomic::bitor(&words[4], v);
    atomic::bitxor(&words[5], v);
    atomic::add(&numbers[0], n);
    atomic::min(&numbers[1], n);
    atomic::max(&numbers[2], n);
    // One of the lanes wins the place; the others see its mark.
    let seen = atomic::compare_exchange(&words[6], 0, v + 1);
    atomic::add(&words[7], (seen == 0) as u32);
    let old = atomic::exchange(&numbers[3], n);
    barrier();
    if t < 8 {
        y[t] = select(t == 6, (words[6] > 0) as u32, atomic::load(&words[t]));
    }
    if t < 3 {
        y[8 + t] = numbers[t] as u32;
    }
    atomic::store(&y[11 + t], (old != n) as u32);
}

/// The same in a buffer.
#[kernel(local_size = 32, grid = 1)]
fn gather_in_buffer(x: &Buf<u32>, words: &BufMut<u32>, numbers: &BufMut<i32>, y: &BufMut<u32>) {
    let t = local_id();
    let (v, n) = (x[t], x[t] as i32 - 1000);
    atomic::add(&words[0], v);
    atomic::min(&words[1], v);
    atomic::max(&words[2], v);
    atomic::bitand(&words[3], v | 0xff00);
    atomic::bitor(&words[4], v);
    atomic::bitxor(&words[5], v);
    atomic::add(&numbers[0], n);
    atomic::min(&numbers[1], n);
    atomic::max(&numbers[2], n);
    let seen = atomic::compare_exchange(&words[6], 0, v + 1);
    atomic::add(&words[7], (seen == 0) as u32);
    let old = atomic::exchange(&numbers[3], n);
    barrier_buffers();
    if t < 8 {
        y[t] = select(t == 6, (words[6] > 0) as u32, words[t]);
    }
    if t < 3 {
        y[8 + t] = atomic::load(&numbers[t]) as u32;
    }
    y[11 + t] = (old != n) as u32;
}

const X: [u32; 32] = {
    let (mut x, mut i) = ([0; 32], 0);
    while i < 32 {
        // No two are equal, none is 1000.
        x[i as usize] = 17 + 67 * ((i * 5) % 32);
        i += 1;
    }
    x
};

fn left() -> Vec<u32> {
    let numbers = || X.iter().map(|&v| v as i32 - 1000);
    let fold = |start: u32, f: fn(u32, u32) -> u32| X.iter().fold(start, |a, &v| f(a, v));
    let mut left = vec![
        fold(0, |a, v| a + v),
        fold(!0, Ord::min),
        fold(0, Ord::max),
        fold(!0, |a, v| a & (v | 0xff00)),
        fold(0, |a, v| a | v),
        fold(0, |a, v| a ^ v),
        1,
        1,
        numbers().sum::<i32>() as u32,
        numbers().chain([0]).min().unwrap_or(0) as u32,
        numbers().chain([0]).max().unwrap_or(0) as u32,
    ];
    left.resize(11 + 32, 1);
    left
}

fn gathered(device: &dyn Device) -> Result<(), String> {
    let args = |r: &[BufferRange]| GatherArgs { x: r[0].into(), y: r[1].into() };
    same(&words_of(device, &Gather, &[&X, &[0; 43]], args)?, &left())
}

fn gathered_in_buffer(device: &dyn Device) -> Result<(), String> {
    let args = |r: &[BufferRange]| GatherInBufferArgs {
        x: r[0].into(),
        words: r[1].into(),
        numbers: r[2].into(),
        y: r[3].into(),
    };
    let words = [0, !0, 0, !0, 0, 0, 0, 0];
    same(&words_of(device, &GatherInBuffer, &[&X, &words, &[0; 4], &[0; 43]], args)?, &left())
}

/// Those above the limit, in any order, each once.
#[kernel(local_size = 32, grid = 4)]
fn tickets(x: &Buf<u32>, count: &BufMut<u32>, y: &BufMut<u32>) {
    let v = x[global_id_x()];
    if v > 500 {
        y[atomic::add(&count[0], 1)] = v;
    }
}

fn tickets_are_given_once(device: &dyn Device) -> Result<(), String> {
    let x: Vec<u32> = (0..128).map(|i| (i * 389) % 1009).collect();
    let mut expected: Vec<u32> = x.iter().copied().filter(|&v| v > 500).collect();
    expected.resize(128, 0);
    expected.sort_unstable();
    let args = |r: &[BufferRange]| TicketsArgs { x: r[0].into(), count: r[1].into(), y: r[2].into() };
    let mut found = words_of(device, &Tickets, &[&x, &[0], &[0; 128]], args)?;
    found.sort_unstable();
    same(&found, &expected)
}

/// y[0] = Σ x, by whichever workgroup comes last.
#[kernel(local_size = 64, grid = 8)]
fn last(x: &Buf<u32>, parts: &BufMut<u32>, count: &BufMut<u32>, y: &BufMut<u32>) {
    let is_last = Shared::<u32>::new(1);
    parts[global_id_x()] = 3 * x[global_id_x()] + 1;
    barrier_buffers();
    if local_id() == 0 {
        is_last[0] = (atomic::acquire_release::add(&count[0], 1) == num_workgroups_x() - 1) as u32;
    }
    barrier_buffers();
    if is_last[0] == 1 {
        let mut sum: u32 = 0;
        for w in 0..num_workgroups_x() {
            sum += parts[64 * w + local_id()];
        }
        y[local_id()] = sum;
    }
}

fn finished_by_the_last(device: &dyn Device) -> Result<(), String> {
    let x: Vec<u32> = (0..512).map(|i| (i * 389) % 1009).collect();
    let sum = |t: usize| (0..8).map(|w| 3 * x[64 * w + t] + 1).sum();
    let expected: Vec<u32> = (0..64).map(sum).collect();
    let args = |r: &[BufferRange]| LastArgs {
        x: r[0].into(),
        parts: r[1].into(),
        count: r[2].into(),
        y: r[3].into(),
    };
    same(&words_of(device, &Last, &[&x, &[0; 512], &[0], &[0; 64]], args)?, &expected)
}

/// Each of 32 places is filled by one workgroup and read by a later one, if there is one that finds it released.
#[kernel(local_size = 32, grid = 16)]
fn hand_on(place: &BufMut<u32>, mark: &BufMut<u32>, y: &BufMut<u32>) {
    let t = local_id();
    let seen = atomic::acquire::compare_exchange(&mark[t], 0, 1);
    if seen == 0 {
        place[t] = 7 * t + 5;
        atomic::release::exchange(&mark[t], 2);
    } else if seen == 2 {
        atomic::max(&y[t], place[t]);
    }
    // Whoever came first, all have come by.
    atomic::add(&y[32 + t], 1);
}

fn handed_on(device: &dyn Device) -> Result<(), String> {
    let args = |r: &[BufferRange]| HandOnArgs { place: r[0].into(), mark: r[1].into(), y: r[2].into() };
    let found = words_of(device, &HandOn, &[&[0; 32], &[0; 32], &[0; 64]], args)?;
    let expected: Vec<u32> = (0..64)
        .map(|i| match found[i as usize] {
            // Where all ran at once nobody may have come late enough.
            0 if i < 32 => 0,
            _ if i < 32 => 7 * i + 5,
            _ => 16,
        })
        .collect();
    same(&found, &expected)
}
