//! The product on matrices of a subgroup, W in any format: the arm khr_f16.
//!
//! Shapes: W `[m, k]` in planes, x `[rows, k]` f16, y `[rows, stride]` f32; k is a multiple of the block, the unit and 8.
//! Who owns what: a workgroup owns a tile of y, each subgroup its part of the tile. A slab of x and one of W, decoded to
//! f16, are in workgroup memory while what the next one is made of is on its way into registers.
//! Edges: rows past the last are the last again, columns of x past k are zero; a tile that is not whole goes to y row
//! by row.
//! Traffic: W once per `tile[0]` rows of x, x once per `tile[1]` rows of W, compute-bound from about 64 rows of x on.
//! Numerics: weights decoded to f32 and rounded to f16; products summed in f32, multiply-adds following k in order.

use kiln_abi::{BufferRange, Kernel};
use kiln_dsl::{prelude::*, tensor};

use super::{
    KhrShape,
    choice::shapes,
    khr::{multiply, tile_start},
    shape::Slab,
    sums::store_sums,
};
use crate::{
    Call, Format, Variant,
    arms::tensor_words,
    conformance::{Buffer, Case, Random, SENTINEL, f32_bytes, random_blocks_within, u32_bytes},
    formats::layout,
    reference,
    step::{StepRow, n_rows, step_block},
};

/// Elements of x in a word.
pub(super) const PER_WORD: u32 = 8;
/// The largest weight that f16 holds.
const LARGEST: f32 = 65504.0;

/// Push constants of [`GemmDecoded`].
#[derive(Clone, Copy, Debug, Push)]
pub struct GemmDecodedPush {
    /// Rows of x that the command has room for.
    pub rows: u32,
    /// Rows of W in this piece.
    pub m: u32,
    /// Columns of W.
    pub k: u32,
    /// Where the piece's first result goes in a row of y.
    pub first: u32,
    /// Elements of a row of y.
    pub stride: u32,
}

/// The kernel.
#[kernel(
    local_size = shape.invocations(),
    subgroup = shape.lanes,
    workgroup_bytes = bytes(&shape, table_bytes(F::PLANES)),
    grid = [comptime!(shape.groups(p.rows, p.m)[0]), comptime!(shape.groups(p.rows, p.m)[1])],
)]
pub fn gemm_decoded<F: TensorFormat>(
    #[len(tensor_words::<F>(p.m * (p.k / F::UNIT)))] w: &Buf<u32>,
    #[len(p.rows * (p.k / PER_WORD))] x: &Buf<Vec4<u32>>,
    #[len(4 + 4 * p.rows)] step: &Buf<u32>,
    #[len(p.rows * p.stride)] y: &BufMut<f32>,
    #[push] p: GemmDecodedPush,
    #[comptime] shape: KhrShape,
) {
    dims!(N = shape.matrix[0], M = shape.matrix[1], K = shape.matrix[2]);
    let n = n_rows(&step);
    let (n0, m0) = tile_start(comptime!(shape));
    if n0 >= n {
        return;
    }
    let memory = Shared::<Vec4<u32>>::new(comptime!(shape.memory_words(2 * PER_WORD, PER_WORD)));
    let mut acc = [Tile::<f32, Acc, Sg, N, M>::zero(); comptime!(shape.held()[0] * shape.held()[1])];
    let deep = comptime!(shape.tile[2]);
    let slabs = div_ceil(p.k, deep);
    let tensor = comptime!(Tensor::new::<F>(w, n_units::<F>(p.m, p.k)).stage());
    let source = comptime!(Source { w: &tensor, x, n0, n, m0, m: p.m, k: p.k, shape });
    let first = comptime!(source.load::<F>(0u32.read()));
    comptime!(first.put::<F>(&memory));
    barrier();
    for slab in 1..slabs {
        // Up to the next barrier nothing branches, so that a driver decodes between multiply-adds.
        let next = comptime!(source.load::<F>(slab));
        comptime!(multiply::<f16, f32, Vec4<u32>, N, M, K>(&memory, &acc, shape));
        barrier();
        comptime!(next.put::<F>(&memory));
        barrier();
    }
    comptime!(multiply::<f16, f32, Vec4<u32>, N, M, K>(&memory, &acc, shape));
    let strip = comptime!(shape.strip(2 * PER_WORD, PER_WORD));
    store_sums(&acc, &memory, y, n, p.m, p.first, p.stride, n0, m0, comptime!(shape), comptime!(strip));
}

#[device]
fn n_units<F: TensorFormat>(m: u32, k: u32) -> u32 {
    m * (k / F::UNIT)
}

/// Where a workgroup's slabs come from.
struct Source<'a> {
    w: &'a Tensor,
    x: &'a Buf<Vec4<u32>>,
    /// First row of x in the tile, and rows of x.
    n0: Ex<u32>,
    n: Ex<u32>,
    /// The same of W.
    m0: Ex<u32>,
    m: Ex<u32>,
    k: Ex<u32>,
    shape: KhrShape,
}

/// What an invocation stages of a slab, loaded: words of x, zero past k, and pieces of W, whole units each.
struct Share<'a> {
    source: &'a Source<'a>,
    slab: Ex<u32>,
    x: Vec<Ex<Vec4<u32>>>,
    w: Vec<Piece>,
}

/// What an invocation decodes at once: whole units, or a part of one that is deeper than a slab, from an element on.
struct Piece {
    units: Vec<Unit>,
    from: Option<Ex<u32>>,
}

impl Source<'_> {
    #[track_caller]
    fn load<F: TensorFormat>(&self, slab: Ex<u32>) -> Share<'_> {
        let of_x = x_slab(&self.shape);
        let x = (0..of_x.each()).map(|j| x_word(self.x, self.n0, self.n, self.k, slab, j, of_x));
        let of_w = w_slab::<F>(&self.shape);
        let piece = piece::<F>(&self.shape);
        let unit =
            |j, part| self.w.unit(w_unit::<F>(self.m0, self.m, self.k, slab, j, part, of_w, piece)).load();
        let pieces = |j| Piece {
            units: (0..(piece / F::UNIT).max(1)).map(|part| unit(j, part)).collect(),
            from: (piece < F::UNIT).then(|| w_from::<F>(slab, j, of_w, piece)),
        };
        Share { source: self, slab, x: x.collect(), w: (0..of_w.each()).map(pieces).collect() }
    }
}

impl Share<'_> {
    #[track_caller]
    fn put<F: TensorFormat>(&self, memory: &Shared<Vec4<u32>>) {
        let Source { k, shape, .. } = self.source;
        for (j, word) in (0..).zip(&self.x) {
            put_x(*word, *k, self.slab, memory, j, x_slab(shape));
        }
        let words = piece::<F>(shape) / PER_WORD;
        for (j, piece) in (0..).zip(&self.w) {
            for at in 0..words {
                let word = eight::<F>(piece, PER_WORD * at);
                let at = shape.x_words(PER_WORD) + at;
                put_w(word, memory, j, at, w_slab::<F>(shape), words);
            }
        }
    }
}

/// The elements `at` to `at + 7` of a piece as halves.
#[track_caller]
fn eight<F: TensorFormat>(Piece { units, from }: &Piece, at: u32) -> Ex<Vec4<u32>> {
    let unit = |e: u32| &units[(e / F::UNIT) as usize];
    let of_unit = |e: u32| from.map_or((e % F::UNIT).read(), |from| element(from, e));
    if F::UNIT < PER_WORD {
        let four = |e| F::decode4(unit(e), of_unit(e));
        return pack_halves(four(at), four(at + 4));
    }
    F::decode_halves(unit(at), of_unit(at))
}

#[device]
fn element(from: u32, #[comptime] e: u32) -> u32 {
    from + e
}

/// Elements of W that an invocation decodes at once: a unit, or a part where a slab has fewer than one for each.
const fn piece<F: TensorFormat>(shape: &KhrShape) -> u32 {
    let [_, m, k] = shape.tile;
    let each = m * k / shape.invocations();
    let most = if each < k { each } else { k };
    match F::UNIT {
        ..PER_WORD => PER_WORD,
        unit if unit > most => most,
        unit => unit,
    }
}

const fn x_slab(shape: &KhrShape) -> Slab {
    shape.slab(shape.tile[0], PER_WORD)
}

/// A slab of W, in pieces for words.
const fn w_slab<F: TensorFormat>(shape: &KhrShape) -> Slab {
    shape.slab(shape.tile[1], piece::<F>(shape))
}

/// Bytes of workgroup memory, the format's table among them.
pub(super) const fn bytes(shape: &KhrShape, table_bytes: u32) -> u32 {
    shape.workgroup_bytes(2 * PER_WORD, PER_WORD) + table_bytes
}

/// Bytes of a format's tables.
pub fn table_bytes(planes: &[Plane]) -> u32 {
    tensor::table_bytes(planes, 1)
}

#[device]
fn x_word(
    x: &Buf<Vec4<u32>>,
    n0: u32,
    n: u32,
    k: u32,
    slab: u32,
    #[comptime] j: u32,
    #[comptime] of: Slab,
) -> Vec4<u32> {
    let i = local_id() + comptime!(j * of.invocations);
    let words = k / PER_WORD;
    let row = min(n0 + i / comptime!(of.words), n - 1);
    x[row * words + min(slab * comptime!(of.words) + i % comptime!(of.words), words - 1)]
}

#[device]
fn put_x(
    word: Vec4<u32>,
    k: u32,
    slab: u32,
    memory: &Shared<Vec4<u32>>,
    #[comptime] j: u32,
    #[comptime] of: Slab,
) {
    let i = local_id() + comptime!(j * of.invocations);
    let column = i % comptime!(of.words);
    let inside = slab * comptime!(of.words) + column < k / PER_WORD;
    memory[i / comptime!(of.words) * comptime!(of.pitch()) + column] =
        select(inside, word, splat::<Vec4<u32>>(0));
}

#[device]
fn w_unit<F: TensorFormat>(
    m0: u32,
    m: u32,
    k: u32,
    slab: u32,
    #[comptime] j: u32,
    #[comptime] part: u32,
    #[comptime] of: Slab,
    #[comptime] piece: u32,
) -> u32 {
    let i = local_id() + comptime!(j * of.invocations);
    let per_row = k / F::UNIT;
    let row = min(m0 + i / comptime!(of.words), m - 1);
    let at = slab * comptime!(of.words) + i % comptime!(of.words);
    let unit = if comptime!(piece < F::UNIT) {
        at / comptime!(F::UNIT / piece)
    } else {
        at * comptime!(piece / F::UNIT) + part
    };
    row * per_row + min(unit, per_row - 1)
}

/// The element of its unit that a piece begins with.
#[device]
fn w_from<F: TensorFormat>(
    slab: u32,
    #[comptime] j: u32,
    #[comptime] of: Slab,
    #[comptime] piece: u32,
) -> u32 {
    let i = local_id() + comptime!(j * of.invocations);
    let at = slab * comptime!(of.words) + i % comptime!(of.words);
    at % comptime!(F::UNIT / piece) * piece
}

#[device]
fn put_w(
    word: Vec4<u32>,
    memory: &Shared<Vec4<u32>>,
    #[comptime] j: u32,
    #[comptime] at: u32,
    #[comptime] of: Slab,
    #[comptime] words: u32,
) {
    let i = local_id() + comptime!(j * of.invocations);
    memory
        [i / comptime!(of.words) * comptime!(of.words * words + 1) + i % comptime!(of.words) * words + at] =
        word;
}

/// What a launch reads and writes.
#[derive(Clone, Copy, Debug)]
pub struct GemmOperands {
    /// W.
    pub w: BufferRange,
    /// Rows of x, f16.
    pub x: BufferRange,
    /// The step block.
    pub step: BufferRange,
    /// Rows of y.
    pub y: BufferRange,
}

/// A launch.
pub fn call<F: Format>(o: GemmOperands, p: GemmDecodedPush, shape: KhrShape) -> Call {
    let args = GemmDecodedArgs { w: o.w.into(), x: o.x.into(), step: o.step.into(), y: o.y.into(), p };
    Call::new(GemmDecoded::<F>::new(shape), &args)
}

/// The variants of one format: every shape that has room for it.
pub fn variants<F: Format>() -> Vec<Variant> {
    let variant = |shape: KhrShape| {
        Variant::lazy("gemm", GemmDecoded::<F>::new(shape), move || cases::<F>(shape))
            .on(F::NAME, "khr_f16")
            .cut(vec![format!("{shape:?}")])
            .with_long(move || long_cases::<F>(shape))
    };
    shapes(table_bytes(F::PLANES)).map(variant).collect()
}

/// One tile and several, edges along every axis, a part of y's rows, rows of y that do not start at 16 bytes.
fn cases<F: Format>(shape: KhrShape) -> impl Iterator<Item = Case> {
    let [n, m, _] = shape.tile;
    let k = F::BLK.max(F::UNIT).max(PER_WORD);
    // Several slabs, the last in part where blocks allow.
    let several = match k / shape.tile[2] {
        0 => 5,
        1 => 2,
        _ => 1,
    };
    let cases =
        [(n + 3, m + 4, several * k, (4, 8)), (1, 5, k, (0, 0)), (n, m, 64_u32.next_multiple_of(k), (1, 2))];
    cases.into_iter().map(move |(n, m, k, place)| case::<F>(shape, (n, m, k), place))
}

/// More slabs than are on their way at once, the last in part where blocks allow.
fn long_cases<F: Format>(shape: KhrShape) -> Vec<Case> {
    let ([n, m, _], k) = (shape.tile, F::BLK.max(F::UNIT).max(PER_WORD));
    vec![case::<F>(shape, (n + 3, m + 4, 5 * k), (4, 8))]
}

/// Results land behind `before` others in rows of `beside` more; what lies between stays as it was. The command has
/// room for two rows more than the step has.
fn case<F: Format>(shape: KhrShape, (n, m, k): (u32, u32, u32), (before, beside): (u32, u32)) -> Case {
    let mut random = Random::new(u64::from(n) << 40 | u64::from(m) << 20 | u64::from(k));
    let (rows, stride) = (n + 2, m + beside);
    let (mut x, mut x_bytes) = super::khr_f16::halves(&mut random, rows * k);
    // Rows that the step lacks are no numbers.
    x.truncate((n * k) as usize);
    x_bytes[2 * (n * k) as usize..].fill(0xff);
    let (blocks, w) = random_blocks_within::<F>(&mut random, (m * k) as usize, LARGEST);
    let expected = reference::product_of_halves(&w, &x, k as usize, 2 * k);
    let place = |i: u32| {
        let (row, column) = (i / stride, i % stride);
        let own = row < n && (before..before + m).contains(&column);
        (!own).then_some(SENTINEL)
    };
    let old = vec![SENTINEL; (rows * stride) as usize];
    Case {
        name: format!("n = {n}, m = {m}, k = {k}, first = {before}, stride = {stride}"),
        buffers: vec![
            Buffer::Input(layout::pack::<F>(&blocks)),
            Buffer::Input(x_bytes),
            Buffer::Input(u32_bytes(&step_block(
                &vec![StepRow { token: 0, position: 0, slot: 0 }; n as usize],
                &[],
                rows,
            ))),
            Buffer::Changed(f32_bytes(&old)),
        ],
        expected: vec![expected.spread((0..rows * stride).map(place)).at(3)],
        bind: Box::new(move |r| {
            let (w, x, step, y) = (r[0].into(), r[1].into(), r[2].into(), r[3].into());
            let p = GemmDecodedPush { rows, m, k, first: before, stride };
            GemmDecoded::<F>::new(shape).bind(&GemmDecodedArgs { w, x, step, y, p })
        }),
    }
}
