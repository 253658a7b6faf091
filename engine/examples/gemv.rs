//! Time of a gemv launch on a Vulkan device beside its floor: `gemv [FORMAT,..|all] [COLS,..] [LANESxROWSxAHEADxLOCAL,..]`.
//!
//! The floor is a bare dependent dispatch and the bytes of the file's blocks at the rate of a kernel that only reads;
//! both are measured in the same run. Weights rotate over more than a cache holds, a barrier stands between launches.
//! It checks no results: read it beside the conformance of the same variants.

use std::error::Error;
use std::time::Instant;

use kiln_abi::{BufferId, BufferRange, Device as _, Kernel as _, LaunchArgs};
use kiln_dsl::prelude::*;
use kiln_kernels::{
    FormatRow, Registry, activations,
    conformance::{Random, plain_step},
    gemv::{Arm, Form, GemvOperands, GemvPush, Shape, Tile},
    scale::{Scale, ScaleArgs, ScalePush},
};
use kiln_runtime::{CacheDir, Gpu, RecordOptions, RuntimeOptions};

/// More than any cache.
const ROTATED_BYTES: u64 = 200 << 20;
/// Rows, columns, experts used of a stack.
const SHAPES: [(u32, u32, u32); 4] = [(4096, 4096, 1), (12288, 4096, 1), (4096, 12288, 1), (768, 2048, 8)];

/// Push constants of `read_all`.
#[derive(Clone, Copy, Push)]
struct ReadPush {
    groups: u32,
    each: u32,
}

/// Reads every word; the sum is stored only if it is one in 2^32.
#[kernel(local_size = 256, grid = p.groups)]
fn read_all(#[len(p.groups * 256 * p.each)] x: &Buf<Vec4<u32>>, y: &BufMut<u32>, #[push] p: ReadPush) {
    let mut sum = 0u32;
    let first = workgroup_id_x() * 256 * p.each + local_id();
    for i in (0..p.each).step_by(8) {
        for j in comptime!(0..8u32) {
            let v = x[first + (i + j) * 256];
            sum ^= (v.x() ^ v.y()) ^ (v.z() ^ v.w());
        }
    }
    if sum == 0x1234_5678 {
        y[0] = sum;
    }
}

struct Bench {
    gpu: Gpu,
    random: Vec<u8>,
}

impl Bench {
    fn buffer(&self, bytes: u64) -> Result<BufferRange, Box<dyn Error>> {
        let buffer = self.gpu.allocate(bytes, "bench")?;
        for at in (0..bytes).step_by(self.random.len()) {
            let n = (bytes - at).min(self.random.len() as u64) as usize;
            self.gpu.write(buffer, at, &self.random[..n])?;
        }
        Ok(BufferRange { buffer, offset_bytes: 0, bytes })
    }

    fn filled(&self, bytes: &[u8]) -> Result<BufferRange, Box<dyn Error>> {
        let buffer: BufferId = self.gpu.allocate(bytes.len() as u64, "bench")?;
        self.gpu.write(buffer, 0, bytes)?;
        Ok(BufferRange { buffer, offset_bytes: 0, bytes: bytes.len() as u64 })
    }

    /// Microseconds of a launch in a row of them, the best of five runs.
    fn time(&self, kernel: &kiln_abi::StagedKernel, launches: &[LaunchArgs]) -> Result<f64, Box<dyn Error>> {
        let prepared = self.gpu.prepare(kernel)?;
        let n = 1500usize.next_multiple_of(launches.len());
        let mut recorder = self.gpu.recorder("bench", RecordOptions::default())?;
        for i in 0..n {
            recorder.launch(&prepared, &launches[i % launches.len()])?;
        }
        let recorded = recorder.finish()?;
        recorded.run()?;
        let mut best = f64::MAX;
        for _ in 0..5 {
            let start = Instant::now();
            recorded.run()?;
            best = best.min(start.elapsed().as_secs_f64() * 1e6 / n as f64);
        }
        Ok(best)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let list = |i: usize, default: &str| -> Vec<String> {
        args.get(i).map_or(default, String::as_str).split(',').map(str::to_owned).collect()
    };
    let registry = Registry::builtin();
    let (formats, cols, tiles) = (list(0, "all"), list(1, "1,8"), list(2, "chosen"));
    let gpu = Gpu::open(&RuntimeOptions { cache: CacheDir::Off, ..Default::default() })?;
    let bench = Bench { gpu: gpu.clone(), random: Random::new(1).bytes(16 << 20) };
    let one = bench.filled(&plain_step(1))?;
    let (x, y) = (bench.buffer(4096)?, bench.buffer(4096)?);
    let p = ScalePush { rows: 1, n: 64, factor: 1.0 };
    let bare = Scale::new().bind(&ScaleArgs { x: x.into(), step: one.into(), y: y.into(), p });
    let dispatch = bench.time(&Scale::new().stage()?, &[bare])?;
    let big = bench.buffer(640 << 20)?;
    let each = 64;
    let p = ReadPush { groups: (big.bytes / 16 / 256 / each) as u32, each: each as u32 };
    let read = ReadAll::new().bind(&ReadAllArgs { x: big.into(), y: y.into(), p });
    let rate = big.bytes as f64 / bench.time(&ReadAll::new().stage()?, &[read])?;
    gpu.free(big.buffer);
    println!(
        "{} ({}): dispatch {dispatch:.2} us, reads {:.0} GB/s",
        gpu.caps().name,
        gpu.caps().driver,
        rate / 1e3
    );
    for format in registry.formats().filter(|f| formats[0] == "all" || formats.iter().any(|n| n == f.name)) {
        for n in &cols {
            let mut line = format!("{:8} x{n}", format.name);
            for shape in SHAPES {
                for tile in &tiles {
                    line += &one_shape(&bench, format, n.parse()?, shape, tile, (dispatch, rate))?;
                }
            }
            println!("{line}");
        }
    }
    Ok(())
}

fn one_shape(
    bench: &Bench,
    format: &FormatRow,
    n: u32,
    (m, k, used): (u32, u32, u32),
    tile: &str,
    (dispatch, rate): (f64, f64),
) -> Result<String, Box<dyn Error>> {
    if used > 1 && n > 1 {
        return Ok(String::new());
    }
    let experts = used > 1;
    let shape = Shape { rows: n * used, m, k, experts, float: std::env::var_os("FLOAT").is_some() };
    let choice = format.choose(shape, bench.gpu.caps());
    let mut t = choice.tile;
    if let [lanes, rows, ahead, local] =
        tile.split('x').filter_map(|n| n.parse().ok()).collect::<Vec<u32>>()[..]
    {
        t = Tile { lanes, rows, ahead, local, ..t };
    }
    let units = used * m * (k / format.unit);
    let device_bytes = (format.device_bytes)(u64::from(used * m) * u64::from(k));
    let file_bytes = f64::from(used * m) * f64::from(k) / f64::from(format.geometry.elements())
        * f64::from(format.geometry.bytes());
    let copies = ROTATED_BYTES.div_ceil(device_bytes).max(2);
    let weights = (0..copies).map(|_| bench.buffer(device_bytes)).collect::<Result<Vec<_>, _>>()?;
    let x = bench.buffer(match choice.arm {
        Arm::Float => 4 * u64::from(n) * u64::from(k),
        Arm::Dot4 => activations::row_bytes(n.into(), k),
    })?;
    let y = bench.buffer(u64::from(4 * n * used * m))?;
    let ids: Vec<u8> = (0..n * used).flat_map(|i| (i % used).to_le_bytes()).collect();
    let ids = bench.filled(&ids)?;
    let step_n = bench.filled(&plain_step(n))?;
    let form = Form { experts, ..Form::default() };
    let launch = match (choice.arm, format.gemv.dot4) {
        (Arm::Dot4, Some(launch)) => launch,
        _ => format.gemv.float,
    };
    let p = GemvPush { rows: n * used, m, k, units, first: 0, stride: m, used, sharing: used };
    let call = |w: &BufferRange| {
        let o = GemvOperands { w: *w, v: None, x, step: step_n, ids: experts.then_some(ids), bias: None, y };
        launch(o, p, t, form)
    };
    let calls: Vec<_> = weights.iter().map(call).collect();
    let us = bench.time(&calls[0].stage()?, &calls.iter().map(|c| c.args.clone()).collect::<Vec<_>>())?;
    for range in weights.iter().chain([&x, &y, &ids, &step_n]) {
        bench.gpu.free(range.buffer);
    }
    let floor = dispatch + file_bytes / rate;
    Ok(format!(" | {m}x{k} {t:?}: {us:.2} us, {:.2} F", us / floor))
}
