//! `y[r, first + i] = Σ_j W[i, j] · x[r, j]` for the rows of a step, W in any format: the float arm.
//!
//! Shapes: W `[m, k]` in planes, of each expert; x `[rows, k]` f32, y `[rows, stride]` f32; k is a multiple of the block and the unit.
//! Who owns what: see [`Tile`]; lane j of a row takes units j, j + lanes, ...
//! Traffic: a row of W per `cols` outputs, memory-bound.
//! Numerics: weights decoded to f32, one fma per product into four running sums per lane. The order of the sum
//! depends on (k, lanes) alone: every subgroup size, `rows` and `cols` give the same bits.

use std::ops::Range;

use kiln_dsl::prelude::*;

use super::{
    Form, GemvPush, Tile,
    columns::{Rows, in_runs, rows_left},
    kept::{Words, arrived, asked, keep, words_of},
    own_results, own_rows, own_start, store, tensor_words, tensors, x_row,
};
use crate::step::n_rows;

/// Vectors of weights that a lane has decoded at once: they meet each column of x, and a vector of x meets those of several
/// rows.
const AT_ONCE: u32 = 8;

/// The kernel.
#[kernel(
    local_size = t.local,
    subgroup = t.subgroup,
    invocations = t.local.max(256),
    workgroup_bytes = t.workgroup_bytes::<F>(form),
    checked = form.experts,
    grid = [p.m.div_ceil(t.workgroup_rows()), (p.rows / p.used).div_ceil(t.cols), p.used],
)]
pub fn gemv<F: TensorFormat>(
    #[weight]
    #[len(tensor_words::<F>(p.units))]
    w: &Buf<u32>,
    #[weight]
    #[when(form.glu.is_some())]
    #[len(tensor_words::<F>(p.units))]
    v: &Buf<u32>,
    #[len(p.rows / p.sharing * (p.k / 4))] x: &Buf<Vec4<f32>>,
    #[len(4 + 4 * p.rows / p.used)] step: &Buf<u32>,
    #[when(form.experts)]
    #[len(p.rows)]
    ids: &Buf<u32>,
    #[weight]
    #[when(form.bias)]
    #[len(p.m)]
    bias: &Buf<f32>,
    #[len(p.rows * p.stride)] y: &BufMut<f32>,
    #[push] p: GemvPush,
    #[comptime] t: Tile,
    #[comptime] form: Form,
) {
    let (step_row, r0) = own_results(p, comptime!(t));
    // Asked for before anything waits.
    let expert = if comptime!(form.experts) { ids[r0] } else { 0 };
    let n = if comptime!(t.cols > 1) { n_rows(&step) } else { p.rows };
    // A single row is there in every step: nobody waits for the count.
    if comptime!(t.cols > 1) {
        if r0 >= n {
            return;
        }
    } else if p.rows > p.used && step_row >= n_rows(&step) {
        return;
    }
    let (lane, row) = own_rows(comptime!(t));
    let per_row = p.k / F::UNIT;
    let n_sums = comptime!(t.sums());
    let mut gate = [0.0; n_sums];
    let mut up = [0.0; n_sums];
    let tensors = comptime!(tensors::<F>(w, v, p.units, form, t));
    comptime!(tensors[0].fill_table());
    let own = comptime!(Rows {
        starts: (0..t.rows).map(|a| own_start(row, a, p.m, expert, per_row)).collect(),
        x: (0..t.cols).map(|c| x_row(step_row, r0, c, p, form)).collect(),
        per_row,
        lane,
        left: (t.cols > 1).then(|| rows_left(n, r0)),
    });
    for s in comptime!(form.stacks()) {
        let tensor = comptime!(&tensors[s as usize]);
        let mut acc = [splat::<Vec4<f32>>(0.0); n_sums];
        if comptime!(t.ahead > 0) {
            let n_words = comptime!(t.words::<F>());
            let mut kept = [0u32; n_words];
            let first = min(lane, per_row - 1);
            let words = comptime!(Words::of(&asked(tensor, &own.starts, first)));
            keep(&kept, &words, comptime!(0));
            for i in (lane..per_row).step_by(t.lanes) {
                let came = comptime!(words_of(&kept, n_words));
                // On its way while this one is multiplied; behind the last, the last of the row again.
                let next = min(i + t.lanes, per_row - 1);
                let words = comptime!(Words::of(&asked(tensor, &own.starts, next)));
                let of = comptime!(|rows| arrived(tensor, &own.starts, i, &came, rows));
                comptime!(unit_products::<F>(&acc, &of, &x, &own, i, t));
                keep(&kept, &words, comptime!(0));
            }
        } else {
            for i in (lane..per_row).step_by(t.lanes) {
                let of = comptime!(|rows: Range<usize>| asked(tensor, &own.starts[rows], i));
                comptime!(unit_products::<F>(&acc, &of, &x, &own, i, t));
            }
        }
        for j in comptime!(0..n_sums) {
            let own = acc[j];
            let sum = (own.x() + own.y()) + (own.z() + own.w());
            if comptime!(s == 0) {
                gate[j] = sum;
            } else {
                up[j] = sum;
            }
        }
    }
    store(&gate, &up, row, row, r0, n, &bias, &y, p, comptime!(t), comptime!(form));
}

/// Adds the products of unit `i` of each row; `units_of` gives those of some rows.
#[track_caller]
fn unit_products<F: TensorFormat>(
    acc: &PlaceArray<Vec4<f32>, Local>,
    units_of: &dyn Fn(Range<usize>) -> Vec<Unit>,
    x: &Buf<Vec4<f32>>,
    own: &Rows,
    i: Ex<u32>,
    t: Tile,
) {
    let fours = F::UNIT / 4;
    let n_fours = fours.min(AT_ONCE);
    let n_rows = (AT_ONCE / n_fours).clamp(1, t.rows);
    for first_row in (0..t.rows).step_by(n_rows as usize) {
        let rows = first_row..t.rows.min(first_row + n_rows);
        let units = units_of(rows.start as usize..rows.end as usize);
        for first in (0..fours).step_by(n_fours as usize) {
            let decoded = |four: u32| units.iter().map(move |u| F::decode4(u, (4 * four).read()));
            let weights: Vec<(u32, Vec<_>)> =
                (first..fours.min(first + n_fours)).map(|four| (four, decoded(four).collect())).collect();
            in_runs(t.cols, own.left, &mut |run| {
                for (four, weights) in &weights {
                    for c in run.clone() {
                        let x = x_four(x, own.x[c as usize], own.per_row, i, fours, *four);
                        for (row, weights) in rows.clone().zip(weights) {
                            add_four(acc, c * t.rows + row, *weights, x);
                        }
                    }
                }
            });
        }
    }
}

/// Elements `4 four` to `4 four + 3` of unit `i` of a row of x, whose units have so many times four.
#[device]
fn x_four(
    x: &Buf<Vec4<f32>>,
    row: u32,
    per_row: u32,
    i: u32,
    #[comptime] fours: u32,
    #[comptime] four: u32,
) -> Vec4<f32> {
    x[(row * per_row + i) * fours + four]
}

#[device]
fn add_four(acc: &PlaceArray<Vec4<f32>, Local>, #[comptime] j: u32, weights: Vec4<f32>, x: Vec4<f32>) {
    acc[j] = fma(weights, x, acc[j]);
}
