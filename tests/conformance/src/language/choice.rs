//! `match` on integers, and values of several parts.

use kiln_abi::{Device, Kernel};
use kiln_dsl::prelude::*;

use super::{Row, same, text, words_of};

pub(super) const CASES: &[Row] =
    &[("match on integers", matched), ("match on host values", matched_on_host), ("struct values", structs)];

const SEVEN: u32 = 7;
const LOW: i32 = -4;

#[device]
fn class(n: u32, x: &Buf<u32>) -> u32 {
    match n {
        0 => 10,
        1 | 2 => 20 + n,
        3..=5 => x[n] * 100,
        SEVEN => 1,
        8..12 | 40.. => match n & 1 {
            0 => 7 / (n - 7),
            _ => 5,
        },
        _ => n,
    }
}

fn class_on_the_host(n: u32, x: &[u32]) -> u32 {
    match n {
        0 => 10,
        1 | 2 => 20 + n,
        3..=5 => x[n as usize] * 100,
        SEVEN => 1,
        8..12 | 40.. => match n & 1 {
            0 => 7 / (n - 7),
            _ => 5,
        },
        _ => n,
    }
}

#[device]
fn sign(n: i32) -> i32 {
    match n {
        -1 => 1,
        LOW => 2,
        ..=-5 => 3,
        i8::MAX_I32..=200 => 4,
        _ => 5,
    }
}

trait Wide {
    const MAX_I32: i32;
}
impl Wide for i8 {
    const MAX_I32: i32 = 127;
}

fn sign_on_the_host(n: i32) -> i32 {
    match n {
        -1 => 1,
        LOW => 2,
        ..=-5 => 3,
        i8::MAX_I32..=200 => 4,
        _ => 5,
    }
}

/// A reader of `x[n]` behind the arms would leave the range: only 6 elements are there.
#[kernel(local_size = 64, grid = 1)]
fn matches(x: &Buf<u32>, y: &BufMut<u32>) {
    let t = local_id();
    let mut steps = 0;
    loop {
        match steps {
            3 => break,
            _ => steps += 1,
        }
    }
    match t % 3 {
        0 => {
            y[t] = class(t, &x) + steps;
        }
        1 => y[t] = sign(t as i32 * 9 - 260) as u32,
        _ => return,
    }
}

fn matched(device: &dyn Device) -> Result<(), String> {
    let x = [0, 0, 0, 4, 5, 6];
    let value = |t: u32| match t % 3 {
        0 => class_on_the_host(t, &x) + 3,
        1 => sign_on_the_host(t as i32 * 9 - 260) as u32,
        _ => 0xdead,
    };
    let expected: Vec<u32> = (0..64).map(value).collect();
    let args = |r: &[kiln_abi::BufferRange]| MatchesArgs { x: r[0].into(), y: r[1].into() };
    same(&words_of(device, &Matches, &[&x, &[0xdead; 64]], args)?, &expected)
}

/// What a comptime value can be.
#[derive(Clone, Copy, Debug)]
enum Mode {
    Plain,
    Scaled(u32),
}

#[kernel(local_size = 4, grid = 1)]
fn modes(x: &Buf<u32>, y: &BufMut<u32>, #[comptime] mode: Mode) {
    let t = local_id();
    y[t] = match comptime!(mode) {
        Mode::Plain => x[t],
        Mode::Scaled(by) => x[t] * by,
    };
}

fn matched_on_host(device: &dyn Device) -> Result<(), String> {
    let words = |mode: Mode| Modes::new(mode).stage().map(|s| s.words.len()).map_err(text);
    if words(Mode::Plain)? >= words(Mode::Scaled(3))? {
        return Err("expected one arm to be staged; found both".to_owned());
    }
    for (mode, by) in [(Mode::Plain, 1), (Mode::Scaled(3), 3)] {
        let args = |r: &[kiln_abi::BufferRange]| ModesArgs { x: r[0].into(), y: r[1].into() };
        let found = words_of(device, &Modes::new(mode), &[&[1, 2, 3, 4], &[0; 4]], args)?;
        same(&found, &[by, 2 * by, 3 * by, 4 * by])?;
    }
    Ok(())
}

/// The best of several, with where it stands.
#[derive(Struct, Clone, Copy)]
struct Best {
    value: f32,
    at: u32,
}

/// One struct inside another.
#[derive(Struct, Clone, Copy)]
struct Spread {
    low: Best,
    high: Best,
    seen: bool,
}

#[device]
fn nothing() -> Spread {
    let low = Best { value: 1e9, at: 0 };
    Spread { low, high: Best { value: -1e9, at: 0 }, seen: false }
}

#[device]
fn better(a: Best, b: Best) -> Best {
    if b.value > a.value { b } else { a }
}

#[device]
fn widen(s: Spread, v: Best) -> (Spread, f32) {
    let mut low = s.low;
    if v.value < low.value {
        low = v;
    }
    let wide = Spread { low, high: better(s.high, v), seen: true };
    (wide, wide.high.value - wide.low.value)
}

/// Each invocation's smallest and largest of eight elements.
#[kernel(local_size = 16, grid = 1)]
fn spreads(x: &Buf<f32>, y: &BufMut<u32>) {
    let t = local_id();
    let mut all: Spread = nothing();
    let mut width = 0.0;
    for i in 0..8 {
        let (next, wide) = widen(all, Best { value: x[t * 8 + i], at: i });
        all = next;
        width = wide;
    }
    all.high.at += 100 * (all.seen as u32);
    y[t * 3] = all.low.at;
    y[t * 3 + 1] = all.high.at;
    y[t * 3 + 2] = bitcast::<u32, _>(width);
}

fn structs(device: &dyn Device) -> Result<(), String> {
    let x: Vec<f32> = (0..128u32).map(|i| ((i * 73) % 97) as f32).collect();
    let rows = x.chunks_exact(8).flat_map(|row| {
        let best = |beats: fn(f32, f32) -> bool| {
            row.iter().enumerate().fold(0, |best, (i, &v)| if beats(v, row[best]) { i } else { best })
        };
        let (low, high) = (best(|a, b| a < b), best(|a, b| a > b));
        [low as u32, high as u32 + 100, (row[high] - row[low]).to_bits()]
    });
    let expected: Vec<u32> = rows.collect();
    let x: Vec<u32> = x.iter().map(|v| v.to_bits()).collect();
    let args = |r: &[kiln_abi::BufferRange]| SpreadsArgs { x: r[0].into(), y: r[1].into() };
    same(&words_of(device, &Spreads, &[&x, &[0; 48]], args)?, &expected)
}
