//! What stands before and behind a product of one launch: the scale of a norm that comes late, and blocks of results.
//!
//! A norm is `y = g · s / √(mean(s²) + eps)`. Who makes s leaves blocks of `g · s` and the sum of squares of every 32
//! elements of s (`put_late`); who multiplies them brings their root to its sums (`late_scales`). So nobody waits for
//! the whole row between, and a row of a thousand workgroups needs no launch of one.
//! Numerics: f32; the sum of squares runs over four at a time, eight of these as a tree, 32 such sums in turn by lane,
//! then a tree: its order depends on the row's length alone, so every launch and subgroup size gives the same bits.

use kiln_dsl::prelude::*;

use super::{Form, GemvPush, Tile, activate, fold_sums, held, stores, x_row};
use crate::{
    activations::{BLOCK, Planes, SHARERS, put_four, put_len, sum_of_block},
    fold::{RUN, fold_columns, fold_run_len, sum_of_run},
    norm::square,
};

/// What a launch leaves: comptime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Ends {
    /// Rows of f32.
    #[default]
    Rows,
    /// Blocks of two planes. A workgroup has 32 rows of W.
    Blocks,
    /// The sum with other rows as f32, and that as `put_late` leaves it. A workgroup has 32 rows of W.
    Sum,
}

/// Elements of a row that four sums of squares stand for: rows whose scale comes late are whole multiples.
pub const LATE: u32 = 4 * BLOCK;

impl Tile {
    /// The same where a workgroup owns a block of rows.
    pub const fn of_block(self) -> Self {
        Tile { local: self.lanes * (BLOCK / self.rows), cols: 1, ..self }
    }

    /// Whether a workgroup owns a block of rows.
    pub const fn owns_block(self) -> bool {
        self.workgroup_rows() == BLOCK && self.cols == 1
    }
}

/// Words of workgroup memory that a form takes beside its fold.
pub(super) fn words(t: Tile, form: Form) -> u32 {
    let late = if form.late { late_words(t) } else { 0 };
    let ends = if form.ends == Ends::Rows { 0 } else { BLOCK + put_len(t.local, t.subgroup) };
    late + ends
}

/// The sums of squares that this lane adds up first, of row `row` of x.
#[device]
pub(super) fn late_first(squares: &Buf<Vec4<f32>>, row: u32, k: u32) -> Vec4<f32> {
    let n = k / LATE;
    squares[row * n + min(local_id() % RUN, n - 1)]
}

/// The scales of the rows of x that the columns of rows `r0` on of y take; of a single column `first` is there already.
/// All of a workgroup have to come here.
#[device]
pub(super) fn late_scales(
    scales: &PlaceArray<f32, Local>,
    first: Vec4<f32>,
    squares: &Buf<Vec4<f32>>,
    r0: u32,
    #[push] p: GemvPush,
    #[comptime] t: Tile,
    #[comptime] form: Form,
) {
    let folded = Shared::<f32>::new(comptime!(late_words(t)));
    let (n, at) = (p.k / LATE, local_id());
    let lane = at % RUN;
    let one = comptime!(t.cols == 1);
    if comptime!(one) {
        scales[0] = select(lane < n, sum_of(first), 0.0);
    } else {
        for c in comptime!(0..t.cols) {
            scales[c] = 0.0;
        }
    }
    for i in (lane + if comptime!(one) { RUN } else { 0 }..n).step_by(RUN) {
        for c in comptime!(0..t.cols) {
            scales[c] += sum_of(squares[x_row(r0, r0, comptime!(c), p, comptime!(form)) * n + i]);
        }
    }
    if comptime!(t.subgroup.is_some()) {
        for c in comptime!(0..t.cols) {
            scales[c] = sum_of_run(scales[c], &folded, at, comptime!(t.subgroup));
        }
    } else {
        for c in comptime!(0..t.cols) {
            folded[c * t.local + at] = scales[c];
        }
        fold_columns(&folded, at, comptime!(RUN), comptime!(t.cols), comptime!(t.local));
        for c in comptime!(0..t.cols) {
            scales[c] = folded[c * t.local + at / RUN * RUN];
        }
    }
    for c in comptime!(0..t.cols) {
        scales[c] = inverse_sqrt(scales[c] / (p.k as f32) + p.eps);
    }
}

/// Words of workgroup memory that [`late_scales`] takes.
fn late_words(t: Tile) -> u32 {
    t.cols * fold_run_len(t.local, t.subgroup)
}

/// The sum of four.
#[device]
fn sum_of(four: Vec4<f32>) -> f32 {
    (four.x() + four.y()) + (four.z() + four.w())
}

/// Leaves elements `4 at` to `4 at + 3` of row `r` of s, which has `fours` times four, for a norm whose scale comes
/// late. The eight invocations of a block are neighbors; all of a workgroup have to come here, those past the row to no
/// effect.
#[device]
pub(crate) fn put_late(
    s: Vec4<f32>,
    gain: Vec4<f32>,
    at: u32,
    r: u32,
    fours: u32,
    q: &BufMut<u32>,
    squares: &BufMut<f32>,
    shared: &Shared<u32>,
    #[comptime] subgroup: Option<u32>,
) {
    let sum = sum_of_block(square(s), &shared, comptime!(subgroup));
    if at < fours && at % SHARERS == 0 {
        squares[(r * fours + at) / SHARERS] = sum;
    }
    put_four(s * gain, at, r, fours, &q, &shared, comptime!(Planes::Two), comptime!(subgroup));
}

/// Folds the sums of a workgroup's 32 rows, applies what the form asks for, and stores them as a block of row `r` of y.
///
/// `gate` are the sums of W x, `up` those of V x.
#[device]
pub(super) fn store_block(
    gate: &PlaceArray<f32, Local>,
    up: &PlaceArray<f32, Local>,
    r: u32,
    residual: &Buf<Vec4<f32>>,
    gain: &Buf<Vec4<f32>>,
    y: &BufMut<f32>,
    packed: &BufMut<u32>,
    parts: &BufMut<f32>,
    #[push] p: GemvPush,
    #[comptime] t: Tile,
    #[comptime] form: Form,
) {
    let i = local_id();
    let fours = p.m / 4;
    // Every invocation of the first eight has four rows, the others none.
    let four = workgroup_id_x() * SHARERS + i % SHARERS;
    let sum = comptime!(form.ends == Ends::Sum);
    // On their way while lanes meet.
    let mut others = splat::<Vec4<f32>>(0.0);
    let mut gains = splat::<Vec4<f32>>(0.0);
    if comptime!(sum) {
        others = residual[r * fours + four];
        gains = gain[four];
    }
    let shared = Shared::<f32>::new(comptime!(t.shared()));
    let made = Shared::<f32>::new(BLOCK);
    let words = Shared::<u32>::new(comptime!(put_len(t.local, t.subgroup)));
    fold_sums(&gate, &up, &shared, comptime!(t), comptime!(form));
    if stores(comptime!(t)) {
        for j in comptime!(0..t.split().0) {
            let row = i / t.lanes * t.rows + held(comptime!(j), comptime!(t));
            made[row] = if comptime!(form.glu.is_some()) {
                activate(gate[j], comptime!(form.glu.unwrap_or(super::Activation::Silu))) * up[j]
            } else {
                gate[j]
            };
        }
    }
    barrier();
    let own = i % SHARERS * 4;
    let mut values = vec4(made[own], made[own + 1], made[own + 2], made[own + 3]);
    let at = select(i < SHARERS, four, fours);
    if comptime!(sum) {
        values = others + values;
        if i < SHARERS {
            for e in comptime!(0..4u32) {
                y[r * p.m + four * 4 + e] = values[e];
            }
        }
        put_late(values, gains, at, r, fours, &packed, &parts, &words, comptime!(t.subgroup));
    } else {
        put_four(values, at, r, fours, &packed, &words, comptime!(Planes::Two), comptime!(t.subgroup));
    }
}
