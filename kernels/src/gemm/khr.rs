//! The product on matrices of a subgroup, for plain elements: f16 and signed bytes.
//!
//! Shapes: W `[m, k]`, x `[n, k]`, y `[n, m]`; a row of k elements is whole words `V`.
//! Who owns what: a workgroup owns a tile of y; each subgroup holds its part of the tile in matrices.
//! A slab of x and of W is staged in workgroup memory while the next one is on its way into registers.
//! Where the schedule says so, a slab's columns are shared out to slices of subgroups, whose sums are added in the end.
//! Edges: rows past the last are the last again, columns past k are zero; a tile that is not whole goes to y row by row.
//! Numerics: the order of a sum within one multiply-add is the device's, and multiply-adds follow k in order,
//! slice by slice.

use kiln_abi::Location;
use kiln_dsl::prelude::*;

use std::ops::Range;

use super::{KhrShape, shape::Slab, sums::store_sums};

/// Push constants of [`GemmKhr`].
#[derive(Clone, Copy, Debug, Push)]
pub struct GemmPush {
    /// Rows of x.
    pub n: u32,
    /// Rows of W.
    pub m: u32,
    /// Columns of both.
    pub k: u32,
}

/// The kernel.
#[kernel(
    local_size = shape.invocations(),
    subgroup = shape.lanes,
    workgroup_bytes = shape.workgroup_bytes(V::BYTES, V::BYTES / T::BYTES),
    grid = [p.m.div_ceil(shape.tile[1]), p.n.div_ceil(shape.tile[0])],
)]
pub fn gemm_khr<T: Elem + tile::SumsTo<Sum>, Sum: Num + tile::TileElem + tile::Carries<Sum>, V>(
    #[len(p.n * (p.k / (V::BYTES / T::BYTES)))] x: &Buf<V>,
    #[weight]
    #[len(p.m * (p.k / (V::BYTES / T::BYTES)))]
    w: &Buf<V>,
    #[len(p.n * p.m)] y: &BufMut<Sum>,
    #[push] p: GemmPush,
    #[comptime] shape: KhrShape,
) where
    V: Vector<Elem = u32> + tile::Carries<T> + tile::Carries<Sum>,
{
    dims!(N = shape.matrix[0], M = shape.matrix[1], K = shape.matrix[2]);
    let per_word = comptime!(V::BYTES / T::BYTES);
    let n_sums = comptime!(shape.held()[0] * shape.held()[1]);
    let slab_words = comptime!(shape.slab(1, per_word).words);
    let (ahead, buffers) = comptime!((shape.schedule.ahead, shape.schedule.buffers));

    let memory = Shared::<V>::new(comptime!(shape.memory_words(V::BYTES, per_word)));
    let mut next = [splat::<V>(0); comptime!(ahead * Copies::<V>::each(&shape, per_word))];
    let mut acc = [Tile::<Sum, Acc, Sg, N, M>::zero(); n_sums];

    let n0 = workgroup_id_y() * comptime!(shape.tile[0]);
    let m0 = workgroup_id_x() * comptime!(shape.tile[1]);
    let words = p.k / comptime!(per_word);
    let turn = comptime!(slab_words * ahead);
    let whole = words / turn * turn;
    let copies = comptime!(Copies { x, w, n0, n: p.n, m0, m: p.m, words, next, shape, per_word });

    if whole > 0 {
        for set in comptime!(0..ahead) {
            let word = comptime!(set * slab_words);
            comptime!(copies.fetch(copies.all(), word, set, false));
        }
        if comptime!(buffers > 1) {
            comptime!(copies.put(&memory, 0u32.read(), 0));
            comptime!(copies.fetch(copies.all(), within(turn.read(), whole, slab_words), 0, false));
        }
    }
    for first in (0..whole).step_by(turn) {
        for h in comptime!(0..ahead) {
            let word = first + comptime!(h * slab_words);
            barrier();
            if comptime!(buffers > 1) {
                // What this step multiplies is there already; what the next one does takes the other buffer.
                let odd = word / slab_words % 2;
                let other = (1 - odd) * comptime!(shape.buffer_words(per_word));
                let set = comptime!((h + 1) % ahead);
                comptime!(copies.put(&memory, other, set));
                let after = word + comptime!((1 + ahead) * slab_words);
                let of = odd * comptime!(shape.buffer_words(per_word));
                comptime!(step::<T, Sum, V, N, M, K>(&copies, &memory, of, &acc, (after, whole), set));
            } else {
                comptime!(copies.put(&memory, 0u32.read(), h));
                barrier();
                let after = word + turn;
                comptime!(step::<T, Sum, V, N, M, K>(&copies, &memory, 0u32.read(), &acc, (after, whole), h));
            }
        }
    }
    for word in (whole..words).step_by(slab_words) {
        comptime!(copies.fetch(copies.all(), word, 0, true));
        barrier();
        comptime!(copies.put(&memory, 0u32.read(), 0));
        barrier();
        comptime!(multiply::<T, Sum, V, N, M, K>(&memory, 0u32.read(), &acc, shape, &|_| ()));
    }

    let strip = comptime!(shape.strip(V::BYTES, per_word));
    store_sums(&acc, &memory, y, p.n, p.m, 0, p.m, n0, m0, comptime!(shape), comptime!(strip));
}

/// `word`, or the last slab's first.
#[device]
fn within(word: u32, whole: u32, #[comptime] slab_words: u32) -> u32 {
    min(word, whole - slab_words)
}

/// What an invocation copies: of x, then of W, each from the tile's first row on.
struct Copies<'a, V> {
    x: &'a Buf<V>,
    w: &'a Buf<V>,
    n0: Ex<u32>,
    n: Ex<u32>,
    m0: Ex<u32>,
    m: Ex<u32>,
    /// Words of a row.
    words: Ex<u32>,
    /// Where words wait, in sets of a slab's.
    next: PlaceArray<V, Local>,
    shape: KhrShape,
    per_word: u32,
}

impl<V: Vector<Elem = u32> + Elem> Copies<'_, V> {
    /// Words of a slab that an invocation copies.
    fn each(shape: &KhrShape, per_word: u32) -> u32 {
        shape.tile[..2].iter().map(|rows| shape.slab(*rows, per_word).each()).sum()
    }

    /// All of them.
    fn all(&self) -> Range<u32> {
        0..Self::each(&self.shape, self.per_word)
    }

    /// The slab and the number in it of word `j`, and whether it is one of x.
    fn slab(&self, j: u32) -> (Slab, u32, bool) {
        let [x, w] = [0, 1].map(|i| self.shape.slab(self.shape.tile[i], self.per_word));
        if j < x.each() { (x, j, true) } else { (w, j - x.each(), false) }
    }

    /// A slab's words from `word` of each row on, into a set.
    #[track_caller]
    fn fetch(&self, words: Range<u32>, word: impl Read<Out = Ex<u32>>, set: u32, tail: bool) {
        let (each, word) = (self.all().end, word.read());
        for j in words {
            let (slab, i, of_x) = self.slab(j);
            let (from, first, rows) =
                if of_x { (self.x, self.n0, self.n) } else { (self.w, self.m0, self.m) };
            fetch(from, &self.next, set * each + j, first, rows, self.words, word, i, slab, tail);
        }
    }

    /// A set's words into workgroup memory, to the buffer at `first`.
    #[track_caller]
    fn put(&self, memory: &Shared<V>, first: Ex<u32>, set: u32) {
        let each = self.all().end;
        for j in 0..each {
            let (slab, i, of_x) = self.slab(j);
            let behind = if of_x { 0 } else { self.shape.x_words(self.per_word) };
            put(&self.next, set * each + j, memory, first, behind, i, slab);
        }
    }
}

/// Multiplies the buffer at `of` while the slab `after` this one is on its way, if there is one before `whole`.
#[track_caller]
fn step<T, Sum, V, N: Dim, M: Dim, K: Dim>(
    copies: &Copies<'_, V>,
    memory: &Shared<V>,
    of: Ex<u32>,
    acc: &PlaceArray<Tile<Sum, Acc, Sg, N, M>, Local>,
    (after, whole): (Ex<u32>, Ex<u32>),
    set: u32,
) where
    T: Elem + tile::SumsTo<Sum>,
    Sum: Num + tile::TileElem,
    V: Vector<Elem = u32> + tile::Carries<T>,
{
    let Copies { shape, per_word, .. } = *copies;
    if shape.schedule.spread {
        // Asking for the last slab again costs less than a branch among multiply-adds.
        let after = within(after, whole, shape.slab(1, per_word).words);
        let part = |step: u32| copies.all().end * step / shape.steps();
        multiply::<T, Sum, V, N, M, K>(memory, of, acc, shape, &|step| {
            copies.fetch(part(step)..part(step + 1), after, set, false);
        });
    } else {
        fetch_before(copies, after, whole, set);
        multiply::<T, Sum, V, N, M, K>(memory, of, acc, shape, &|_| ());
    }
}

#[device]
fn fetch_before<V: Vector<Elem = u32> + Elem>(
    copies: &Copies<'_, V>,
    after: u32,
    whole: u32,
    #[comptime] set: u32,
) {
    if after < whole {
        comptime!(copies.fetch(copies.all(), after, set, false));
    }
}

/// Word `i` of an invocation's in a slab, `word` being the row's first. Rows past the last are the last again; in the
/// slab that is the `tail` of the rows, words past their end are zero.
#[device]
fn fetch<V: Vector<Elem = u32> + Elem>(
    from: &Buf<V>,
    into: &PlaceArray<V, Local>,
    #[comptime] at: u32,
    first: u32,
    rows: u32,
    words: u32,
    word: u32,
    #[comptime] i: u32,
    #[comptime] slab: Slab,
    #[comptime] tail: bool,
) {
    let own = local_id() + comptime!(i * slab.invocations);
    let row = min(first + own / comptime!(slab.words), rows - 1);
    let column = word + own % comptime!(slab.words);
    if comptime!(tail) {
        let value = from[row * words + min(column, words - 1)];
        into[at] = select(column < words, value, splat::<V>(0));
    } else {
        into[at] = from[row * words + column];
    }
}

/// What [`fetch`] took, into workgroup memory.
#[device]
fn put<V: Vector<Elem = u32> + Elem>(
    from: &PlaceArray<V, Local>,
    #[comptime] at: u32,
    into: &Shared<V>,
    first: u32,
    #[comptime] behind: u32,
    #[comptime] i: u32,
    #[comptime] slab: Slab,
) {
    let own = local_id() + comptime!(i * slab.invocations);
    let row = own / comptime!(slab.words);
    let to = first + row * comptime!(slab.pitch()) + own % comptime!(slab.words) + behind;
    if comptime!(slab.even()) {
        into[to] = from[at];
    } else if row < comptime!(slab.rows) {
        into[to] = from[at];
    }
}

/// The product of the slabs in the buffer at `first` onto the subgroup's sums; `between` stages what else happens in a
/// step, once its factors are asked for.
#[track_caller]
pub fn multiply<T, Sum, V, N: Dim, M: Dim, K: Dim>(
    memory: &Shared<V>,
    first: Ex<u32>,
    acc: &PlaceArray<Tile<Sum, Acc, Sg, N, M>, Local>,
    shape: KhrShape,
    between: &dyn Fn(u32),
) where
    T: Elem + tile::SumsTo<Sum>,
    Sum: Num + tile::TileElem,
    V: Vector<Elem = u32> + tile::Carries<T>,
{
    let per_word = V::BYTES / T::BYTES;
    let pitch = shape.slab(1, per_word).pitch();
    let [held_n, held_m] = shape.held();
    let from = factors_start(
        first,
        shape,
        pitch,
        shape.x_words(per_word),
        shape.steps() * shape.matrix[2] / per_word,
    );
    let word = |step: u32| step * shape.matrix[2] / per_word;
    let at = |from, row: u32, step| plus(from, row * pitch + word(step));
    let left = |step| {
        (0..held_n).map(move |i| {
            Tile::<T, MatA, Sg, N, K>::load(memory, at(from.0, i * shape.matrix[0], step), pitch.read())
        })
    };
    let right = |step, j: u32| {
        Tile::<T, MatB, Sg, K, M>::load_columns(memory, at(from.1, j * shape.matrix[1], step), pitch.read())
    };
    let both =
        |step| (left(step).collect::<Vec<_>>(), (0..held_m).map(|j| right(step, j)).collect::<Vec<_>>());
    let mut early = shape.schedule.early.then(|| both(0));
    for step in 0..shape.steps() {
        let now = early.take();
        if now.is_some() && step + 1 < shape.steps() {
            early = Some(both(step + 1));
        }
        let (lefts, rights) = now.unwrap_or_else(|| (left(step).collect(), Vec::new()));
        between(step);
        for j in 0..held_m {
            let right = rights.get(j as usize).copied().unwrap_or_else(|| right(step, j));
            for (i, left) in (0..).zip(&lefts) {
                let sum = acc.at((i * held_m + j).read());
                sum.store(mul_add(*left, right, sum.read()), Location::caller());
            }
        }
    }
}

#[device]
fn plus(a: u32, #[comptime] b: u32) -> u32 {
    a + b
}

/// Where a subgroup's rows of x and of W start in the buffer at `first`, at its slice's columns.
#[device]
fn factors_start(
    first: u32,
    #[comptime] shape: KhrShape,
    #[comptime] pitch: u32,
    #[comptime] x_words: u32,
    #[comptime] slice_words: u32,
) -> (u32, u32) {
    let of_slice = comptime!(shape.subgroups[0] * shape.subgroups[1]);
    let part = subgroup_id() % of_slice;
    let start = first + subgroup_id() / of_slice * comptime!(slice_words);
    let n = part / comptime!(shape.subgroups[1]) * comptime!(shape.held()[0] * shape.matrix[0] * pitch);
    let m = part % comptime!(shape.subgroups[1]) * comptime!(shape.held()[1] * shape.matrix[1] * pitch);
    (start + n, start + m + x_words)
}
