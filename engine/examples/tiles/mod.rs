//! The weights of a layout under tiles of a subgroup's matrices, 512 columns of x: their decoded halves, or the plain
//! bytes of their quants, whose sums are exact.

use std::error::Error;

use kiln_abi::{BufferRange, Device as _, Location};
use kiln_dsl::{ops::add, prelude::*, tile::Carries};
use kiln_kernels::{
    Call,
    conformance::Random,
    gemm::{KhrShape, Schedule, multiply, store_sums},
};

use crate::{How, Layout, ROWS, Weights, timing::Bench, weights_of};

/// Rows of x.
pub const COLUMNS: u32 = 512;

const HALVES: KhrShape = KhrShape {
    tile: [128, 64, 64],
    subgroups: [2, 2],
    matrix: [16, 16, 16],
    lanes: 32,
    schedule: Schedule::PLAIN,
};
const BYTES: KhrShape = KhrShape { tile: [128, 128, 128], subgroups: [2, 4], matrix: [16, 16, 32], ..HALVES };
/// The same on matrices of a CPU driver.
const SMALL: KhrShape =
    KhrShape { tile: [32, 16, 32], subgroups: [2, 1], matrix: [8, 8, 8], lanes: 8, ..HALVES };

/// Weights of a unit.
const UNIT: u32 = 32;

#[derive(Clone, Copy, Debug, Push)]
struct TilePush {
    n: u32,
    m: u32,
    /// Units of a row.
    units: u32,
}

/// y\[c, i\] = Σ W\[i, j\] x\[c, j\]; the tile divides everything.
#[kernel(
    local_size = shape.invocations(),
    subgroup = shape.lanes,
    workgroup_bytes = shape.workgroup_bytes(V::BYTES, V::BYTES / T::BYTES),
    grid = [p.m / shape.tile[1], p.n / shape.tile[0]],
)]
fn tile_product<T: Elem + tile::SumsTo<Sum>, Sum: Num + tile::TileElem + Carries<Sum>, V>(
    #[len(how.bytes(p.m * p.units) / 4)] w: &Buf<u32>,
    #[len(p.n * p.units * UNIT / (V::BYTES / T::BYTES))] x: &Buf<V>,
    #[len(p.n * p.m)] y: &BufMut<Sum>,
    #[push] p: TilePush,
    #[comptime] how: How,
    #[comptime] shape: KhrShape,
) where
    V: Vector<Elem = u32> + Carries<T> + Carries<Sum>,
{
    dims!(N = shape.matrix[0], M = shape.matrix[1], K = shape.matrix[2]);
    let per_word = comptime!(V::BYTES / T::BYTES);
    let n_sums = comptime!(shape.held()[0] * shape.held()[1]);
    let memory = Shared::<V>::new(comptime!(shape.memory_words(V::BYTES, per_word)));
    let mut acc = [Tile::<Sum, Acc, Sg, N, M>::zero(); n_sums];
    let (n0, m0) = (workgroup_id_y() * comptime!(shape.tile[0]), workgroup_id_x() * comptime!(shape.tile[1]));
    let source = comptime!(Source { w, x, n0, m0, m: p.m, units: p.units, how, shape, per_word });
    let first = comptime!(source.load(0u32.read()));
    comptime!(first.put(&memory));
    barrier();
    for unit in (comptime!(shape.tile[2] / UNIT)..p.units).step_by(comptime!(shape.tile[2] / UNIT)) {
        let next = comptime!(source.load(unit));
        comptime!(multiply::<T, Sum, V, N, M, K>(&memory, &acc, shape));
        barrier();
        comptime!(next.put(&memory));
        barrier();
    }
    comptime!(multiply::<T, Sum, V, N, M, K>(&memory, &acc, shape));
    let strip = comptime!(shape.strip(V::BYTES, per_word));
    store_sums(&acc, &memory, y, p.n, p.m, 0, p.m, n0, m0, comptime!(shape), comptime!(strip));
}

/// Where a workgroup's slabs come from.
struct Source<'a, V> {
    w: &'a Buf<u32>,
    x: &'a Buf<V>,
    n0: Ex<u32>,
    m0: Ex<u32>,
    m: Ex<u32>,
    units: Ex<u32>,
    how: How,
    shape: KhrShape,
    per_word: u32,
}

/// What an invocation stages of a slab: words of x, units of W.
struct Share<'a, V> {
    source: &'a Source<'a, V>,
    x: Vec<Ex<V>>,
    w: Vec<Weights>,
}

impl<V: Vector<Elem = u32> + Elem> Source<'_, V> {
    /// Words of x and units of W that an invocation stages.
    fn each(&self) -> [u32; 2] {
        let [n, m, k] = self.shape.tile;
        [n * k / self.per_word, m * k / UNIT].map(|all| all / self.shape.invocations())
    }

    /// Bytes of a staged unit.
    fn per_unit(&self) -> u32 {
        UNIT / self.per_word * V::BYTES
    }

    /// The slab from `unit` on.
    #[track_caller]
    fn load(&self, unit: Ex<u32>) -> Share<'_, V> {
        let [of_x, of_w] = self.each();
        let x = (0..of_x).map(|j| x_word(self.x, self.n0, self.units, unit, j, self.shape, self.per_word));
        let weights = |j| {
            let (row, u) = own_unit(j, self.shape, self.how.layout == Layout::Fragments);
            weights_of(self.w, (add(self.m0, row), add(unit, u)), (self.m, self.units), self.how)
        };
        Share { source: self, x: x.collect(), w: (0..of_w).map(weights).collect() }
    }
}

impl<V: Vector<Elem = u32> + Elem> Share<'_, V> {
    #[track_caller]
    fn put(&self, memory: &Shared<V>) {
        let Source { shape, per_word, how, .. } = *self.source;
        for (j, word) in (0..).zip(&self.x) {
            put_x(*word, memory, j, shape, per_word);
        }
        for (j, (low, high, scale, offset)) in (0..).zip(&self.w) {
            let at = own_place(j, shape, per_word, how.layout == Layout::Fragments);
            let fours = match self.source.per_unit() {
                bytes if bytes == UNIT => vec![*low, *high],
                _ => [*low, *high].into_iter().flat_map(|q| halves_of(q, *scale, *offset)).collect(),
            };
            for (e, word) in (0..).zip(fours.into_iter().flat_map(words::<V>)) {
                memory.at(plus(at, e)).store(word, Location::caller());
            }
        }
    }
}

/// Sixteen bytes as words.
#[track_caller]
fn words<V: Vector<Elem = u32>>(four: Ex<Vec4<u32>>) -> Vec<Ex<V>> {
    match V::shape().lanes {
        4 => vec![bitcast(four)],
        _ => vec![bitcast(vec2(four.x(), four.y())), bitcast(vec2(four.z(), four.w()))],
    }
}

/// Sixteen weights as halves.
#[track_caller]
fn halves_of(q: Ex<Vec4<u32>>, scale: Ex<f32>, offset: Ex<f32>) -> [Ex<Vec4<u32>>; 2] {
    let four = |q| numbers(q, scale, offset);
    [pack_halves(four(q.x()), four(q.y())), pack_halves(four(q.z()), four(q.w()))]
}

#[device]
fn plus(a: u32, #[comptime] b: u32) -> u32 {
    a + b
}

#[device]
fn x_word<V: Vector<Elem = u32> + Elem>(
    x: &Buf<V>,
    n0: u32,
    units: u32,
    unit: u32,
    #[comptime] j: u32,
    #[comptime] shape: KhrShape,
    #[comptime] per_word: u32,
) -> V {
    let words = comptime!(shape.tile[2] / per_word);
    let i = local_id() + comptime!(j * shape.invocations());
    let of_unit = comptime!(UNIT / per_word);
    x[((n0 + i / words) * units + unit) * of_unit + i % words]
}

#[device]
fn put_x<V: Vector<Elem = u32> + Elem>(
    word: V,
    memory: &Shared<V>,
    #[comptime] j: u32,
    #[comptime] shape: KhrShape,
    #[comptime] per_word: u32,
) {
    let words = comptime!(shape.tile[2] / per_word);
    let i = local_id() + comptime!(j * shape.invocations());
    memory[i / words * (words + 1) + i % words] = word;
}

/// Row and unit in the slab of an invocation's unit `j`: neighbors take what lies side by side.
#[device]
fn own_unit(#[comptime] j: u32, #[comptime] shape: KhrShape, #[comptime] fragments: bool) -> (u32, u32) {
    let i = local_id() + comptime!(j * shape.invocations());
    let (rows, units) = comptime!((shape.tile[1], shape.tile[2] / UNIT));
    if comptime!(fragments) { (i % rows, i / rows) } else { (i / units, i % units) }
}

/// Where it is staged.
#[device]
fn own_place(
    #[comptime] j: u32,
    #[comptime] shape: KhrShape,
    #[comptime] per_word: u32,
    #[comptime] fragments: bool,
) -> u32 {
    let (row, unit) = own_unit(comptime!(j), comptime!(shape), comptime!(fragments));
    let pitch = comptime!(shape.tile[2] / per_word + 1);
    row * pitch + unit * comptime!(UNIT / per_word) + comptime!(shape.x_words(per_word))
}

/// Four signed bytes as weights.
#[device]
fn numbers(q: u32, scale: f32, offset: f32) -> Vec4<f32> {
    let q0 = (q << 24) as i32 >> 24;
    let q1 = (q << 16) as i32 >> 24;
    let q2 = (q << 8) as i32 >> 24;
    let q3 = q as i32 >> 24;
    vec4(
        fma(q0 as f32, scale, offset),
        fma(q1 as f32, scale, offset),
        fma(q2 as f32, scale, offset),
        fma(q3 as f32, scale, offset),
    )
}

/// The first rows of W: their weights and their plain quants.
pub struct Rows<'a> {
    pub weights: &'a [f32],
    pub quants: &'a [i8],
}

/// Checks one product on halves or on bytes and times it.
pub fn time(
    bench: &Bench,
    (m, k): (u32, u32),
    how: How,
    (w, rows): (&[u8], Rows<'_>),
    bytes: bool,
) -> Result<String, Box<dyn Error>> {
    let card = bench.gpu.caps().subgroup_sizes.1 >= 32;
    let mut random = Random::new(4);
    let n_x = (COLUMNS * k) as usize;
    let (x, values): (Vec<u8>, Vec<f64>) = if bytes {
        let x = random.bytes(n_x);
        let values = x.iter().map(|b| f64::from(b.cast_signed())).collect();
        (x, values)
    } else {
        let x: Vec<f16> = random.units(n_x).into_iter().map(f16::from_f32).collect();
        (x.iter().flat_map(|x| x.to_le_bytes()).collect(), x.iter().map(|x| x.to_f64()).collect())
    };
    let (x, y) = (bench.filled(&x)?, bench.buffer(u64::from(4 * COLUMNS * m))?);
    let p = TilePush { n: COLUMNS, m, units: k / UNIT };
    let kernel = |w: BufferRange| -> Call {
        let (w, y) = (w.into(), y);
        match (card, bytes) {
            (true, true) => {
                let args = TileProductArgs { w, x: x.into(), y: y.into(), p };
                Call::new(TileProduct::<i8, i32, Vec4<u32>>::new(how, BYTES), &args)
            }
            (false, true) => {
                let args = TileProductArgs { w, x: x.into(), y: y.into(), p };
                Call::new(TileProduct::<i8, i32, Vec2<u32>>::new(how, SMALL), &args)
            }
            (_, false) => {
                let args = TileProductArgs { w, x: x.into(), y: y.into(), p };
                let shape = if card { HALVES } else { SMALL };
                Call::new(TileProduct::<f16, f32, Vec4<u32>>::new(how, shape), &args)
            }
        }
    };
    let first = bench.filled(w)?;
    let call = kernel(first);
    let staged = call.stage()?;
    let found = bench.result(&staged, &call.args, y)?;
    // Sampled: each row of W that there is, with some of x.
    for sample in 0..128usize {
        let (c, i) = (sample * 37 % COLUMNS as usize, (sample * 53) % m as usize);
        let own = i % ROWS * k as usize..(i % ROWS + 1) * k as usize;
        let w: Vec<f64> = match bytes {
            true => rows.quants[own].iter().map(|q| f64::from(*q)).collect(),
            false => rows.weights[own].iter().map(|w| f64::from(*w)).collect(),
        };
        let products = w.iter().zip(&values[c * k as usize..]).map(|(w, x)| w * x);
        let (wanted, size) = products.fold((0.0, 0.0), |(sum, size), p| (sum + p, size + p.abs()));
        let is = found[c * m as usize + i];
        let is = if bytes { f64::from(is.to_bits().cast_signed()) } else { f64::from(is) };
        let bound = if bytes { 0.0 } else { size / 1024.0 };
        let within = (is - wanted).abs() <= bound;
        if !within {
            return Err(format!("{how:?}: y[{c}, {i}] is {is}, expected {wanted} ± {bound}").into());
        }
    }
    let buffers = bench.rotated(first.bytes)?;
    let calls: Vec<_> = buffers.iter().map(|w| kernel(*w).args).collect();
    let us = bench.time(&staged, &calls)?;
    for range in buffers.iter().chain([&first, &x, &y]) {
        bench.gpu.free(range.buffer);
    }
    let tera = 2.0 * f64::from(COLUMNS) * f64::from(m) * f64::from(k) / us / 1e6;
    let of = if bytes { "bytes" } else { "halves" };
    Ok(format!("x{COLUMNS} on {of} {:?}: {us:.2} us, {tera:.1} T/s", how.layout))
}
