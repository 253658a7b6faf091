//! Times a product on cooperative matrices: `gemm TYPE N M K [resident] [SHAPE...]`, TYPE being f16, s8 or a format such as
//! Q4_K, a shape `TILE_NxMxK/SUBGROUPS_NxM/MATRIX_NxMxK/LANES` and perhaps `/SCHEDULE`: what differs from the plain one,
//! as in `slices=2+spread`.
//!
//! For each shape: sampled elements are compared with the host, then the median of launches is printed, by the device's
//! own clock. Weights rotate, so that they come from memory, unless they are to be resident: then caches may hold them.

use std::{
    error::Error,
    time::{Duration, Instant},
};

use kiln_abi::{BufferRange, Device};
use kiln_kernels::{
    Call, FormatRow, Registry,
    conformance::{Random, u32_bytes},
    gemm::{
        GemmDecodedPush, GemmF16, GemmOperands, GemmS8, KhrShape, Schedule,
        khr::{GemmKhrArgs, GemmPush},
    },
    step::{StepRow, step_block},
};
use kiln_runtime::{Gpu, RecordOptions, RuntimeOptions};

const LAUNCHES: usize = 20;
const WARM_UP: Duration = Duration::from_millis(300);
/// Copies of W together have at least so many bytes, more than caches hold.
const ROTATED_BYTES: usize = 256 << 20;

const USAGE: &str =
    "usage: gemm f16|s8|FORMAT N M K [resident] [TILE_NxMxK/SUBGROUPS_NxM/MATRIX_NxMxK/LANES[/SCHEDULE]...]";

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
            ("buffers", n) => schedule.buffers = n.parse()?,
            ("ahead", n) => schedule.ahead = n.parse()?,
            ("spread", "") => schedule.spread = true,
            ("early", "") => schedule.early = true,
            ("rows", "") => schedule.by_rows = true,
            _ => {
                let known = "slices=N, buffers=N, ahead=N, spread, early, rows";
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
    let (deep, depth) = if ty == "s8" { (128, 32) } else { (64, 16) };
    let usual = KhrShape {
        tile: [128, 128, deep],
        subgroups: [2, 4],
        matrix: [16, 16, depth],
        lanes: 32,
        schedule: Schedule::PLAIN,
    };
    let (resident, shapes) = match &args[4..] {
        [first, shapes @ ..] if first == "resident" => (true, shapes),
        shapes => (false, shapes),
    };
    let shapes = match shapes {
        [] => vec![usual],
        shapes => shapes.iter().map(|text| shape(text)).collect::<Result<_, _>>()?,
    };
    let gpu = Gpu::open(&RuntimeOptions::default())?;
    let product = Product::new(&gpu, ty, GemmPush { n, m, k }, resident)?;
    for shape in shapes {
        match product.timed(&gpu, shape) {
            Ok(text) => println!("{ty} {n} x {m} x {k}, {shape:?}: {text}"),
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

    fn timed(&self, gpu: &Gpu, shape: KhrShape) -> Result<String, Box<dyn Error>> {
        let Schedule { buffers, ahead, spread, .. } = shape.schedule;
        if self.decoded && (buffers, ahead, spread) != (1, 1, false) {
            return Err("buffers, ahead and spread are schedules of f16 and s8 alone".into());
        }
        let kernel = (self.call)(shape, self.ws[0]).stage()?;
        let prepared = gpu.prepare(&kernel)?;
        let options = RecordOptions { timestamps: true, ..Default::default() };
        let mut recorder = gpu.recorder("gemm", options)?;
        for w in self.ws.iter().cycle().take(LAUNCHES) {
            recorder.launch(&prepared, &(self.call)(shape, *w).args)?;
        }
        let recorded = recorder.finish()?;
        gpu.write(self.y.buffer, 0, &vec![0xff; self.y.bytes as usize])?;
        recorded.run()?;
        self.compare(gpu)?;
        // An idle device's clocks take their time to rise.
        let started = Instant::now();
        while started.elapsed() < WARM_UP {
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
