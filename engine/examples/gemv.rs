//! Time of a gemv launch on a Vulkan device beside its floor:
//! `gemv [FORMAT,..|all] [COLS,..] [LANESxROWSxAHEADxLOCALxCOPIESxROUNDSxWALK,..|chosen] [float|f16|int8,..] [ROWSxCOLUMNSxEXPERTS,..]`.
//!
//! The floor is a bare dependent dispatch and the bytes of the file's blocks at the rate of a kernel that only reads;
//! both are measured in the same run. Weights rotate over more than a cache holds, a barrier stands between launches.
//! Before a tile is timed its result is held against the chosen tile's, whose own is conformance's business.

mod timing;

use std::error::Error;

use kiln_abi::{BufferRange, Device as _};
use kiln_kernels::{
    FormatRow, Registry, activations,
    conformance::{Random, f32_bytes, plain_step, u32_bytes},
    gemv::{Arm, Exact, Form, GemvOperands, GemvPush, Shape, Tile},
};
use timing::Bench;

/// Rows, columns, experts used of a stack.
const SHAPES: &str = "4096x4096x1,12288x4096x1,4096x12288x1,768x2048x8";

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let list = |i: usize, default: &str| -> Vec<String> {
        args.get(i).map_or(default, String::as_str).split(',').map(str::to_owned).collect()
    };
    let registry = Registry::builtin();
    let (formats, cols, tiles) = (list(0, "all"), list(1, "1,8"), list(2, "chosen"));
    let bench = Bench::open()?;
    let classes = list(3, "f16");
    let wanted = |f: &&FormatRow| formats[0] == "all" || formats.iter().any(|n| n == f.name);
    for format in registry.formats().filter(wanted) {
        for (n, class) in cols.iter().flat_map(|n| classes.iter().map(move |class| (n, class))) {
            let exact = match class.as_str() {
                "float" => Exact::Float,
                "int8" => Exact::One,
                _ => Exact::Two,
            };
            for shape in list(4, SHAPES) {
                let [m, k, used] = shape.split('x').filter_map(|n| n.parse().ok()).collect::<Vec<u32>>()[..]
                else {
                    return Err(format!("{shape} is no shape; write 4096x4096x1").into());
                };
                let shape = (m, k, used);
                let found = one_shape(&bench, format, (n.parse()?, exact), shape, &tiles)?;
                println!("{:8} x{n} {class} {found}", format.name);
            }
        }
    }
    Ok(())
}

/// One shape under each tile, the fastest first; nothing where the shape does not go with the columns.
fn one_shape(
    bench: &Bench,
    format: &FormatRow,
    (n, exact): (u32, Exact),
    (m, k, used): (u32, u32, u32),
    tiles: &[String],
) -> Result<String, Box<dyn Error>> {
    let experts = used > 1;
    if experts && n > 1 {
        return Ok(format!("{used} of {m}x{k}: not timed"));
    }
    let shape = Shape { rows: n * used, m, k, experts, exact };
    let choice = format.choose(shape, bench.gpu.caps());
    let units = used * m * (k / format.unit);
    let elements = u64::from(used * m) * u64::from(k);
    let device_bytes = (format.device_bytes)(elements);
    let blocks = elements / u64::from(format.geometry.elements());
    let floor = bench.floor(blocks * u64::from(format.geometry.bytes()));
    let weights = bench.rotated(device_bytes)?;
    let tame = bench.repeated(device_bytes, &bench.tame)?;
    let row = Random::new(2).units((n * k) as usize);
    let x: Vec<u8> = match choice.arm {
        Arm::Float => f32_bytes(&row),
        Arm::Dot4(planes) => {
            let blocks = row.chunks_exact(k as usize).flat_map(|x| activations::quantize_row(planes, x).0);
            u32_bytes(&blocks.collect::<Vec<_>>())
        }
    };
    let (x, y) = (bench.filled(&x)?, bench.buffer(u64::from(4 * n * used * m))?);
    let ids: Vec<u8> = (0..n * used).flat_map(|i| (i % used).to_le_bytes()).collect();
    let (ids, step) = (bench.filled(&ids)?, bench.filled(&plain_step(n))?);
    let form = Form { experts, ..Form::default() };
    let p = GemvPush { rows: n * used, m, k, units, first: 0, stride: m, used, sharing: used, eps: 0.0 };
    let call = |w: &BufferRange, tile: Tile| {
        let o = GemvOperands {
            w: *w,
            v: None,
            x,
            step,
            ids: experts.then_some(ids),
            bias: None,
            late: None,
            y,
            sum: None,
        };
        (format.gemv.launch(choice.arm))(o, p, tile, form)
    };
    let mut expected = Vec::new();
    let mut found = Vec::new();
    for tile in std::iter::once("chosen").chain(tiles.iter().map(String::as_str).filter(|t| *t != "chosen")) {
        let mut t = choice.tile;
        if let [lanes, rows, ahead, local, copies, rounds, walk] =
            tile.split('x').filter_map(|n| n.parse().ok()).collect::<Vec<u32>>()[..]
        {
            t = Tile { lanes, rows, ahead, local, copies, rounds, walk, ..t };
        }
        let tamed = call(&tame, t);
        let staged = match tamed.stage() {
            Ok(staged) => staged,
            Err(e) => {
                found.push((f64::MAX, format!("{t:?}: {e}")));
                continue;
            }
        };
        let result = match bench.result(&staged, &tamed.args, y) {
            Ok(result) => result,
            Err(e) => {
                found.push((f64::MAX, format!("{t:?}: {e}")));
                continue;
            }
        };
        if tile == "chosen" {
            expected = result.clone();
        }
        let size = expected.iter().fold(0.0f32, |most, y| most.max(f32::abs(*y)));
        let off = expected.iter().zip(&result).fold(0.0f32, |most, (a, b)| most.max(f32::abs(a - b)));
        if size.is_nan() || size == 0.0 || off.is_nan() || off > 1e-4 * size {
            found.push((f64::MAX, format!("{t:?}: WRONG by {off} of {size}")));
            continue;
        }
        let calls: Vec<_> = weights.iter().map(|w| call(w, t).args).collect();
        let us = bench.time(&staged, &calls)?;
        let mark = if tile == "chosen" { "*" } else { "" };
        let code = bench.code(&staged)?;
        found.push((us, format!("{mark}{t:?}: {us:.2} us {:.2} F{code}", us / floor)));
    }
    for range in weights.iter().chain([&tame, &x, &y, &ids, &step]) {
        bench.gpu.free(range.buffer);
    }
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    let found: Vec<String> = found.into_iter().map(|f| f.1).collect();
    Ok(format!("{used} of {m}x{k}, F {floor:.2} us | {}", found.join(" | ")))
}
