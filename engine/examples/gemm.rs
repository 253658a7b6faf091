//! Times a product on cooperative matrices: `gemm f16|s8 N M K [TILE_NxMxK SUBGROUPS_NxM MATRIX_NxMxK LANES]`.
//!
//! Prints the median of 20 launches by the device's own clock, and compares sampled elements with the host.

use std::error::Error;

use kiln_abi::{BufferRange, Device, Kernel, LaunchArgs, StagedKernel};
use kiln_kernels::{
    conformance::Random,
    gemm::{
        GemmF16, GemmS8, KhrShape,
        khr::{GemmKhrArgs, GemmPush},
    },
};
use kiln_runtime::{Gpu, RecordOptions, RuntimeOptions};

const LAUNCHES: usize = 20;

const USAGE: &str = "usage: gemm f16|s8 N M K [TILE_NxMxK SUBGROUPS_NxM MATRIX_NxMxK LANES]";

fn numbers<const N: usize>(text: &str) -> Result<[u32; N], Box<dyn Error>> {
    let numbers = text.split('x').map(str::parse).collect::<Result<Vec<u32>, _>>()?;
    numbers.try_into().map_err(|_| format!("{text}: expected {N} numbers; {USAGE}").into())
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (ty, size) = (args.first().ok_or(USAGE)?, args.get(1..4).ok_or(USAGE)?.join("x"));
    let (f16, [n, m, k]) = (ty == "f16", numbers(&size)?);
    let (deep, depth) = if f16 { (64, 16) } else { (128, 32) };
    let shape = match &args[4..] {
        [] => KhrShape { tile: [128, 128, deep], subgroups: [2, 4], matrix: [16, 16, depth], lanes: 32 },
        [tile, subgroups, matrix, lanes] => KhrShape {
            tile: numbers(tile)?,
            subgroups: numbers(subgroups)?,
            matrix: numbers(matrix)?,
            lanes: lanes.parse()?,
        },
        _ => return Err(USAGE.into()),
    };
    let mut random = Random::new(1);
    let gpu = Gpu::open(&RuntimeOptions::default())?;
    let operand = |data: &[u8]| -> Result<BufferRange, Box<dyn Error>> {
        let bytes = data.len() as u64;
        let buffer = gpu.allocate(bytes, "operand")?;
        gpu.write(buffer, 0, data)?;
        Ok(BufferRange { buffer, offset_bytes: 0, bytes })
    };
    let x_data = content(&mut random, (n * k) as usize, f16);
    let w_data = content(&mut random, (m * k) as usize, f16);
    let mut y_data = vec![0; 4 * n as usize * m as usize];
    let (x, w, y) = (operand(&x_data)?, operand(&w_data)?, operand(&y_data)?);
    let p = GemmPush { n, m, k };
    let (kernel, launch): (StagedKernel, LaunchArgs) = if f16 {
        let kernel = GemmF16::new(shape);
        (kernel.stage()?, kernel.bind(&GemmKhrArgs { x: x.into(), w: w.into(), y: y.into(), p }))
    } else {
        let kernel = GemmS8::new(shape);
        (kernel.stage()?, kernel.bind(&GemmKhrArgs { x: x.into(), w: w.into(), y: y.into(), p }))
    };
    let prepared = gpu.prepare(&kernel)?;
    let options = RecordOptions { timestamps: true, ..Default::default() };
    let mut recorder = gpu.recorder("gemm", options)?;
    for _ in 0..LAUNCHES {
        recorder.launch(&prepared, &launch)?;
    }
    let recorded = recorder.finish()?;
    // The first run warms the clocks up.
    for _ in 0..3 {
        recorded.run()?;
    }
    let mut ns: Vec<f64> = recorded.timings()?.unwrap_or_default().iter().map(|t| t.ns).collect();
    ns.sort_by(f64::total_cmp);
    let tera = |ns: f64| 2.0 * f64::from(n) * f64::from(m) * f64::from(k) / ns / 1000.0;
    let (median, best) = (ns[ns.len() / 2], ns[0]);
    let name = &kernel.name;
    println!(
        "{name}: {n} x {m} x {k}: {:.1} us, {:.1} T/s, best {:.1}",
        median / 1e3,
        tera(median),
        tera(best)
    );
    gpu.read(y.buffer, 0, &mut y_data)?;
    for _ in 0..64 {
        let (row, column) = (random.below(n) as usize, random.below(m) as usize);
        let at = 4 * (row * m as usize + column);
        let word: [u8; 4] = y_data[at..at + 4].try_into()?;
        let is = if f16 { f64::from(f32::from_le_bytes(word)) } else { f64::from(i32::from_le_bytes(word)) };
        let k = k as usize;
        let (x, w) = (values(&x_data, row * k, k, f16), values(&w_data, column * k, k, f16));
        let products: Vec<f64> = x.iter().zip(&w).map(|(x, w)| x * w).collect();
        let (wanted, size): (f64, f64) = (products.iter().sum(), products.iter().map(|p| p.abs()).sum());
        let bound = if f16 { size * 2.0 * k as f64 * f64::from(f32::EPSILON) } else { 0.0 };
        assert!((is - wanted).abs() <= bound, "y[{row}, {column}] is {is}, expected {wanted} ± {bound}");
    }
    Ok(())
}

fn content(random: &mut Random, n: usize, f16: bool) -> Vec<u8> {
    match f16 {
        true => (0..n).flat_map(|_| half::f16::from_f32(random.unit()).to_le_bytes()).collect(),
        false => random.bytes(n),
    }
}

fn values(data: &[u8], first: usize, n: usize, f16: bool) -> Vec<f64> {
    let half = |i: usize| half::f16::from_le_bytes([data[2 * i], data[2 * i + 1]]).to_f64();
    let byte = |i: usize| f64::from(data[i].cast_signed());
    (first..first + n).map(|i| if f16 { half(i) } else { byte(i) }).collect()
}
