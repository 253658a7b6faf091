//! From the matrices of a workgroup's tile to y.

use kiln_dsl::prelude::*;

use super::{KhrShape, shape::Strips};

/// The sums of a workgroup's tile, which starts at row `n0` of `n` and column `m0` of `m`, to y: column c of row r is
/// its element `r * stride + first + c`.
///
/// They go through `memory`, whose slabs nobody needs after this, so that a subgroup writes rows; matrix by matrix where
/// the schedule has it so, the tile is whole and starts at 16 bytes as y's rows do.
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
    // The same for all subgroups: a driver may hold them all up where one waits for itself.
    let whole = n0 + comptime!(shape.tile[0]) <= n && m0 + comptime!(shape.tile[1]) <= m;
    // One of two ways, and sum by sum where y ends within the tile.
    let matrices = comptime!(shape.schedule.matrices && shape.schedule.slices == 1);
    let at_once = if comptime!(matrices) {
        whole && (first | stride) % 4 == 0
    } else {
        whole && comptime!(strip.straight(shape.lanes * shape.schedule.slices))
    };
    if at_once {
        let at = row0 * stride + first + column0;
        if comptime!(matrices) {
            for i in comptime!(0..held_n) {
                for j in comptime!(0..held_m) {
                    let of = at + comptime!(i * matrix_n) * stride + comptime!(j * matrix_m);
                    tile::store(acc[i * held_m + j], y, of, stride);
                }
            }
        } else {
            store_whole(&acc, &memory, &y, at, stride, comptime!(shape), comptime!(strip));
        }
    } else {
        store_part(&acc, &memory, &y, n, m, first, stride, row0, column0, comptime!(shape), comptime!(strip));
    }
}

/// Words from the start of memory to a subgroup's strip and to that of its part in the first slice, and which of the sums
/// of a strip an invocation takes first.
#[device]
fn places(#[comptime] shape: KhrShape, #[comptime] strip: Strips) -> (u32, u32, u32) {
    let of_slice = comptime!(shape.subgroups[0] * shape.subgroups[1]);
    let own = subgroup_id() * comptime!(strip.own());
    let first_slice = subgroup_id() % of_slice * comptime!(strip.own());
    let first_sum = subgroup_id() / of_slice * comptime!(shape.lanes) + lane();
    (own, first_slice, first_sum)
}

/// The sums of a subgroup, all of them y's: the first is its element `first`.
#[device]
fn store_whole<Sum: Num + tile::TileElem, V: Vector<Elem = u32>, N: Dim, M: Dim>(
    acc: &PlaceArray<Tile<Sum, Acc, Sg, N, M>, Local>,
    memory: &Shared<V>,
    y: &BufMut<Sum>,
    first: u32,
    stride: u32,
    #[comptime] shape: KhrShape,
    #[comptime] strip: Strips,
) where
    Sum: tile::Carries<Sum>,
    V: tile::Carries<Sum>,
{
    let held_m = comptime!(shape.held()[1]);
    let (matrix_n, matrix_m) = comptime!((shape.matrix[0], shape.matrix[1]));
    let (slices, of_slice) = comptime!((shape.schedule.slices, shape.subgroups[0] * shape.subgroups[1]));
    let (own, first_slice, first_sum) = places(comptime!(shape), comptime!(strip));
    let (r, c) = (first_sum / comptime!(strip.columns), first_sum % comptime!(strip.columns));
    let pitch = comptime!(strip.pitch());
    let from = first_slice + r * pitch;
    let to = first + r * stride + c;
    for i in comptime!(0..shape.held()[0]) {
        for j in comptime!((0..held_m).step_by(strip.wide as usize)) {
            together(comptime!(slices > 1 || i == 0 && j == 0));
            for t in comptime!(0..strip.wide) {
                let at = own + comptime!(t * matrix_m / strip.word);
                tile::store(acc[i * held_m + j + t], memory, at, pitch);
            }
            together(comptime!(slices > 1));
            let turns = comptime!(strip.turns(shape.lanes * slices));
            // All of a strip is on its way before any of it goes to y.
            let sums = comptime!(
                turns
                    .iter()
                    .map(|(row, column)| {
                        let of =
                            |s: u32| s * of_slice * strip.own() + row * strip.pitch() + column / strip.word;
                        let sum = |s| sum_at::<Sum, V>(&memory, from, c, of(s), strip);
                        (1..slices).fold(sum(0), |all, s| kiln_dsl::ops::add(all, sum(s)))
                    })
                    .collect::<Vec<_>>()
            );
            for q in comptime!(0..turns.len()) {
                let (row, column) = comptime!(turns[q]);
                let at = to + comptime!(i * matrix_n + row) * stride + comptime!(j * matrix_m + column);
                y[at] = comptime!(sums[q]);
            }
        }
    }
}

/// Those of a subgroup whose part of the tile starts at `row0` and `column0`, as far as y reaches.
#[device]
fn store_part<Sum: Num + tile::TileElem, V: Vector<Elem = u32>, N: Dim, M: Dim>(
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
    let (own, first_slice, first_sum) = places(comptime!(shape), comptime!(strip));
    let turn = comptime!(shape.lanes * slices);
    for i in comptime!(0..shape.held()[0]) {
        for j in comptime!((0..held_m).step_by(strip.wide as usize)) {
            // The slabs were everybody's.
            together(comptime!(slices > 1 || i == 0 && j == 0));
            for t in comptime!(0..strip.wide) {
                let at = own + comptime!(t * matrix_m / strip.word);
                tile::store(acc[i * held_m + j + t], memory, at, pitch);
            }
            together(comptime!(slices > 1));
            for e in (first_sum..comptime!(strip.sums())).step_by(turn) {
                let (r, c) = (e / comptime!(strip.columns), e % comptime!(strip.columns));
                let from = first_slice + r * comptime!(strip.pitch());
                let mut sum = sum_at::<Sum, V>(&memory, from, c, comptime!(0), comptime!(strip));
                for s in comptime!(1..slices) {
                    let beyond = comptime!(s * of_slice * strip.own());
                    sum += sum_at::<Sum, V>(&memory, from, c, comptime!(beyond), comptime!(strip));
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

/// A barrier of the workgroup, or of the subgroup.
#[device]
fn together(#[comptime] all: bool) {
    if comptime!(all) {
        barrier();
    } else {
        subgroup_barrier();
    }
}

/// Sum `column` of the row that starts at word `of`, `beyond` words further on.
#[device]
fn sum_at<Sum: Num, V: Vector<Elem = u32> + Elem>(
    memory: &Shared<V>,
    of: u32,
    column: u32,
    #[comptime] beyond: u32,
    #[comptime] strip: Strips,
) -> Sum {
    let word = of + column / comptime!(strip.word) + beyond;
    let component = column % comptime!(strip.word);
    bitcast::<Sum, u32>(comptime!(memory.at(word).component(component).read()))
}
