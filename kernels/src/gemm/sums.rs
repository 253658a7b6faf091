//! From the matrices of a workgroup's tile to y.

use kiln_dsl::prelude::*;

use super::{KhrShape, shape::Strips};

/// The sums of a workgroup's tile, which starts at row `n0` of `n` and column `m0` of `m`, to y: column c of row r is
/// its element `r * stride + first + c`.
///
/// A matrix goes there at once where the tile is whole, starts at 16 bytes as y's rows do and the schedule has it so;
/// else through `memory`, whose slabs nobody needs after this, row by row.
#[device]
pub fn store_sums<Sum: Num + tile::TileElem, V: Vector<Elem = u32>, N: Dim, M: Dim>(
    acc: &PlaceArray<Tile<Sum, Acc, Sg, N, M>, Local>,
    memory: &Shared<V>,
    y: &BufMut<Sum>,
    n: u32,
    m: u32,
    first: u32,
    stride: u32,
    n0: u32,
    m0: u32,
    #[comptime] shape: KhrShape,
    #[comptime] strip: Strips,
) where
    Sum: tile::Carries<Sum>,
    V: tile::Carries<Sum>,
{
    let (held_n, held_m) = comptime!((shape.held()[0], shape.held()[1]));
    let (matrix_n, matrix_m) = comptime!((shape.matrix[0], shape.matrix[1]));
    let part = subgroup_id() % comptime!(shape.subgroups[0] * shape.subgroups[1]);
    let row0 = n0 + part / comptime!(shape.subgroups[1]) * comptime!(held_n * matrix_n);
    let column0 = m0 + part % comptime!(shape.subgroups[1]) * comptime!(held_m * matrix_m);
    if comptime!(shape.schedule.sums_by_rows()) {
        store_rows(&acc, &memory, &y, n, m, first, stride, row0, column0, comptime!(shape), comptime!(strip));
    } else {
        // The same for all subgroups: a driver may hold them all up where one waits for itself.
        let whole = n0 + comptime!(shape.tile[0]) <= n && m0 + comptime!(shape.tile[1]) <= m;
        if whole && (first | stride) % 4 == 0 {
            for i in comptime!(0..held_n) {
                for j in comptime!(0..held_m) {
                    let row = row0 + comptime!(i * matrix_n);
                    let at = row * stride + first + column0 + comptime!(j * matrix_m);
                    tile::store(acc[i * held_m + j], y, at, stride);
                }
            }
        } else {
            store_rows(
                &acc,
                &memory,
                &y,
                n,
                m,
                first,
                stride,
                row0,
                column0,
                comptime!(shape),
                comptime!(strip),
            );
        }
    }
}

/// The sums of a subgroup, whose part of the tile starts at `row0` and `column0`, through workgroup memory.
#[device]
fn store_rows<Sum: Num + tile::TileElem, V: Vector<Elem = u32>, N: Dim, M: Dim>(
    acc: &PlaceArray<Tile<Sum, Acc, Sg, N, M>, Local>,
    memory: &Shared<V>,
    y: &BufMut<Sum>,
    n: u32,
    m: u32,
    first: u32,
    stride: u32,
    row0: u32,
    column0: u32,
    #[comptime] shape: KhrShape,
    #[comptime] strip: Strips,
) where
    Sum: tile::Carries<Sum>,
    V: tile::Carries<Sum>,
{
    let held_m = comptime!(shape.held()[1]);
    let (matrix_n, matrix_m) = comptime!((shape.matrix[0], shape.matrix[1]));
    let (slices, of_slice) = comptime!((shape.schedule.slices, shape.subgroups[0] * shape.subgroups[1]));
    let pitch = comptime!(strip.pitch());
    let own = subgroup_id() * comptime!(strip.own());
    let first_slice = subgroup_id() % of_slice * comptime!(strip.own());
    let first_sum = subgroup_id() / of_slice * comptime!(shape.lanes) + lane();
    let turn = comptime!(shape.lanes * slices);
    // Where this is the usual way, all of a strip is on its way at once.
    let each = comptime!(if shape.schedule.sums_by_rows() { strip.sums() / turn } else { 1 });
    for i in comptime!(0..shape.held()[0]) {
        for j in comptime!((0..held_m).step_by(strip.wide as usize)) {
            // The slabs were everybody's.
            together(comptime!(slices > 1 || i == 0 && j == 0));
            for t in comptime!(0..strip.wide) {
                let at = own + comptime!(t * matrix_m / strip.word);
                tile::store(acc[i * held_m + j + t], memory, at, pitch);
            }
            together(comptime!(slices > 1));
            for e0 in (first_sum..comptime!(strip.sums())).step_by(comptime!(turn * each)) {
                for q in comptime!(0..each) {
                    let e = e0 + comptime!(q * turn);
                    let (r, c) = (e / comptime!(strip.columns), e % comptime!(strip.columns));
                    let mut sum = sum_at::<Sum, V>(&memory, first_slice, r, c, comptime!(strip));
                    for s in comptime!(1..slices) {
                        let of = first_slice + comptime!(s * of_slice * strip.own());
                        sum += sum_at::<Sum, V>(&memory, of, r, c, comptime!(strip));
                    }
                    let row = row0 + comptime!(i * matrix_n) + r;
                    let column = column0 + comptime!(j * matrix_m) + c;
                    if row < n && column < m {
                        y[row * stride + first + column] = sum;
                    }
                }
            }
        }
    }
}

/// A barrier of the workgroup, or of the subgroup.
#[device]
fn together(#[comptime] all: bool) {
    if comptime!(all) {
        barrier();
    } else {
        subgroup_barrier();
    }
}

/// One sum of the strip that starts at word `of`.
#[device]
fn sum_at<Sum: Num, V: Vector<Elem = u32> + Elem>(
    memory: &Shared<V>,
    of: u32,
    row: u32,
    column: u32,
    #[comptime] strip: Strips,
) -> Sum {
    let word = of + row * comptime!(strip.pitch()) + column / comptime!(strip.word);
    let component = column % comptime!(strip.word);
    bitcast::<Sum, u32>(comptime!(memory.at(word).component(component).read()))
}
