//! Times a product on cooperative matrices: `gemm TYPE N M K [resident] [times=N] [SHAPE...]`, TYPE being f16, s8 or a
//! format such as Q4_K, a shape `TILE_NxMxK/SUBGROUPS_NxM/MATRIX_NxMxK/LANES` and perhaps `/SCHEDULE`: what differs from
//! the plain one, as in `slices=2+across`.
//!
//! For each shape: sampled elements are compared with the host, then the median of launches is printed, by the device's
//! own clock; with `times`, the median of so many such, all shapes taking turns, and the least and the most. Weights
//! rotate, so that they come from memory, unless they are to be resident: then caches may hold them.

use std::{
    error::Error,
    time::{Duration, Instant},
};

use kiln_abi::{BufferRange, Device, StagedKernel};
use kiln_kernels::{
    Call, FormatRow, Registry,
    conformance::{Random, u32_bytes},
    gemm::{
        GemmDecodedPush, GemmF16, GemmOperands, GemmS8, KhrShape, Schedule,
        khr::{GemmKhrArgs, GemmPush},
        plain_shape,
    },
    step::{StepRow, step_block},
};
use kiln_runtime::{Gpu, Prepared, RecordOptions, RuntimeOptions};

const LAUNCHES: usize = 20;
const WARM_UP: Duration = Duration::from_millis(300);
/// Of a shape, once the device is warm.
const TURN: Duration = Duration::from_millis(10);
/// Copies of W together have at least so many bytes, more than caches hold.
const ROTATED_BYTES: usize = 256 << 20;

const USAGE: &str = "usage: gemm f16|s8|FORMAT N M K [resident] [times=N] [TILE_NxMxK/SUBGROUPS_NxM/MATRIX_NxMxK/LANES[/SCHEDULE]...]";

fn numbers<const N: usize>(text: &str) -> Result<[u32; N], Box<dyn Error>> {
    let numbers = text.split('x').map(str::parse).collect::<Result<Vec<u32>, _>>()?;
    numbers.try_into().map_err(|_| format!("{text}: expected {N} numbers; {USAGE}").into())
}

fn shape(text: &str) -> Result<KhrShape, Box<dyn Error>> {
    let parts: Vec<&str> = text.split('/').collect();
    let (&[tile, subgroups, matrix, lanes], schedule) =
        parts.split_first_chunk().ok_or_else(|| format!("{text}: expected four parts or five; {USAGE}"))?;
    Ok(KhrShape {
        tile: numbers(tile)?,
        subgroups: numbers(subgroups)?,
        matrix: numbers(matrix)?,
        lanes: lanes.parse()?,
        schedule: schedule.first().map_or(Ok(Schedule::PLAIN), |text| of_schedule(text))?,
    })
}

/// A schedule by what differs from the plain one, written as it is printed.
fn of_schedule(text: &str) -> Result<Schedule, Box<dyn Error>> {
    let mut schedule = Schedule::PLAIN;
    for part in text.split('+') {
        match part.split_once('=').unwrap_or((part, "")) {
            ("slices", n) => schedule.slices = n.parse()?,
            ("across", "") => schedule.across = true,
            ("eager", "") => schedule.eager = true,
            ("matrices", "") => schedule.matrices = true,
            _ => {
                let known = "slices=N, across, eager, matrices";
                return Err(format!("{part}: a schedule has {known}, joined by +").into());
            }
        }
    }
    Ok(schedule)
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (ty, size) = (args.first().ok_or(USAGE)?, args.get(1..4).ok_or(USAGE)?.join("x"));
    let [n, m, k] = numbers(&size)?;
    let (mut resident, mut times, mut shapes) = (false, 1, Vec::new());
    for word in &args[4..] {
        match word.split_once("times=") {
            Some(("", n)) => times = n.parse::<u32>()?.max(1),
            _ if word == "resident" => resident = true,
            _ => shapes.push(shape(word)?),
        }
    }
    if shapes.is_empty() {
        shapes.push(plain_shape(ty == "s8", [n, m]));
    }
    let gpu = Gpu::open(&RuntimeOptions::default())?;
    let product = Product::new(&gpu, ty, GemmPush { n, m, k }, resident)?;
    let mut prepared: Vec<_> = product.prepared(&gpu, &shapes);
    let started = Instant::now();
    let mut ns = vec![Vec::new(); shapes.len()];
    for time in 0..times {
        for (i, shape) in shapes.iter().enumerate() {
            let Ok(kernel) = &prepared[i] else { continue };
            let warm_up = if started.elapsed() < WARM_UP { WARM_UP } else { TURN };
            let timed = product.timed(&gpu, *shape, kernel, warm_up, time == 0);
            match timed {
                Ok(median) => ns[i].push(median),
                Err(why) => prepared[i] = Err(why.to_string()),
            }
        }
    }
    let tera = |ns: f64| 2.0 * f64::from(n) * f64::from(m) * f64::from(k) / ns / 1000.0;
    for ((shape, prepared), mut ns) in shapes.iter().zip(prepared).zip(ns) {
        ns.sort_by(f64::total_cmp);
        match prepared {
            Ok(_) => {
                let [most, median, least] = [ns[0], ns[ns.len() / 2], ns[ns.len() - 1]].map(tera);
                println!(
                    "{ty} {n} x {m} x {k}, {shape:?}: {:.1} us, {median:.1} T/s, {least:.1} to {most:.1}",
                    ns[ns.len() / 2] / 1e3
                );
            }
            Err(why) => println!("{ty} {n} x {m} x {k}, {shape:?}: {why}"),
        }
    }
    Ok(())
}

/// Elements of one operand.
type Values = Box<dyn Fn(usize) -> Vec<f64>>;

struct Product {
    p: GemmPush,
    /// The launch of a shape, with a copy of W.
    call: Box<dyn Fn(KhrShape, BufferRange) -> Call>,
    /// A row of x, and of W.
    rows: [Values; 2],
    /// Whether W is decoded from a format.
    decoded: bool,
    /// Whether sums are exact integers.
    exact: bool,
    /// What else a product is off by, relative.
    slack: f64,
    /// Copies of W.
    ws: Vec<BufferRange>,
    y: BufferRange,
}

impl Product {
    fn new(gpu: &Gpu, ty: &str, p: GemmPush, resident: bool) -> Result<Self, Box<dyn Error>> {
        let GemmPush { n, m, k } = p;
        let registry = Registry::builtin();
        let format = registry.format_named(ty).filter(|_| ty != "f16");
        let mut random = Random::new(1);
        let s8 = ty == "s8";
        let x_data = content(&mut random, (n * k) as usize, s8);
        let (w_data, w_values): (Vec<u8>, Values) = match format {
            None => {
                let data = content(&mut random, (m * k) as usize, s8);
                (data.clone(), Box::new(move |row| values(&data, row * k as usize, k as usize, s8)))
            }
            Some(format) if k % format.row_multiple != 0 => {
                return Err(
                    format!("rows of {k} elements are no whole blocks of {}", format.row_multiple).into()
                );
            }
            Some(format) => blocks(&mut random, format, [m, k]),
        };
        let operand = |data: &[u8]| -> Result<BufferRange, Box<dyn Error>> {
            let bytes = data.len() as u64;
            let buffer = gpu.allocate(bytes, "operand")?;
            gpu.write(buffer, 0, data)?;
            Ok(BufferRange { buffer, offset_bytes: 0, bytes })
        };
        let copies = if resident { 1 } else { ROTATED_BYTES.div_ceil(w_data.len()).clamp(1, LAUNCHES) };
        let ws = (0..copies).map(|_| operand(&w_data)).collect::<Result<_, _>>()?;
        let (x, y) = (operand(&x_data)?, operand(&vec![0; 4 * n as usize * m as usize])?);
        let row = StepRow { token: 0, position: 0, slot: 0 };
        let step = operand(&u32_bytes(&step_block(&vec![row; n as usize], &[], n)))?;
        let gemm = format.map(|format| format.gemm);
        let call: Box<dyn Fn(KhrShape, BufferRange) -> Call> = Box::new(move |shape, w| match gemm {
            Some(gemm) => {
                let p = GemmDecodedPush { rows: n, m, k, first: 0, stride: m };
                gemm(GemmOperands { w, x, step, y }, p, shape)
            }
            None if s8 => {
                let args = GemmKhrArgs { x: x.into(), w: w.into(), y: y.into(), p };
                Call::new(GemmS8::new(shape), &args)
            }
            None => {
                let args = GemmKhrArgs { x: x.into(), w: w.into(), y: y.into(), p };
                Call::new(GemmF16::new(shape), &args)
            }
        });
        let x_values: Values = Box::new(move |row| values(&x_data, row * k as usize, k as usize, s8));
        let slack = if gemm.is_some() { 1.0 / 1024.0 } else { 0.0 };
        let decoded = gemm.is_some();
        Ok(Product { p, call, rows: [x_values, w_values], decoded, exact: s8, slack, ws, y })
    }

    /// The shapes' pipelines, made side by side.
    fn prepared(&self, gpu: &Gpu, shapes: &[KhrShape]) -> Vec<Result<Prepared, String>> {
        let kernels: Vec<_> = shapes.iter().map(|shape| self.staged(*shape)).collect();
        let prepare = |kernel: Result<StagedKernel, String>| {
            kernel.and_then(|kernel| gpu.prepare(&kernel).map_err(|e| e.to_string()))
        };
        std::thread::scope(|s| {
            let threads: Vec<_> = kernels.into_iter().map(|kernel| s.spawn(|| prepare(kernel))).collect();
            let joined = |t: std::thread::ScopedJoinHandle<'_, _>| {
                t.join().unwrap_or_else(|_| Err("the driver's compiler panicked".to_owned()))
            };
            threads.into_iter().map(joined).collect()
        })
    }

    fn staged(&self, shape: KhrShape) -> Result<StagedKernel, String> {
        if self.decoded && shape.schedule.eager {
            return Err("eager is a schedule of f16 and s8 alone".into());
        }
        (self.call)(shape, self.ws[0]).stage().map_err(|e| e.to_string())
    }

    /// The median of launches once the device is warm, in nanoseconds.
    fn timed(
        &self,
        gpu: &Gpu,
        shape: KhrShape,
        prepared: &Prepared,
        warm_up: Duration,
        compared: bool,
    ) -> Result<f64, Box<dyn Error>> {
        let options = RecordOptions { timestamps: true, ..Default::default() };
        let mut recorder = gpu.recorder("gemm", options)?;
        for w in self.ws.iter().cycle().take(LAUNCHES) {
            recorder.launch(prepared, &(self.call)(shape, *w).args)?;
        }
        let recorded = recorder.finish()?;
        if compared {
            gpu.write(self.y.buffer, 0, &vec![0xff; self.y.bytes as usize])?;
            recorded.run()?;
            self.compare(gpu)?;
        }
        // An idle device's clocks take their time to rise.
        let started = Instant::now();
        while started.elapsed() < warm_up {
            recorded.run()?;
        }
        let mut ns: Vec<f64> = recorded.timings()?.unwrap_or_default().iter().map(|t| t.ns).collect();
        ns.sort_by(f64::total_cmp);
        Ok(ns[ns.len() / 2])
    }

    /// Compares sampled elements of y with the host's.
    fn compare(&self, gpu: &Gpu) -> Result<(), Box<dyn Error>> {
        let m = self.p.m as usize;
        let mut y_data = vec![0; self.y.bytes as usize];
        gpu.read(self.y.buffer, 0, &mut y_data)?;
        let mut random = Random::new(2);
        for _ in 0..64 {
            let (row, column) = (random.below(self.p.n) as usize, random.below(self.p.m) as usize);
            let at = 4 * (row * m + column);
            let word: [u8; 4] = y_data[at..at + 4].try_into()?;
            let is = match self.exact {
                false => f64::from(f32::from_le_bytes(word)),
                true => f64::from(i32::from_le_bytes(word)),
            };
            let (x, w) = (self.rows[0](row), self.rows[1](column));
            let products: Vec<f64> = x.iter().zip(&w).map(|(x, w)| x * w).collect();
            let (wanted, size): (f64, f64) = (products.iter().sum(), products.iter().map(|p| p.abs()).sum());
            let relative = 2.0 * f64::from(self.p.k) * f64::from(f32::EPSILON) + self.slack;
            let bound = if self.exact { 0.0 } else { size * relative };
            // What is no number is not within.
            let within = (is - wanted).abs() <= bound;
            if !within {
                return Err(format!("y[{row}, {column}] is {is}, expected {wanted} ± {bound}").into());
            }
        }
        Ok(())
    }
}

fn content(random: &mut Random, n: usize, s8: bool) -> Vec<u8> {
    match s8 {
        false => (0..n).flat_map(|_| half::f16::from_f32(random.unit()).to_le_bytes()).collect(),
        true => random.bytes(n),
    }
}

fn values(data: &[u8], first: usize, n: usize, s8: bool) -> Vec<f64> {
    let half = |i: usize| half::f16::from_le_bytes([data[2 * i], data[2 * i + 1]]).to_f64();
    let byte = |i: usize| f64::from(data[i].cast_signed());
    (first..first + n).map(|i| if s8 { byte(i) } else { half(i) }).collect()
}

/// W in a format: as the device holds it, and row by row. One row's random blocks serve every row, in turned order.
fn blocks(random: &mut Random, format: &FormatRow, [m, k]: [u32; 2]) -> (Vec<u8>, Values) {
    let (n_elems, n_bytes) = (format.geometry.elements() as usize, format.geometry.bytes() as usize);
    let mut block = || {
        let mut values = vec![0.0f32; n_elems];
        loop {
            let bytes = random.bytes(n_bytes);
            let decoded = format.dequantize(&bytes, &mut values);
            if decoded.is_ok() && values.iter().all(|v| v.abs() <= 1000.0) {
                return bytes;
            }
        }
    };
    let per_row = k as usize / n_elems;
    let row: Vec<Vec<u8>> = (0..per_row).map(|_| block()).collect();
    let of =
        move |r: usize| (0..per_row).map(|i| row[(i + r) % per_row].clone()).collect::<Vec<_>>().concat();
    let all: Vec<u8> = (0..m as usize).flat_map(&of).collect();
    let (packed, format) = ((format.pack)(&all), format.clone());
    let values = move |r: usize| {
        let mut values = vec![0.0; k as usize];
        // Whole blocks decode.
        _ = format.dequantize(&of(r), &mut values);
        values.into_iter().map(f64::from).collect()
    };
    (packed, Box::new(values))
}
