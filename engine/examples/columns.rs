//! Whether products of fragments serve eight rows of x better than integer dot products do:
//! `columns [FORMAT,..] [TILESxSUBGROUPSxAHEADxWORDSxXxGROUPS,..] [f16|int8,..] [ROWSxCOLUMNS,..]`, and `columns check` on the
//! interpreter.
//!
//! Each result is held against that of the tile which is chosen today before it is timed; beside both stands the time of
//! one row of x in f16, of which eight may take 1.6. `columns check` holds small ones against plain Rust. Sums meet
//! neighbors first here and halves first in `gemv`, so that they agree but for roundings.

#[path = "columns/kernel.rs"]
mod kernel;
#[path = "columns/shape.rs"]
mod shape;
mod timing;
#[path = "columns/words.rs"]
mod words;

use std::error::Error;

use kernel::{Columns, ColumnsArgs, ColumnsPush, words_of};
use kiln_abi::{
    BufferRange, Device, Kernel as _, LaunchArgs, StageErrors, StagedKernel, launch::launch_staged,
};
use kiln_kernels::{
    FormatRow, Registry,
    activations::{self, Planes},
    conformance::{Random, plain_step, u32_bytes},
    formats::{Q2K, Q3K, Q4_0, Q4K, Q5K, Q6K, Q8_0},
    gemv::{Exact, Form, GemvOperands, GemvPush, Shape as GemvShape},
};
use kiln_spirv_interp::{InterpOptions, Interpreter};
use shape::{COLUMNS, Shape, UNIT, XAhead, factor};
use timing::Bench;

const FORMATS: &str = "Q4_K,Q5_K,Q6_K,Q3_K,Q2_K";
const TILES: &str = "2x16x1x1x0x1,2x16x2x1x0x1,2x16x2x1x1x1,2x8x1x1x0x1,2x8x2x1x0x1,2x8x4x1x0x1,1x8x1x1x0x2,1x8x2x1x0x2,1x16x1x1x0x1";
const SHAPES: &str = "4096x4096,12288x4096,4096x12288";

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let list = |i: usize, default: &str| -> Vec<String> {
        args.get(i).map_or(default, String::as_str).split(',').map(str::to_owned).collect()
    };
    if args.first().is_some_and(|arg| arg == "check") {
        return check();
    }
    let (registry, bench) = (Registry::builtin(), Bench::open()?);
    for name in list(0, FORMATS) {
        let format = registry.format_named(&name).ok_or(format!("{name} is no format"))?;
        for (class, shape) in
            list(2, "f16,int8").iter().flat_map(|c| list(3, SHAPES).into_iter().map(move |s| (c.clone(), s)))
        {
            let [m, k] = numbers(&shape)[..] else {
                return Err(format!("{shape} is no shape; write 4096x4096").into());
            };
            let planes = if class == "int8" { Planes::One } else { Planes::Two };
            let found = time(&bench, format, planes, (m, k), &list(1, TILES));
            println!("{name:5} {class:4} {shape:11} {}", found.unwrap_or_else(|why| why.to_string()));
        }
    }
    Ok(())
}

fn numbers(text: &str) -> Vec<u32> {
    text.split('x').filter_map(|n| n.parse().ok()).collect()
}

/// The kernel of a format, and what it is told of it.
fn staged(
    format: &str,
    planes: Planes,
    shape: Shape,
    args: &ColumnsArgs,
) -> Result<(Result<StagedKernel, StageErrors>, LaunchArgs), Box<dyn Error>> {
    macro_rules! of {
        ($($name:literal $format:ty),*) => {
            match format {
                $($name => {
                    let kernel = Columns::<$format>::new(planes, shape);
                    Ok((kernel.stage(), kernel.bind(args)))
                })*
                _ => Err(format!("{format} is not tried").into()),
            }
        };
    }
    of!("Q4_K" Q4K, "Q5_K" Q5K, "Q6_K" Q6K, "Q3_K" Q3K, "Q2_K" Q2K, "Q4_0" Q4_0, "Q8_0" Q8_0)
}

/// The shape for a format and rows of `k`: lanes meet as those of one row do.
fn shape_of(format: &str, k: u32, [tiles, subgroups, ahead, words, x, drop]: [u32; 6]) -> Shape {
    let units = k / UNIT;
    let most_lanes = if ["Q2_K", "Q3_K"].contains(&format) { 64 } else { 128 };
    let lanes =
        [128, 64, 32, 8].into_iter().find(|n| *n <= most_lanes && units.is_multiple_of(*n)).unwrap_or(8);
    let most = match format {
        "Q4_K" => (15, false),
        "Q5_K" => (31, false),
        "Q2_K" => (3, false),
        "Q3_K" => (4, true),
        "Q4_0" => (8, true),
        "Q6_K" => (63, false),
        _ => (128, true),
    };
    let x = match x {
        0 => XAhead::Use,
        _ => XAhead::Step,
    };
    let nibbles = words > 0 && ["Q4_K", "Q4_0"].contains(&format);
    Shape { tiles, subgroups, lanes, rounds: units / lanes, ahead, x, most, nibbles, drop }
}

/// Small products on the interpreter, beside plain Rust.
fn check() -> Result<(), Box<dyn Error>> {
    let registry = Registry::builtin();
    let device = Interpreter::new(InterpOptions { subgroup_size: 32, seed: 3, ..Default::default() });
    let filled = |data: &[u8]| -> Result<BufferRange, Box<dyn Error>> {
        let buffer = device.allocate(data.len() as u64, "")?;
        device.write(buffer, 0, data)?;
        Ok(BufferRange { buffer, offset_bytes: 0, bytes: data.len() as u64 })
    };
    for (name, planes, (m, k), tile) in [
        ("Q4_K", Planes::Two, (96, 4096), [2, 4, 1, 1, 1, 0]),
        ("Q4_K", Planes::Two, (128, 4096), [2, 16, 2, 0, 0, 0]),
        ("Q4_K", Planes::One, (128, 12288), [2, 16, 1, 1, 0, 0]),
        ("Q5_K", Planes::Two, (48, 4096), [1, 8, 4, 1, 1, 0]),
        ("Q6_K", Planes::Two, (64, 4096), [2, 8, 1, 1, 0, 0]),
        ("Q6_K", Planes::One, (96, 4096), [2, 8, 2, 1, 0, 0]),
        ("Q3_K", Planes::Two, (96, 4096), [2, 8, 1, 1, 1, 0]),
        ("Q2_K", Planes::Two, (96, 12288), [2, 8, 3, 1, 0, 0]),
        ("Q4_0", Planes::Two, (96, 4096), [2, 8, 1, 1, 0, 0]),
        ("Q8_0", Planes::Two, (96, 4096), [2, 8, 1, 1, 1, 0]),
    ] {
        let format = registry.format_named(name).ok_or("the format is there")?;
        let n_blocks = (m * k / format.geometry.elements()) as usize;
        let mut random = Random::new(5);
        let bytes: Vec<u8> = random.bytes(n_blocks * format.geometry.bytes() as usize);
        let bytes: Vec<u8> = bytes.iter().map(|byte| byte & 0xbf).collect();
        let mut values = vec![0.0; (m * k) as usize];
        format.dequantize(&bytes, &mut values)?;
        let rows = random.units((COLUMNS * k) as usize);
        let shape = shape_of(name, k, tile);
        let x = words_of(planes, factor(shape, planes), &rows, k as usize);
        let y = filled(&vec![0; (4 * COLUMNS * m) as usize])?;
        let args = ColumnsArgs {
            w: filled(&(format.pack)(&bytes))?.into(),
            x: filled(&u32_bytes(&x))?.into(),
            y: y.into(),
            p: ColumnsPush { m, groups: 2 },
        };
        let (kernel, args) = staged(name, planes, shape, &args)?;
        let kernel = kernel?;
        launch_staged(&device, &kernel, &args)?;
        let mut found = vec![0; y.bytes as usize];
        device.read(y.buffer, 0, &mut found)?;
        let found = found.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        let quantized = rows.chunks_exact(k as usize).map(|x| activations::quantize_row(planes, x).1);
        let dot = |a: &[f32], b: &[f32], size: bool| -> f64 {
            let products = a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b));
            products.map(|v| if size { v.abs() } else { v }).sum()
        };
        let expected: Vec<(f64, f64)> = quantized
            .flat_map(|x| {
                let rows = values.chunks_exact(k as usize);
                rows.map(|w| (dot(w, &x, false), dot(w, &x, true))).collect::<Vec<_>>()
            })
            .collect();
        let off = found.zip(&expected).map(|(y, (e, size))| (f64::from(y) - e).abs() / size);
        let worst = off.fold(0.0, f64::max);
        println!("{name} {planes:?} {m}x{k} {tile:?}: off by {worst:.1e} of the sizes");
        if worst.is_nan() || worst > 1e-6 {
            return Err("that is too far".into());
        }
    }
    Ok(())
}

/// One format and shape under each tile, beside today's and one row.
fn time(
    bench: &Bench,
    format: &FormatRow,
    planes: Planes,
    (m, k): (u32, u32),
    tiles: &[String],
) -> Result<String, Box<dyn Error>> {
    let device_bytes = (format.device_bytes)(u64::from(m) * u64::from(k));
    let weights = bench.rotated(device_bytes)?;
    let tame = bench.repeated(device_bytes, &bench.tame)?;
    let rows = Random::new(2).units((COLUMNS * k) as usize);
    let y = bench.buffer(u64::from(4 * COLUMNS * m))?;
    let mut held = vec![tame, y];
    let mut today = |n: u32, exact: Exact, planes: Planes| -> Result<(f64, Vec<f32>), Box<dyn Error>> {
        let shape = GemvShape { rows: n, m, k, experts: false, exact };
        let choice = format.choose(shape, bench.gpu.caps());
        let blocks = rows[..(n * k) as usize].chunks_exact(k as usize);
        let words: Vec<u32> = blocks.flat_map(|x| activations::quantize_row(planes, x).0).collect();
        let (x, step) = (bench.filled(&u32_bytes(&words))?, bench.filled(&plain_step(n))?);
        held.extend([x, step]);
        let units = m * (k / format.unit);
        let p = GemvPush { rows: n, m, k, units, first: 0, stride: m, used: 1, sharing: 1, eps: 0.0 };
        let call = |w: &BufferRange| {
            let o = GemvOperands { w: *w, v: None, x, step, ids: None, bias: None, late: None, y, sum: None };
            (format.gemv.launch(choice.arm))(o, p, choice.tile, Form::default())
        };
        let tamed = call(&tame);
        let kernel = tamed.stage()?;
        let result = bench.result(&kernel, &tamed.args, y)?;
        let calls: Vec<_> = weights.iter().map(|w| call(w).args).collect();
        Ok((bench.time(&kernel, &calls)?, result))
    };
    let (one, _) = today(1, Exact::Two, Planes::Two)?;
    let exact = if planes == Planes::One { Exact::One } else { Exact::Two };
    let (eight, expected) = today(COLUMNS, exact, planes)?;
    let size = expected.iter().fold(0.0f32, |most, y| most.max(f32::abs(*y)));
    let mut found = vec![(eight, format!("*{eight:.2}"))];
    let mut shapes = Vec::new();
    for tile in tiles {
        let [tiles, subgroups, ahead, words, x, per, drop] = numbers(tile)[..] else {
            return Err(format!("{tile} is no tile; write 2x8x1x1x1x1").into());
        };
        shapes.push((shape_of(format.name, k, [tiles, subgroups, ahead, words, x, drop]), per * 132));
    }
    for (tile, (shape, groups)) in tiles.iter().zip(shapes) {
        let x = bench.filled(&u32_bytes(&words_of(planes, factor(shape, planes), &rows, k as usize)))?;
        held.push(x);
        let call = |w: &BufferRange| {
            let args = ColumnsArgs { w: (*w).into(), x: x.into(), y: y.into(), p: ColumnsPush { m, groups } };
            staged(format.name, planes, shape, &args)
        };
        let (kernel, args) = call(&tame)?;
        let kernel = kernel?;
        println!("  {tile}: {}", bench.code(&kernel)?);
        let off = bench
            .result(&kernel, &args, y)
            .map(|r| expected.iter().zip(&r).fold(0.0f32, |most, (a, b)| most.max(f32::abs(a - b))));
        match off {
            Err(e) => found.push((f64::MAX, format!("{tile}: {e}"))),
            Ok(off) if shape.drop == 0 && (off.is_nan() || off > 1e-4 * size) => {
                found.push((f64::MAX, format!("{tile}: WRONG by {off} of {size}")));
            }
            Ok(_) => {
                let mut calls = Vec::new();
                for w in &weights {
                    calls.push(call(w)?.1);
                }
                let us = bench.time(&kernel, &calls)?;
                found.push((us, format!("{tile} {us:.2}")));
            }
        }
    }
    for range in weights.iter().chain(&held) {
        bench.gpu.free(range.buffer);
    }
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    let found: Vec<String> = found.into_iter().map(|f| f.1).collect();
    let blocks = u64::from(m * k / format.geometry.elements());
    let floor = bench.floor(blocks * u64::from(format.geometry.bytes()));
    Ok(format!("F {floor:.2} us, one {one:.2}, bar {:.2} | {}", 1.6 * one, found.join(" | ")))
}
