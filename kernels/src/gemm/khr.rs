//! The product on matrices of a subgroup, for plain elements: f16 and signed bytes.
//!
//! Shapes: W `[m, k]`, x `[n, k]`, y `[n, m]`; a row of k elements is whole words `V`.
//! Who owns what: a workgroup owns a tile of y; each subgroup holds its part of the tile in matrices.
//! A slab of x and of W is staged in workgroup memory while the next one is on its way into registers.
//! Edges: rows past the last are the last again, columns past k are zero; a tile that is not whole goes to y element by
//! element.
//! Numerics: the order of a sum within one multiply-add is the device's, and multiply-adds follow k in order.

use kiln_dsl::prelude::*;

use super::{KhrShape, shape::Slab};

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
    V: Vector<Elem = u32> + tile::Carries<T>,
{
    dims!(N = shape.matrix[0], M = shape.matrix[1], K = shape.matrix[2]);
    let per_word = comptime!(V::BYTES / T::BYTES);
    let (tile_n, tile_m) = (comptime!(shape.tile[0]), comptime!(shape.tile[1]));
    let x_slab = comptime!(shape.slab(shape.tile[0], per_word));
    let w_slab = comptime!(shape.slab(shape.tile[1], per_word));
    let held_n = comptime!(shape.held()[0]);
    let held_m = comptime!(shape.held()[1]);

    let xs = Shared::<V>::new(comptime!(x_slab.staged()));
    let ws = Shared::<V>::new(comptime!(w_slab.staged()));
    let mut x_next = [splat::<V>(0); comptime!(x_slab.each())];
    let mut w_next = [splat::<V>(0); comptime!(w_slab.each())];
    let mut acc = [Tile::<Sum, Acc, Sg, N, M>::zero(); comptime!(held_n * held_m)];

    let n0 = workgroup_id_y() * tile_n;
    let m0 = workgroup_id_x() * tile_m;
    let words = p.k / comptime!(per_word);
    let slab_words = comptime!(x_slab.words);
    let whole = words / slab_words * slab_words;

    if whole > 0 {
        fetch(x, &x_next, n0, p.n, words, 0, comptime!(x_slab), comptime!(false));
        fetch(w, &w_next, m0, p.m, words, 0, comptime!(w_slab), comptime!(false));
    }
    for word in (0..whole).step_by(slab_words) {
        barrier();
        put(&x_next, &xs, comptime!(x_slab));
        put(&w_next, &ws, comptime!(w_slab));
        barrier();
        if word + slab_words < whole {
            fetch(x, &x_next, n0, p.n, words, word + slab_words, comptime!(x_slab), comptime!(false));
            fetch(w, &w_next, m0, p.m, words, word + slab_words, comptime!(w_slab), comptime!(false));
        }
        multiply::<T, Sum, V, N, M, K>(&xs, &ws, &acc, comptime!(shape));
    }
    if whole < words {
        fetch(x, &x_next, n0, p.n, words, whole, comptime!(x_slab), comptime!(true));
        fetch(w, &w_next, m0, p.m, words, whole, comptime!(w_slab), comptime!(true));
        barrier();
        put(&x_next, &xs, comptime!(x_slab));
        put(&w_next, &ws, comptime!(w_slab));
        barrier();
        multiply::<T, Sum, V, N, M, K>(&xs, &ws, &acc, comptime!(shape));
    }

    store_sums(&acc, y, p.n, p.m, 0, p.m, n0, m0, comptime!(shape));
}

/// The sums of a workgroup's tile, which starts at row `n0` of `n` and column `m0` of `m`, to y: column c of row r is
/// its element `r * stride + first + c`.
///
/// A matrix goes there at once where the tile is whole and starts at 16 bytes as y's rows do, else element by element.
#[device]
pub(super) fn store_sums<Sum: Num + tile::TileElem + tile::Carries<Sum>, N: Dim, M: Dim>(
    acc: &PlaceArray<Tile<Sum, Acc, Sg, N, M>, Local>,
    y: &BufMut<Sum>,
    n: u32,
    m: u32,
    first: u32,
    stride: u32,
    n0: u32,
    m0: u32,
    #[comptime] shape: KhrShape,
) {
    let held_m = comptime!(shape.held()[1]);
    let matrix_n = comptime!(shape.matrix[0]);
    let matrix_m = comptime!(shape.matrix[1]);
    let sums = Shared::<Sum>::new(comptime!(shape.sums()));
    let part = subgroup_id();
    let own = part * comptime!(matrix_n * matrix_m);
    let row0 = n0 + part / comptime!(shape.subgroups[1]) * comptime!(shape.held()[0] * matrix_n);
    let column0 = m0 + part % comptime!(shape.subgroups[1]) * comptime!(held_m * matrix_m);
    // The same for all subgroups: a driver may hold them all up where one waits for itself.
    let whole = n0 + comptime!(shape.tile[0]) <= n && m0 + comptime!(shape.tile[1]) <= m;
    if whole && (first | stride) % 4 == 0 {
        for i in comptime!(0..shape.held()[0]) {
            for j in comptime!(0..held_m) {
                let at =
                    (row0 + comptime!(i * matrix_n)) * stride + first + column0 + comptime!(j * matrix_m);
                tile::store(acc[i * held_m + j], y, at, stride);
            }
        }
    } else {
        for i in comptime!(0..shape.held()[0]) {
            for j in comptime!(0..held_m) {
                tile::store(acc[i * held_m + j], &sums, own, matrix_m);
                subgroup_barrier();
                for e in (lane()..comptime!(matrix_n * matrix_m)).step_by(comptime!(shape.lanes)) {
                    let row = row0 + i * matrix_n + e / matrix_m;
                    let column = column0 + j * matrix_m + e % matrix_m;
                    if row < n && column < m {
                        y[row * stride + first + column] = sums[own + e];
                    }
                }
                subgroup_barrier();
            }
        }
    }
}

/// A slab's words from `word` of each row on, into registers. Rows past the last are the last again; in the slab that
/// is the `tail` of the rows, words past their end are zero.
#[device]
fn fetch<V: Vector<Elem = u32> + Elem>(
    from: &Buf<V>,
    into: &PlaceArray<V, Local>,
    first: u32,
    rows: u32,
    words: u32,
    word: u32,
    #[comptime] slab: Slab,
    #[comptime] tail: bool,
) {
    for j in comptime!(0..slab.each()) {
        let i = local_id() + comptime!(j * slab.invocations);
        let row = min(first + i / comptime!(slab.words), rows - 1);
        let column = word + i % comptime!(slab.words);
        if comptime!(tail) {
            let value = from[row * words + min(column, words - 1)];
            into[j] = select(column < words, value, splat::<V>(0));
        } else {
            into[j] = from[row * words + column];
        }
    }
}

/// The words that [`fetch`] took, into workgroup memory.
#[device]
fn put<V: Vector<Elem = u32> + Elem>(from: &PlaceArray<V, Local>, into: &Shared<V>, #[comptime] slab: Slab) {
    for j in comptime!(0..slab.each()) {
        let i = local_id() + comptime!(j * slab.invocations);
        let row = i / comptime!(slab.words);
        let at = row * comptime!(slab.pitch()) + i % comptime!(slab.words);
        if comptime!(slab.even()) {
            into[at] = from[j];
        } else if row < comptime!(slab.rows) {
            into[at] = from[j];
        }
    }
}

/// The staged slabs' product onto the subgroup's sums.
#[device]
pub(super) fn multiply<T, Sum, V, N: Dim, M: Dim, K: Dim>(
    xs: &Shared<V>,
    ws: &Shared<V>,
    acc: &PlaceArray<Tile<Sum, Acc, Sg, N, M>, Local>,
    #[comptime] shape: KhrShape,
) where
    T: Elem + tile::SumsTo<Sum>,
    Sum: Num + tile::TileElem,
    V: Vector<Elem = u32> + tile::Carries<T>,
{
    let per_word = comptime!(V::BYTES / T::BYTES);
    let pitch = comptime!(shape.slab(1, per_word).pitch());
    let held_n = comptime!(shape.held()[0]);
    let held_m = comptime!(shape.held()[1]);
    let part = subgroup_id();
    let part_n = part / comptime!(shape.subgroups[1]) * comptime!(held_n * shape.matrix[0]);
    let part_m = part % comptime!(shape.subgroups[1]) * comptime!(held_m * shape.matrix[1]);
    for step in comptime!(0..shape.tile[2] / shape.matrix[2]) {
        let word = comptime!(step * shape.matrix[2] / per_word);
        let mut left = [Tile::<T, MatA, Sg, N, K>::zero(); held_n];
        for i in comptime!(0..held_n) {
            let row = part_n + comptime!(i * shape.matrix[0]);
            left[i] = Tile::<T, MatA, Sg, N, K>::load(xs, row * pitch + word, pitch);
        }
        for j in comptime!(0..held_m) {
            let row = part_m + comptime!(j * shape.matrix[1]);
            let right = Tile::<T, MatB, Sg, K, M>::load_columns(ws, row * pitch + word, pitch);
            for i in comptime!(0..held_n) {
                acc[i * held_m + j] = mul_add(left[i], right, acc[i * held_m + j]);
            }
        }
    }
}
