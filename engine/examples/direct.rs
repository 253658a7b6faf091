//! Whether blocks of x of 128 elements with one scale serve eight rows better: `direct [TILESxSUBGROUPSxSLOTSxHALVESxGROUPS,..]
//! [SHAPES]`, and `direct check` on the interpreter. Weights take their integer scales along as halves, so that a lane needs no
//! words of its neighbors.
#[path = "direct/kernel.rs"]
mod kernel;
mod timing;
use std::error::Error;

use half::f16;
use kernel::{Direct, DirectArgs, DirectPush, Shape};
use kiln_abi::{BufferRange, Device, Kernel as _, launch::launch_staged};
use kiln_kernels::{
    Registry,
    activations::{self, Planes},
    conformance::{Random, plain_step, u32_bytes},
    gemv::{Exact, Form, GemvOperands, GemvPush, Shape as GemvShape},
};
use kiln_spirv_interp::{InterpOptions, Interpreter};
use timing::Bench;

const K: &str = "Q4_K";

/// x in blocks of 128 of two planes of 7 bits: words, and the rows that they stand for.
fn words_of(shape: Shape, rows: &[f32], k: usize) -> (Vec<u32>, Vec<f32>) {
    let mut values = rows.to_vec();
    let mut qs = vec![0i32; rows.len()];
    let mut ds = vec![0.0f32; rows.len() / 128];
    for (i, block) in rows.chunks_exact(128).enumerate() {
        let most = block.iter().fold(0.0f32, |m, v| m.max(v.abs()));
        let mut d = 2.0f32.powi(-40);
        while most / d > 8127.0 {
            d *= 2.0;
        }
        ds[i] = d;
        for (j, v) in block.iter().enumerate() {
            let q = (v / d).round_ties_even() as i32;
            qs[i * 128 + j] = q;
            values[i * 128 + j] = q as f32 * d;
        }
    }
    let high = |q: i32| (q + 64) >> 7;
    let low = |q: i32| q - 128 * high(q);
    let q = |c: usize, e: usize| qs[c * k + e];
    let half = |v: i32| u32::from(f16::from_f32(v as f32).to_bits());
    let mut words = Vec::new();
    let n = k / 128;
    for step in 0..n {
        let of = |plane: usize, c: usize, e: usize| {
            let q = q(c, step * 128 + e);
            if plane == 0 { high(q) } else { low(q) }
        };
        for i in 0..shape.x_words() as usize {
            for (g, t) in (0..8).flat_map(|g| (0..4).map(move |t| (g, t))) {
                for part in 0..4 {
                    if shape.halves {
                        let at = 4 * i + part;
                        let (plane, word, odd) = (at / 16, at % 16 / 2, at % 2);
                        let e = t * 32 + word * 4 + odd;
                        words.push(half(of(plane, g, e)) | half(of(plane, g, e + 2)) << 16);
                    } else {
                        let at = 4 * i + part;
                        let (plane, word) = (at / 8, at % 8);
                        let b =
                            |j: usize| u32::from(of(plane, g, t * 32 + word * 4 + j) as i8 as u8) << (8 * j);
                        words.push(b(0) | b(1) | b(2) | b(3));
                    }
                }
            }
        }
    }
    for step in 0..n {
        for (g, t) in (0..8).flat_map(|g| (0..4).map(move |t| (g, t))) {
            let sum: i32 = (0..32).map(|j| q(g, step * 128 + t * 32 + j)).sum();
            let a = sum.div_euclid(512);
            words.push(half(a) | half(sum - 512 * a) << 16);
        }
    }
    for step in 0..n {
        for c in 0..8 {
            words.push(ds[c * n + step].to_bits());
        }
    }
    (words, values)
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let registry = Registry::builtin();
    let format = registry.format_named(K).ok_or("none")?;
    if args.first().is_some_and(|a| a == "check") {
        let device = Interpreter::new(InterpOptions { subgroup_size: 32, seed: 3, ..Default::default() });
        for shape in [
            Shape { tiles: 1, subgroups: 8, blocks: 16, slots: 1, halves: false },
            Shape { tiles: 2, subgroups: 8, blocks: 16, slots: 2, halves: true },
        ] {
            let (m, k) = (96, shape.blocks * 256);
            let bytes: Vec<u8> =
                Random::new(5).bytes((m * k / 256 * 144) as usize).iter().map(|b| b & 0xbf).collect();
            let mut values = vec![0.0; (m * k) as usize];
            format.dequantize(&bytes, &mut values)?;
            let rows = Random::new(6).units((8 * k) as usize);
            let (x, quantized) = words_of(shape, &rows, k as usize);
            let filled = |data: &[u8]| -> Result<BufferRange, Box<dyn Error>> {
                let buffer = device.allocate(data.len() as u64, "")?;
                device.write(buffer, 0, data)?;
                Ok(BufferRange { buffer, offset_bytes: 0, bytes: data.len() as u64 })
            };
            let y = filled(&vec![0; (4 * 8 * m) as usize])?;
            let args = DirectArgs {
                w: filled(&(format.pack)(&bytes))?.into(),
                x: filled(&u32_bytes(&x))?.into(),
                y: y.into(),
                p: DirectPush { m, groups: 2 },
            };
            let kernel = Direct::new(shape);
            launch_staged(&device, &kernel.stage()?, &kernel.bind(&args))?;
            let mut found = vec![0; y.bytes as usize];
            device.read(y.buffer, 0, &mut found)?;
            let mut worst = 0.0f64;
            for (i, b) in found.chunks_exact(4).enumerate() {
                let y = f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
                let (c, r) = (i / m as usize, i % m as usize);
                let k = k as usize;
                let (mut e, mut size) = (0.0, 0.0);
                for j in 0..k {
                    let v = f64::from(values[r * k + j]) * f64::from(quantized[c * k + j]);
                    e += v;
                    size += v.abs();
                }
                worst = worst.max((y - e).abs() / size);
            }
            println!("{shape:?}: off by {worst:.1e}");
        }
        return Ok(());
    }
    let bench = Bench::open()?;
    let tiles = args.first().map_or("1x8x1x0x2", String::as_str);
    let shapes = args.get(1).map_or("4096x4096,12288x4096,4096x12288", String::as_str);
    for s in shapes.split(',') {
        let n: Vec<u32> = s.split('x').filter_map(|n| n.parse().ok()).collect();
        let (m, k) = (n[0], n[1]);
        let device_bytes = (format.device_bytes)(u64::from(m) * u64::from(k));
        let weights = bench.rotated(device_bytes)?;
        let tame = bench.repeated(device_bytes, &bench.tame)?;
        let rows = Random::new(2).units((8 * k) as usize);
        let y = bench.buffer(u64::from(32 * m))?;
        let today = |n: u32| -> Result<(f64, Vec<f32>), Box<dyn Error>> {
            let shape = GemvShape { rows: n, m, k, experts: false, exact: Exact::Two };
            let choice = format.choose(shape, bench.gpu.caps());
            let blocks = rows[..(n * k) as usize].chunks_exact(k as usize);
            let words: Vec<u32> = blocks.flat_map(|x| activations::quantize_row(Planes::Two, x).0).collect();
            let (x, step) = (bench.filled(&u32_bytes(&words))?, bench.filled(&plain_step(n))?);
            let units = m * (k / format.unit);
            let p = GemvPush { rows: n, m, k, units, first: 0, stride: m, used: 1, sharing: 1, eps: 0.0 };
            let call = |w: &BufferRange| {
                let o =
                    GemvOperands { w: *w, v: None, x, step, ids: None, bias: None, late: None, y, sum: None };
                (format.gemv.launch(choice.arm))(o, p, choice.tile, Form::default())
            };
            let tamed = call(&tame);
            let kernel = tamed.stage()?;
            let result = bench.result(&kernel, &tamed.args, y)?;
            let calls: Vec<_> = weights.iter().map(|w| call(w).args).collect();
            Ok((bench.time(&kernel, &calls)?, result))
        };
        let (one, _) = today(1)?;
        let (eight, expected) = today(8)?;
        let size = expected.iter().fold(0.0f32, |most, y| most.max(f32::abs(*y)));
        let blocks = u64::from(m * k / 256);
        println!(
            "{s}: F {:.2}, one {one:.2}, bar {:.2}, today {eight:.2}",
            bench.floor(blocks * 144),
            1.6 * one
        );
        let shapes: Vec<(Shape, u32)> = tiles
            .split(',')
            .map(|tile| {
                let n: Vec<u32> = tile.split('x').filter_map(|n| n.parse().ok()).collect();
                let shape =
                    Shape { tiles: n[0], subgroups: n[1], blocks: k / 256, slots: n[2], halves: n[3] > 0 };
                (shape, n[4] * 132)
            })
            .filter(|(shape, _)| shape.blocks % shape.subgroups == 0 && shape.slots <= shape.own())
            .collect();
        for (shape, groups) in shapes {
            let x = bench.filled(&u32_bytes(&words_of(shape, &rows, k as usize).0))?;
            let kernel = Direct::new(shape);
            let staged = kernel.stage()?;
            let call = |w: &BufferRange| {
                kernel.bind(&DirectArgs {
                    w: (*w).into(),
                    x: x.into(),
                    y: y.into(),
                    p: DirectPush { m, groups },
                })
            };
            let r = bench.result(&staged, &call(&tame), y)?;
            let off = expected.iter().zip(&r).fold(0.0f32, |most, (a, b)| most.max(f32::abs(a - b)));
            let calls: Vec<_> = weights.iter().map(call).collect();
            let us = bench.time(&staged, &calls)?;
            println!("  {us:.2} us, off {:.1e}, {shape:?} {groups}: {}", off / size, bench.code(&staged)?);
        }
    }
    Ok(())
}
