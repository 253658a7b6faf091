//! Times a product on cooperative matrices: `gemm f16|s8 N M K [SHAPE...]`, a shape being
//! `TILE_NxMxK/SUBGROUPS_NxM/MATRIX_NxMxK/LANES`.
//!
//! For each shape: sampled elements are compared with the host, then the median of launches on rotating weights is
//! printed, by the device's own clock.

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
/// Copies of W together have at least so many bytes, more than caches hold.
const ROTATED_BYTES: usize = 256 << 20;

const USAGE: &str = "usage: gemm f16|s8 N M K [TILE_NxMxK/SUBGROUPS_NxM/MATRIX_NxMxK/LANES...]";

fn numbers<const N: usize>(text: &str) -> Result<[u32; N], Box<dyn Error>> {
    let numbers = text.split('x').map(str::parse).collect::<Result<Vec<u32>, _>>()?;
    numbers.try_into().map_err(|_| format!("{text}: expected {N} numbers; {USAGE}").into())
}

fn shape(text: &str) -> Result<KhrShape, Box<dyn Error>> {
    match text.split('/').collect::<Vec<_>>()[..] {
        [tile, subgroups, matrix, lanes] => Ok(KhrShape {
            tile: numbers(tile)?,
            subgroups: numbers(subgroups)?,
            matrix: numbers(matrix)?,
            lanes: lanes.parse()?,
        }),
        _ => Err(format!("{text}: expected four parts; {USAGE}").into()),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (ty, size) = (args.first().ok_or(USAGE)?, args.get(1..4).ok_or(USAGE)?.join("x"));
    let (f16, [n, m, k]) = (ty == "f16", numbers(&size)?);
    let (deep, depth) = if f16 { (64, 16) } else { (128, 32) };
    let usual = KhrShape { tile: [128, 128, deep], subgroups: [2, 4], matrix: [16, 16, depth], lanes: 32 };
    let shapes = match &args[4..] {
        [] => vec![usual],
        shapes => shapes.iter().map(|text| shape(text)).collect::<Result<_, _>>()?,
    };
    let gpu = Gpu::open(&RuntimeOptions::default())?;
    let product = Product::new(&gpu, f16, [n, m, k])?;
    for shape in shapes {
        match product.timed(&gpu, shape) {
            Ok(text) => println!("{ty} {n} x {m} x {k}, {shape:?}: {text}"),
            Err(why) => println!("{ty} {n} x {m} x {k}, {shape:?}: {why}"),
        }
    }
    Ok(())
}

struct Product {
    f16: bool,
    p: GemmPush,
    x_data: Vec<u8>,
    w_data: Vec<u8>,
    x: BufferRange,
    /// Copies of W.
    ws: Vec<BufferRange>,
    y: BufferRange,
}

impl Product {
    fn new(gpu: &Gpu, f16: bool, [n, m, k]: [u32; 3]) -> Result<Self, Box<dyn Error>> {
        let mut random = Random::new(1);
        let x_data = content(&mut random, (n * k) as usize, f16);
        let w_data = content(&mut random, (m * k) as usize, f16);
        let operand = |data: &[u8]| -> Result<BufferRange, Box<dyn Error>> {
            let bytes = data.len() as u64;
            let buffer = gpu.allocate(bytes, "operand")?;
            gpu.write(buffer, 0, data)?;
            Ok(BufferRange { buffer, offset_bytes: 0, bytes })
        };
        let copies = ROTATED_BYTES.div_ceil(w_data.len()).clamp(1, LAUNCHES);
        let ws = (0..copies).map(|_| operand(&w_data)).collect::<Result<_, _>>()?;
        let (x, y) = (operand(&x_data)?, operand(&vec![0; 4 * n as usize * m as usize])?);
        Ok(Product { f16, p: GemmPush { n, m, k }, x_data, w_data, x, ws, y })
    }

    fn staged(&self, shape: KhrShape, w: BufferRange) -> Result<(StagedKernel, LaunchArgs), Box<dyn Error>> {
        let (x, y, p) = (self.x, self.y, self.p);
        Ok(if self.f16 {
            let kernel = GemmF16::new(shape);
            (kernel.stage()?, kernel.bind(&GemmKhrArgs { x: x.into(), w: w.into(), y: y.into(), p }))
        } else {
            let kernel = GemmS8::new(shape);
            (kernel.stage()?, kernel.bind(&GemmKhrArgs { x: x.into(), w: w.into(), y: y.into(), p }))
        })
    }

    fn timed(&self, gpu: &Gpu, shape: KhrShape) -> Result<String, Box<dyn Error>> {
        let (kernel, _) = self.staged(shape, self.ws[0])?;
        let prepared = gpu.prepare(&kernel)?;
        let options = RecordOptions { timestamps: true, ..Default::default() };
        let mut recorder = gpu.recorder("gemm", options)?;
        for w in self.ws.iter().cycle().take(LAUNCHES) {
            recorder.launch(&prepared, &self.staged(shape, *w)?.1)?;
        }
        let recorded = recorder.finish()?;
        gpu.write(self.y.buffer, 0, &vec![0xff; self.y.bytes as usize])?;
        recorded.run()?;
        self.compare(gpu)?;
        // The first runs warm the clocks up.
        for _ in 0..3 {
            recorded.run()?;
        }
        let mut ns: Vec<f64> = recorded.timings()?.unwrap_or_default().iter().map(|t| t.ns).collect();
        ns.sort_by(f64::total_cmp);
        let GemmPush { n, m, k } = self.p;
        let tera = |ns: f64| 2.0 * f64::from(n) * f64::from(m) * f64::from(k) / ns / 1000.0;
        let (median, best) = (ns[ns.len() / 2], ns[0]);
        Ok(format!("{:.1} us, {:.1} T/s, best {:.1}", median / 1e3, tera(median), tera(best)))
    }

    /// Compares sampled elements of y with the host's.
    fn compare(&self, gpu: &Gpu) -> Result<(), Box<dyn Error>> {
        let (m, k) = (self.p.m as usize, self.p.k as usize);
        let mut y_data = vec![0; self.y.bytes as usize];
        gpu.read(self.y.buffer, 0, &mut y_data)?;
        let mut random = Random::new(2);
        for _ in 0..64 {
            let (row, column) = (random.below(self.p.n) as usize, random.below(self.p.m) as usize);
            let at = 4 * (row * m + column);
            let word: [u8; 4] = y_data[at..at + 4].try_into()?;
            let is = match self.f16 {
                true => f64::from(f32::from_le_bytes(word)),
                false => f64::from(i32::from_le_bytes(word)),
            };
            let (x, w) = (values(&self.x_data, row * k, k, self.f16), values(&self.w_data, column * k, k, self.f16));
            let products: Vec<f64> = x.iter().zip(&w).map(|(x, w)| x * w).collect();
            let (wanted, size): (f64, f64) = (products.iter().sum(), products.iter().map(|p| p.abs()).sum());
            let bound = if self.f16 { size * 2.0 * k as f64 * f64::from(f32::EPSILON) } else { 0.0 };
            // Written so that what is no number fails.
            if !((is - wanted).abs() <= bound) {
                return Err(format!("y[{row}, {column}] is {is}, expected {wanted} ± {bound}").into());
            }
        }
        Ok(())
    }
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
