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
    grid = [comptime!(shape.groups(p.n, p.m)[0]), comptime!(shape.groups(p.n, p.m)[1])],
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
    let memory = Shared::<V>::new(comptime!(shape.memory_words(V::BYTES, per_word)));
    let mut next = [splat::<V>(0); comptime!(Copies::<V>::each(&shape, per_word))];
    let mut acc = [Tile::<Sum, Acc, Sg, N, M>::zero(); n_sums];

    let (n0, m0) = tile_start(comptime!(shape));
    let words = p.k / comptime!(per_word);
    let whole = words / slab_words * slab_words;
    let copies = comptime!(Copies::new((x, n0, p.n), (w, m0, p.m), words, next, shape, per_word));

    if whole > 0 {
        comptime!(copies.fetch(0u32.read()));
    }
    for word in (0..whole).step_by(slab_words) {
        let after = word + slab_words;
        barrier();
        comptime!(copies.put(&memory));
        if comptime!(shape.schedule.eager) {
            fetch_before(&copies, after, whole);
        }
        barrier();
        if comptime!(!shape.schedule.eager) {
            fetch_before(&copies, after, whole);
        }
        comptime!(multiply::<T, Sum, V, N, M, K>(&memory, &acc, shape));
    }
    if whole < words {
        comptime!(copies.fetch_tail(whole));
        barrier();
        comptime!(copies.put(&memory));
        barrier();
        comptime!(multiply::<T, Sum, V, N, M, K>(&memory, &acc, shape));
    }

    let strip = comptime!(shape.strip(V::BYTES, per_word));
    store_sums(&acc, &memory, y, p.n, p.m, 0, p.m, n0, m0, comptime!(shape), comptime!(strip));
}

/// First row of x and of W in the workgroup's tile.
#[device]
pub(super) fn tile_start(#[comptime] shape: KhrShape) -> (u32, u32) {
    let (n, m) = if comptime!(shape.schedule.across) {
        (workgroup_id_x(), workgroup_id_y())
    } else {
        (workgroup_id_y(), workgroup_id_x())
    };
    (n * comptime!(shape.tile[0]), m * comptime!(shape.tile[1]))
}

/// What an invocation copies: of x, then of W.
struct Copies<'a, V> {
    from: [&'a Buf<V>; 2],
    /// Where each of its words is in the first slab: found once, for a driver finds it again in every turn.
    starts: Vec<Ex<u32>>,
    /// Words of a row.
    words: Ex<u32>,
    /// Where they wait.
    next: PlaceArray<V, Local>,
    shape: KhrShape,
    per_word: u32,
}

impl<'a, V: Vector<Elem = u32> + Elem> Copies<'a, V> {
    /// From each operand's first row in the tile on, of so many.
    #[track_caller]
    fn new(
        (x, n0, n): (&'a Buf<V>, Ex<u32>, Ex<u32>),
        (w, m0, m): (&'a Buf<V>, Ex<u32>, Ex<u32>),
        words: Ex<u32>,
        next: PlaceArray<V, Local>,
        shape: KhrShape,
        per_word: u32,
    ) -> Self {
        let start = |(i, slab, operand): (u32, Slab, usize)| {
            let (first, rows) = [(n0, n), (m0, m)][operand];
            start(first, rows, words, i, slab)
        };
        let starts = Self::turns(&shape, per_word).into_iter().map(start).collect();
        Copies { from: [x, w], starts, words, next, shape, per_word }
    }

    /// Words of a slab that an invocation copies.
    fn each(shape: &KhrShape, per_word: u32) -> u32 {
        shape.tile[..2].iter().map(|rows| shape.slab(*rows, per_word).each()).sum()
    }

    /// Of each of them: its number in a slab, the slab and whose it is.
    fn turns(shape: &KhrShape, per_word: u32) -> Vec<(u32, Slab, usize)> {
        let slab = |operand: usize| shape.slab(shape.tile[operand], per_word);
        let turns = |operand: usize| (0..slab(operand).each()).map(move |i| (i, slab(operand), operand));
        turns(0).chain(turns(1)).collect()
    }

    /// The words that are so many behind the first slab's.
    #[track_caller]
    fn fetch(&self, behind: Ex<u32>) {
        for (j, (_, _, operand)) in (0..).zip(Self::turns(&self.shape, self.per_word)) {
            fetch(self.from[operand], &self.next, j, self.starts[j as usize], behind);
        }
    }

    /// The same of the rows' last slab, which is not whole: words past their end are zero.
    #[track_caller]
    fn fetch_tail(&self, behind: Ex<u32>) {
        for (j, (i, slab, operand)) in (0..).zip(Self::turns(&self.shape, self.per_word)) {
            let start = self.starts[j as usize];
            fetch_tail(self.from[operand], &self.next, j, start, behind, self.words, i, slab);
        }
    }

    /// What was fetched, into workgroup memory.
    #[track_caller]
    fn put(&self, memory: &Shared<V>) {
        for (j, (i, slab, operand)) in (0..).zip(Self::turns(&self.shape, self.per_word)) {
            let behind = if operand == 0 { 0 } else { self.shape.x_words(self.per_word) };
            put(&self.next, j, memory, behind, i, slab);
        }
    }
}

/// The slab `after` this one, if there is one.
#[device]
fn fetch_before<V: Vector<Elem = u32> + Elem>(copies: &Copies<'_, V>, after: u32, whole: u32) {
    if after < whole {
        comptime!(copies.fetch(after));
    }
}

/// Row and column in a slab of what an invocation copies at its turn `i`: where turns are whole rows, the same column
/// further down.
#[device]
fn own(#[comptime] i: u32, #[comptime] slab: Slab) -> (u32, u32) {
    let straight = comptime!(slab.straight());
    let own = local_id() + comptime!(if straight { 0 } else { i * slab.invocations });
    let down = comptime!(if straight { i * slab.invocations / slab.words } else { 0 });
    (own / comptime!(slab.words) + down, own % comptime!(slab.words))
}

/// Where word `i` of an invocation's in the first slab is. Rows past the last are the last again.
#[device]
fn start(first: u32, rows: u32, words: u32, #[comptime] i: u32, #[comptime] slab: Slab) -> u32 {
    let (row, column) = own(comptime!(i), comptime!(slab));
    min(first + row, rows - 1) * words + column
}

#[device]
fn fetch<V: Vector<Elem = u32> + Elem>(
    from: &Buf<V>,
    into: &PlaceArray<V, Local>,
    #[comptime] at: u32,
    start: u32,
    behind: u32,
) {
    into[at] = from[start + behind];
}

#[device]
fn fetch_tail<V: Vector<Elem = u32> + Elem>(
    from: &Buf<V>,
    into: &PlaceArray<V, Local>,
    #[comptime] at: u32,
    start: u32,
    behind: u32,
    words: u32,
    #[comptime] i: u32,
    #[comptime] slab: Slab,
) {
    let (_row, column) = own(comptime!(i), comptime!(slab));
    let value = from[start - column + min(behind + column, words - 1)];
    into[at] = select(behind + column < words, value, splat::<V>(0));
}

/// What was fetched, into workgroup memory.
#[device]
fn put<V: Vector<Elem = u32> + Elem>(
    from: &PlaceArray<V, Local>,
    #[comptime] at: u32,
    into: &Shared<V>,
    #[comptime] behind: u32,
    #[comptime] i: u32,
    #[comptime] slab: Slab,
) {
    let (row, column) = own(comptime!(i), comptime!(slab));
    let to = row * comptime!(slab.pitch()) + column + behind;
    if comptime!(slab.even()) {
        into[to] = from[at];
    } else if row < comptime!(slab.rows) {
        into[to] = from[at];
    }
}

/// The product of the slabs in workgroup memory onto the subgroup's sums.
#[track_caller]
pub fn multiply<T, Sum, V, N: Dim, M: Dim, K: Dim>(
    memory: &Shared<V>,
    acc: &PlaceArray<Tile<Sum, Acc, Sg, N, M>, Local>,
    shape: KhrShape,
) where
    T: Elem + tile::SumsTo<Sum>,
    Sum: Num + tile::TileElem,
    V: Vector<Elem = u32> + tile::Carries<T>,
{
    let per_word = V::BYTES / T::BYTES;
    let pitch = shape.slab(1, per_word).pitch();
    let [held_n, held_m] = shape.held();
    let per_slice = shape.steps() * shape.matrix[2] / per_word;
    let from = factors_start(shape, pitch, shape.x_words(per_word), per_slice);
    let at = |from, row: u32, step: u32| plus(from, row * pitch + step * shape.matrix[2] / per_word);
    let left = |i: u32, step| {
        Tile::<T, MatA, Sg, N, K>::load(memory, at(from.0, i * shape.matrix[0], step), pitch.read())
    };
    let right = |j: u32, step| {
        Tile::<T, MatB, Sg, K, M>::load_columns(memory, at(from.1, j * shape.matrix[1], step), pitch.read())
    };
    for step in 0..shape.steps() {
        let lefts: Vec<_> = (0..held_n).map(|i| left(i, step)).collect();
        for j in 0..held_m {
            let right = right(j, step);
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

/// Where a subgroup's rows of x and of W start in workgroup memory, at its slice's columns.
#[device]
fn factors_start(
    #[comptime] shape: KhrShape,
    #[comptime] pitch: u32,
    #[comptime] x_words: u32,
    #[comptime] slice_words: u32,
) -> (u32, u32) {
    let of_slice = comptime!(shape.subgroups[0] * shape.subgroups[1]);
    let part = subgroup_id() % of_slice;
    let start = subgroup_id() / of_slice * comptime!(slice_words);
    let n = part / comptime!(shape.subgroups[1]) * comptime!(shape.held()[0] * shape.matrix[0] * pitch);
    let m = part % comptime!(shape.subgroups[1]) * comptime!(shape.held()[1] * shape.matrix[1] * pitch);
    (start + n, start + m + x_words)
}
