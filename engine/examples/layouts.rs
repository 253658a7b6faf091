//! Which layout of weights on a device serves a gemv best: times Q4_K and Q8_0 in three, `layouts [ROWSxCOLUMNS,..]`.
//!
//! The file's order; a plane per field, 16 bytes a lane; fragments of 16 rows by 32 columns, as a matrix unit takes
//! them. The products are the same: x as blocks of one plane, an integer dot product, a subgroup of 32 for four rows
//! (of fragments a workgroup of eight for sixteen). Each result is held against plain Rust before it is timed, beside the
//! floor of `gemv`. Where the device has matrices, 512 columns go through their tiles too, on halves and on plain bytes.

mod tiles;
mod timing;

use std::error::Error;

use kiln_abi::{Device as _, Kernel as _};
use kiln_dsl::prelude::*;
use kiln_kernels::{
    Registry,
    activations::{Planes, quantize_row},
    conformance::{Random, u32_bytes},
};
use timing::Bench;

/// Rows of W, columns.
const SHAPES: &str = "4096x4096,12288x4096";
/// Rows that the weights repeat.
const ROWS: usize = 16;
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Layout {
    File,
    Planes,
    Fragments,
}

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct How {
    layout: Layout,
    q8: bool,
    cols: u32,
}

impl How {
    /// Rows of W that a lane works on, those that its workgroup does, and the subgroups of that.
    const fn rows(&self) -> (u32, u32, u32) {
        match self.layout {
            Layout::Fragments => (1, 16, 8),
            _ => (4, 8, 2),
        }
    }

    /// Lanes that share a row, and units of it that each has in flight.
    const fn steps(&self) -> (u32, u32) {
        match self.layout {
            Layout::Fragments => (16, 4),
            _ => (32, 1),
        }
    }

    /// The format's name.
    const fn name(&self) -> &'static str {
        if self.q8 { "Q8_0" } else { "Q4_K" }
    }

    /// Bytes of `units` units of 32 weights.
    const fn bytes(&self, units: u32) -> u32 {
        if self.q8 { units * 34 } else { units * 18 }
    }
}

#[derive(Clone, Copy, Debug, Push)]
struct ProductPush {
    m: u32,
    /// Units of a row.
    units: u32,
}

/// y\[c, i\] = Σ W\[i, j\] x\[c, j\].
#[kernel(local_size = how.rows().2 * 32, subgroup = 32, grid = p.m / how.rows().1)]
fn product(
    #[len(how.bytes(p.m * p.units) / 4)] w: &Buf<u32>,
    #[len(how.cols * 3 * p.units)] x: &Buf<Vec4<u32>>,
    #[len(how.cols * p.m)] y: &BufMut<f32>,
    #[push] p: ProductPush,
    #[comptime] how: How,
) {
    let (own, all, cols) = comptime!((how.rows().0, how.rows().1, how.cols));
    let fragments = comptime!(how.layout == Layout::Fragments);
    let first_row = workgroup_id_x() * all;
    let (row, slice) = if comptime!(fragments) {
        (first_row + (lane() & 15), subgroup_id() * 2 + (lane() >> 4))
    } else {
        (first_row + subgroup_id() * own, lane())
    };
    let n_sums = comptime!(own * cols);
    let mut sums = [0.0; n_sums];
    // A lane of a fragment has four units in flight, as one of four rows has.
    let (step, ahead) = comptime!(how.steps());
    for first in (slice..p.units).step_by(step * ahead) {
        let found = comptime!(round(w, (row, first, step), (p.m, p.units), how));
        for h in comptime!(0..ahead) {
            let i = first + h * step;
            for c in comptime!(0..cols) {
                let at = c * 3 * p.units + i;
                let (x0, x1, d) = (x[at], x[at + p.units], x[at + 2 * p.units]);
                for a in comptime!(0..own) {
                    let (low, high, scale, offset) = comptime!(found[(h * own + a) as usize]);
                    let q = dot16(low, x0, dot16(high, x1, 0));
                    let size = q as f32 * bitcast::<f32, u32>(d.x());
                    let sum = bitcast::<f32, u32>(d.y()) + bitcast::<f32, u32>(d.z());
                    let j = comptime!(c * own + a);
                    sums[j] += fma(size, scale, offset * sum);
                }
            }
        }
    }
    if comptime!(fragments) {
        let parts = Shared::<f32>::new(comptime!(cols * 128));
        for c in comptime!(0..cols) {
            let part = sums[c];
            let pair = part + subgroup::shuffle_xor(part, 16);
            parts[c * 128 + subgroup_id() * 16 + (lane() & 15)] = pair;
        }
        barrier();
        if local_id() < 16 * cols {
            let (c, r) = (local_id() >> 4, local_id() & 15);
            let mut total = 0.0;
            for s in comptime!(0..8u32) {
                total += parts[c * 128 + s * 16 + r];
            }
            y[c * p.m + first_row + r] = total;
        }
    } else {
        for c in comptime!(0..cols) {
            for a in comptime!(0..own) {
                let total = subgroup::add(sums[c * own + a]);
                if slice == 0 {
                    y[c * p.m + row + a] = total;
                }
            }
        }
    }
}

/// The elements of a unit as bytes, its scale and its offset.
type Weights = (Ex<Vec4<u32>>, Ex<Vec4<u32>>, Ex<f32>, Ex<f32>);

/// What a lane has in flight: unit after unit, row after row.
#[track_caller]
fn round(
    w: &Buf<u32>,
    (row, first, step): (Ex<u32>, Ex<u32>, u32),
    (m, units): (Ex<u32>, Ex<u32>),
    how: How,
) -> Vec<Weights> {
    let mut found = Vec::new();
    for h in 0..how.steps().1 {
        for a in 0..how.rows().0 {
            let (row, i) = (plus(row, a), plus(first, h * step));
            found.push(weights_of(w, (row, i), (m, units), how));
        }
    }
    found
}

/// Unit `i` of a row.
#[track_caller]
fn weights_of(
    w: &Buf<u32>,
    (row, i): (Ex<u32>, Ex<u32>),
    (m, units): (Ex<u32>, Ex<u32>),
    how: How,
) -> Weights {
    match (how.layout, how.q8) {
        (Layout::File, false) => q4_k_of_file(w, row, i, units),
        (Layout::File, true) => q8_0_of_file(w, row, i, units),
        (_, false) => q4_k_of_planes(w, row, i, m, units, how.layout == Layout::Fragments),
        (_, true) => q8_0_of_planes(w, row, i, m, units, how.layout == Layout::Fragments),
    }
}

#[device]
fn plus(a: u32, #[comptime] b: u32) -> u32 {
    a + b
}

/// Where field `i` of row `row` lies among fields of one size, `n` of them a row.
#[device]
fn field(row: u32, i: u32, n: u32, #[comptime] fragments: bool) -> u32 {
    if comptime!(fragments) { ((row >> 4) * n + i) * 16 + (row & 15) } else { row * n + i }
}

#[device]
fn q4_k_of_planes(
    w: &Buf<u32>,
    row: u32,
    i: u32,
    m: u32,
    units: u32,
    #[comptime] fragments: bool,
) -> (Vec4<u32>, Vec4<u32>, f32, f32) {
    let (fours, halves) = comptime!((w.view::<Vec4<u32>>(), w.view::<u16>()));
    let at = field(row, i, units, comptime!(fragments));
    let q = fours[at];
    let pair = halves[m * units * 8 + at] as u32;
    let dd = unpack_half(w[m * units * 9 / 2 + field(row, i >> 3, units >> 3, comptime!(fragments))]);
    (nibbles(q, 0), nibbles(q, 4), dd.x() * ((pair & 63) as f32), -(dd.y() * ((pair >> 8) as f32)))
}

#[device]
fn q8_0_of_planes(
    w: &Buf<u32>,
    row: u32,
    i: u32,
    m: u32,
    units: u32,
    #[comptime] fragments: bool,
) -> (Vec4<u32>, Vec4<u32>, f32, f32) {
    let (fours, halves) = comptime!((w.view::<Vec4<u32>>(), w.view::<u16>()));
    let d = unpack_half(halves[m * units * 16 + field(row, i, units, comptime!(fragments))] as u32).x();
    let at = field(row, i * 2, units * 2, comptime!(fragments));
    let second = if comptime!(fragments) { at + 16 } else { at + 1 };
    (fours[at], fours[second], d, 0.0)
}

#[device]
fn q4_k_of_file(w: &Buf<u32>, row: u32, i: u32, units: u32) -> (Vec4<u32>, Vec4<u32>, f32, f32) {
    let fours = comptime!(w.view::<Vec4<u32>>());
    let (block, g) = ((row * (units >> 3) + (i >> 3)) * 9, i & 7);
    let head = fours[block];
    let (q0, q1) = (fours[block + 1 + (g >> 1) * 2], fours[block + 2 + (g >> 1) * 2]);
    let (shift, byte) = ((g & 1) * 4, (g & 3) * 8);
    let (s, z, low) = (head.y() >> byte, head.z() >> byte, head.w() >> byte);
    let scale = select(g < 4, s & 63, (low & 15) | (((s >> 6) & 3) << 4));
    let least = select(g < 4, z & 63, ((low >> 4) & 15) | (((z >> 6) & 3) << 4));
    let dd = unpack_half(head.x());
    (nibbles(q0, shift), nibbles(q1, shift), dd.x() * (scale as f32), -(dd.y() * (least as f32)))
}

#[device]
fn q8_0_of_file(w: &Buf<u32>, row: u32, i: u32, units: u32) -> (Vec4<u32>, Vec4<u32>, f32, f32) {
    let halves = comptime!(w.view::<u16>());
    let at = (row * units + i) * 17;
    let d = unpack_half(halves[at] as u32).x();
    (words(&w, at + 1), words(&w, at + 9), d, 0.0)
}

/// Eight pairs of bytes from `at` on.
#[device]
fn words(w: &Buf<u32>, at: u32) -> Vec4<u32> {
    vec4(two(&w, at), two(&w, at + 2), two(&w, at + 4), two(&w, at + 6))
}

#[device]
fn two(w: &Buf<u32>, at: u32) -> u32 {
    let halves = comptime!(w.view::<u16>());
    halves[at] as u32 | ((halves[at + 1] as u32) << 16)
}

#[device]
fn nibbles(q: Vec4<u32>, shift: u32) -> Vec4<u32> {
    vec4(nibble(q.x(), shift), nibble(q.y(), shift), nibble(q.z(), shift), nibble(q.w(), shift))
}

#[device]
fn nibble(q: u32, shift: u32) -> u32 {
    (q >> shift) & 0x0f0f_0f0f
}

#[device]
fn dot16(a: Vec4<u32>, b: Vec4<u32>, acc: i32) -> i32 {
    let first = dot4_i8_acc(a.x(), b.x(), dot4_i8_acc(a.y(), b.y(), acc));
    dot4_i8_acc(a.z(), b.z(), dot4_i8_acc(a.w(), b.w(), first))
}

fn main() -> Result<(), Box<dyn Error>> {
    let shapes = std::env::args().nth(1).unwrap_or_else(|| SHAPES.to_owned());
    let bench = Bench::open()?;
    for shape in shapes.split(',') {
        let [m, k] = shape.split('x').filter_map(|n| n.parse().ok()).collect::<Vec<u32>>()[..] else {
            return Err(format!("{shape} is no shape; write 4096x4096").into());
        };
        for q8 in [false, true] {
            for layout in [Layout::File, Layout::Planes, Layout::Fragments] {
                for cols in [1, 8] {
                    let how = How { layout, q8, cols };
                    say(how, time(&bench, (m, k), how));
                }
                for bytes in [false, true] {
                    let how = How { layout, q8, cols: tiles::COLUMNS };
                    say(how, time_tiles(&bench, (m, k), how, bytes));
                }
            }
        }
    }
    Ok(())
}

/// A line for each product, what went wrong too: a device may lack one and have the next.
fn say(how: How, timed: Result<String, Box<dyn Error>>) {
    println!("{}", timed.unwrap_or_else(|why| format!("{how:?}: {why}")));
}

/// Sixteen rows of a format: their weights, and `m` rows of the same in a layout.
fn weights(bench: &Bench, (m, k): (u32, u32), how: How) -> Result<(Vec<f32>, Vec<u8>), Box<dyn Error>> {
    let registry = Registry::builtin();
    let row = registry.format_named(how.name()).ok_or("the format is there")?;
    let units = k / 32;
    let blocks = &bench.tame[..how.bytes(ROWS as u32 * units) as usize];
    let mut values = vec![0.0; ROWS * k as usize];
    row.dequantize(blocks, &mut values)?;
    let tile = match how.layout {
        Layout::File => vec![blocks.to_vec()],
        _ => planes(&(row.pack)(blocks), units as usize, how),
    };
    // A plane of all rows is that of the first sixteen, again and again.
    Ok((values, tile.iter().flat_map(|plane| plane.repeat(m as usize / ROWS)).collect()))
}

/// The integers of sixteen rows, read from blocks as the file has them.
fn quants(bench: &Bench, k: u32, how: How) -> Vec<i8> {
    let blocks = &bench.tame[..how.bytes(ROWS as u32 * k / 32) as usize];
    if how.q8 {
        return blocks.chunks_exact(34).flat_map(|b| b[2..].iter().map(|q| q.cast_signed())).collect();
    }
    let group = |b: &[u8], g: usize| -> Vec<i8> {
        let own = &b[16 + 32 * (g / 2)..][..32];
        own.iter().map(|q| (q >> (4 * (g % 2)) & 15).cast_signed()).collect()
    };
    blocks.chunks_exact(144).flat_map(|b| (0..8).flat_map(move |g| group(b, g))).collect()
}

/// Checks a product of many columns and times it, where the device has the matrices.
fn time_tiles(bench: &Bench, (m, k): (u32, u32), how: How, bytes: bool) -> Result<String, Box<dyn Error>> {
    let (weights, w) = weights(bench, (m, k), how)?;
    let rows = tiles::Rows { weights: &weights, quants: &quants(bench, k, how) };
    let said = tiles::time(bench, (m, k), how, (&w, rows), bytes)?;
    Ok(format!("{} {m}x{k} {said}", how.name()))
}

/// Checks one product and times it.
fn time(bench: &Bench, (m, k): (u32, u32), how: How) -> Result<String, Box<dyn Error>> {
    let (name, units) = (how.name(), k / 32);
    let (values, weights) = weights(bench, (m, k), how)?;
    let x = Random::new(3).units((how.cols * k) as usize);
    let rows: Vec<_> = x.chunks_exact(k as usize).map(|x| quantize_row(Planes::One, x)).collect();
    let blocks_of_x: Vec<u32> = rows.iter().flat_map(|r| r.0.clone()).collect();
    let (x, y) = (bench.filled(&u32_bytes(&blocks_of_x))?, bench.buffer(u64::from(4 * how.cols * m))?);
    let kernel = Product::new(how);
    let staged = kernel.stage()?;
    let p = ProductPush { m, units };
    let bind =
        |w: kiln_abi::BufferRange| kernel.bind(&ProductArgs { w: w.into(), x: x.into(), y: y.into(), p });
    let first = bench.filled(&weights)?;
    let found = bench.result(&staged, &bind(first), y)?;
    let mut worst: (f64, f64) = (0.0, 0.0);
    for (at, found) in found.iter().enumerate() {
        let (c, i) = (at / m as usize, at % m as usize % ROWS);
        let products =
            values[i * k as usize..].iter().zip(&rows[c].1).map(|(w, x)| f64::from(*w) * f64::from(*x));
        let (sum, size) = products.fold((0.0, 0.0), |(sum, size): (f64, f64), p| (sum + p, size + p.abs()));
        worst = (worst.0.max((sum - f64::from(*found)).abs() / size), worst.1.max(size));
    }
    if worst.0.is_nan() || worst.0 > 1e-5 || worst.1 == 0.0 {
        return Err(format!("{name} {how:?} is off by {} of a sum of products", worst.0).into());
    }
    let buffers = bench.rotated(first.bytes)?;
    let calls: Vec<_> = buffers.iter().map(|w| bind(*w)).collect();
    let us = bench.time(&staged, &calls)?;
    for range in buffers.iter().chain([&first, &x, &y]) {
        bench.gpu.free(range.buffer);
    }
    let floor = bench.floor(u64::from(how.bytes(m * units)));
    let code = bench.code(&staged)?;
    Ok(format!("{name} {m}x{k} x{} {:?}: {us:.2} us, {:.2} F{code}", how.cols, how.layout, us / floor))
}

/// The planes of sixteen rows, their fields in the order of the layout.
fn planes(packed: &[u8], units: usize, how: How) -> Vec<Vec<u8>> {
    // Bytes of a field, fields of a row; sixteen bytes are what a lane reads at once.
    let sizes = if how.q8 {
        vec![(16, 2 * units), (2, units)]
    } else {
        vec![(16, units), (2, units), (4, units / 8)]
    };
    let mut rest = packed;
    let mut planes = Vec::new();
    for (bytes, fields) in sizes {
        let (plane, after) = rest.split_at(ROWS * bytes * fields);
        rest = after;
        let field = |row: usize, i: usize| &plane[(row * fields + i) * bytes..][..bytes];
        let order = |at: usize| match how.layout {
            Layout::Fragments => field(at % ROWS, at / ROWS),
            _ => field(at / fields, at % fields),
        };
        planes.push((0..ROWS * fields).flat_map(|at| order(at).to_vec()).collect());
    }
    planes
}
