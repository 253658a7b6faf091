//! Arms: ways to multiply, one file each. What they share is which invocation owns which rows, and how sums meet.

mod columns;
pub mod dot4;
mod dot4_operands;
mod dot4_products;
pub mod ends;
pub mod float;
mod kept;

use std::fmt;

use kiln_dsl::prelude::*;
use kiln_dsl::tensor::{loaded_words, plane_offsets, table_bytes};

pub use self::ends::Ends;
use crate::fold::{fold_columns, halves};

/// Sums that are folded at once in workgroup memory, at most: what a lane may end up with too.
const TOGETHER: u32 = 8;

/// Rows of a lane group whose units a lane has room for at once, where it walks over more.
const HELD_ROWS: u32 = 4;

/// Lanes of a row that are many, where there are more.
const MANY_LANES: u32 = 64;

/// Invocations of a workgroup where each fills a table first, or has few rows for a lane group.
pub(crate) const WIDE: u32 = 256;
/// Copies of a small table, where a device has room: lanes that look up at once meet less often in a bank.
pub(crate) const COPIES: u32 = 16;
/// The same where many rows share a table: lanes of a subgroup never meet.
pub(crate) const MOST: u32 = 32;

/// Bytes of workgroup memory that every device has.
const EVERYWHERE: u32 = 16384;

/// The shape of a gemv's work: comptime.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Invocations that share a row of W, a power of two.
    pub lanes: u32,
    /// Rows of W that they own, a power of two.
    pub rows: u32,
    /// Rows of x at once, a power of two.
    pub cols: u32,
    /// Rounds whose weights are on their way while another is multiplied, on the float arm one at most; a round is a unit of
    /// each row.
    pub ahead: u32,
    /// Units of a row that each of its lanes takes, where it is known; 0 is any number.
    pub rounds: u32,
    /// Rows of a step where rounds are known: those that are `ahead` are on their way while one is multiplied. 0 asks for
    /// all rounds of all rows at once.
    pub walk: u32,
    /// Whether each round is summed up from zero and then added: two rounds have the bits of twice the lanes, which meet so.
    pub apart: bool,
    /// Invocations of a workgroup.
    pub local: u32,
    /// Copies of a format's table in workgroup memory, a power of two.
    pub copies: u32,
    /// The subgroup size that the fold may use shuffles for; none folds in workgroup memory.
    pub subgroup: Option<u32>,
}

impl fmt::Debug for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tile { lanes, rows, cols, ahead, local, copies, .. } = self;
        write!(f, "{lanes}x{rows}x{cols}, ahead {ahead}, local {local}")?;
        if *copies > 1 {
            write!(f, ", copies {copies}")?;
        }
        if self.rounds > 0 {
            write!(f, ", rounds {}", self.rounds)?;
        }
        if self.walk > 0 {
            write!(f, ", walk {}", self.walk)?;
        }
        if self.apart {
            write!(f, ", apart")?;
        }
        self.subgroup.map_or(Ok(()), |s| write!(f, ", subgroup {s}"))
    }
}

impl Tile {
    /// Rows of W that a workgroup owns.
    pub const fn workgroup_rows(&self) -> u32 {
        self.local / self.lanes * self.rows
    }

    /// The same for `m` rows of so many units: rounds are told where they are as many, and a lane group's rows are there.
    /// Where two matrices are read, or norms and blocks stand around the product, it was not measured to pay.
    pub(crate) fn for_rows_of(self, m: u32, units: u32, form: Form) -> Self {
        let plain = form.glu.is_none() && !form.late && form.ends == Ends::Rows;
        let told = plain && self.lanes * self.rounds == units && m >= self.rows;
        if told { self } else { self.untold() }
    }

    /// The same for rows of any number of units: a lane holds one of each row at once then, and another is on its way at
    /// most. Many lanes of a row are two groups in a workgroup at most: 768 invocations took 24 to 50 % longer on an H200,
    /// and many rows that share a table cost a model 4 to 8 % of its tokens.
    pub(crate) fn untold(self) -> Self {
        let Tile { rows, ahead, local, copies, .. } = self;
        if self.walk == 0 {
            return Tile { rounds: 0, ..self };
        }
        let (local, copies) = match copies {
            MOST => (WIDE, COPIES),
            _ if self.lanes > MANY_LANES => (local.min(2 * self.lanes), copies),
            _ => (local, copies),
        };
        Tile { rows: rows.min(HELD_ROWS), ahead: ahead.min(1), rounds: 0, walk: 0, local, copies, ..self }
    }

    /// Sums that an invocation carries.
    const fn sums(&self) -> u32 {
        self.rows * self.cols
    }

    /// Sums that a lane holds after the fold, and the lanes that hold the same ones.
    const fn split(&self) -> (u32, u32) {
        let sums = self.sums();
        if sums > self.lanes { (sums / self.lanes, 1) } else { (1, self.lanes / sums) }
    }

    /// Elements of workgroup memory that the fold takes.
    fn shared(&self) -> u32 {
        match self.subgroup {
            Some(_) => self.far().map(|mask| exchanged(*self, mask) * self.local).sum::<u32>().max(1),
            None => self.local * self.together(),
        }
    }

    /// Distances of lanes that meet in workgroup memory although the fold uses shuffles, the largest first.
    fn far(&self) -> impl Iterator<Item = u32> {
        let size = self.subgroup.unwrap_or(self.lanes);
        halves(self.lanes).filter(move |mask| *mask >= size)
    }

    /// The first row of workgroup memory that the exchange at distance `mask` takes, a row an invocation's element.
    fn exchange_row(&self, mask: u32) -> u32 {
        self.far().take_while(|far| *far > mask).map(|far| exchanged(*self, far)).sum()
    }

    /// Words of a round that an invocation has loaded.
    pub fn words<F: TensorFormat>(&self) -> u32 {
        loaded_words(F::PLANES) as u32 * self.rows
    }

    /// Words that it keeps of rounds to come.
    pub fn kept_words<F: TensorFormat>(&self) -> u32 {
        if self.rounds > 0 { 0 } else { self.words::<F>() * self.ahead }
    }

    /// Bytes of workgroup memory that a device must have: those that every device has, or more for a table.
    pub fn workgroup_bytes<F: TensorFormat>(&self, form: Form) -> u32 {
        self.bytes_beside(table_bytes(F::PLANES, self.copies), form).max(EVERYWHERE)
    }

    /// Bytes of workgroup memory with tables of so many.
    pub fn bytes_beside(&self, tables: u32, form: Form) -> u32 {
        tables + 4 * (self.shared() + ends::words(*self, form))
    }

    /// Sums that are folded at once in workgroup memory.
    const fn together(&self) -> u32 {
        if self.sums() < TOGETHER { self.sums() } else { TOGETHER }
    }
}

/// The activation between two projections that are one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activation {
    /// x · sigmoid(x).
    Silu,
    /// The tanh form of gelu.
    Gelu,
}

/// What a gemv does beside the product: comptime.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Form {
    /// W is a stack of experts; each row of x names its own.
    pub experts: bool,
    /// A bias is added.
    pub bias: bool,
    /// The result is added to y.
    pub add: bool,
    /// The result is `act(W x) * (V x)`, V of W's shape and format.
    pub glu: Option<Activation>,
    /// The rows of x are of a norm whose scale comes late.
    pub late: bool,
    /// What is left; anything but rows for a whole matrix alone, without bias and experts.
    pub ends: Ends,
}

impl Form {
    /// Whether it is one of rows whose scale comes late, or leaves anything but rows.
    pub fn is_late(self) -> bool {
        self.late || self.ends != Ends::Rows
    }

    /// W, and V where there is one.
    fn stacks(self) -> std::ops::Range<u32> {
        0..if self.glu.is_some() { 2 } else { 1 }
    }
}

impl fmt::Debug for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [(self.late, "late"), (self.experts, "experts"), (self.bias, "bias"), (self.add, "add")];
        let glu = match self.glu {
            Some(Activation::Silu) => Some("silu"),
            Some(Activation::Gelu) => Some("gelu"),
            None => None,
        };
        let ends = match self.ends {
            Ends::Rows => None,
            Ends::Blocks => Some("blocks"),
            Ends::Sum => Some("sum"),
        };
        let words = words.into_iter().filter_map(|(on, word)| on.then_some(word)).chain(glu).chain(ends);
        write!(f, "{}", words.collect::<Vec<_>>().join("+"))
    }
}

/// Push constants of a gemv.
#[derive(Clone, Copy, Debug, Push)]
pub struct GemvPush {
    /// Rows of y that the command has room for: rows of a step times `used`.
    pub rows: u32,
    /// Rows of W in this piece; of one expert.
    pub m: u32,
    /// Columns of W.
    pub k: u32,
    /// Units of the whole piece, all experts together.
    pub units: u32,
    /// Where the piece's first result goes in a row of y.
    pub first: u32,
    /// Elements of a row of y.
    pub stride: u32,
    /// Rows of y for a row of the step: the experts that a token uses, 1 without experts.
    pub used: u32,
    /// Rows of y that share a row of x: `used` or 1.
    pub sharing: u32,
    /// Added to the mean squares of rows whose scale comes late.
    pub eps: f32,
}

/// 32-bit words of a tensor of `n_units` units on a device.
pub fn tensor_words<F: TensorFormat>(n_units: u32) -> u64 {
    plane_offsets(F::PLANES, u64::from(n_units)).1 / 4
}

/// W, and V where the form has it, with room for a table in workgroup memory that both use.
#[track_caller]
fn tensors<F: TensorFormat>(
    w: &Buf<u32>,
    v: &Buf<u32>,
    n_units: Ex<u32>,
    form: Form,
    t: Tile,
) -> Vec<Tensor> {
    let w = Tensor::new::<F>(w, n_units).with_table(t.copies);
    let v = form.glu.map(|_| Tensor::new::<F>(v, n_units).with_table_of(&w));
    std::iter::once(w).chain(v).collect()
}

/// The lane of this invocation and the first row of W that its lanes own.
#[device]
fn own_rows(#[comptime] t: Tile) -> (u32, u32) {
    let i = local_id();
    (i & (t.lanes - 1), workgroup_id_x() * (t.local / t.lanes * t.rows) + i / t.lanes * t.rows)
}

/// The first row of the step of this workgroup's, and its first row of y. Each expert of a row has a workgroup, so
/// that nobody divides to find the row that it shares.
#[device]
fn own_results(#[push] p: GemvPush, #[comptime] t: Tile) -> (u32, u32) {
    let step_row = workgroup_id_y() * t.cols;
    (step_row, step_row * p.used + workgroup_id_z())
}

/// The row of x for column `c` of a workgroup's; past the last row, the last one again: its sum is not stored.
#[device]
fn x_row(step_row: u32, r0: u32, #[comptime] c: u32, #[push] p: GemvPush, #[comptime] form: Form) -> u32 {
    let row = if comptime!(c == 0) { r0 } else { min(r0 + c, p.rows - 1) };
    if comptime!(form.experts) { select(p.sharing == 1, row, step_row) } else { row }
}

/// The first of the rows that a lane group multiplies, which owns those from `row` on: where rounds are known it has them
/// all, the last ones of W where its own end beyond, so that rows are a known way apart.
#[device]
fn first_row(row: u32, m: u32, #[comptime] t: Tile) -> u32 {
    if comptime!(t.rounds > 0) { min(row, m - t.rows) } else { row }
}

/// The first unit of row `row` of an expert's `m`; past the last row, the last row again: its sum is not stored.
#[device]
fn row_start(row: u32, m: u32, expert: u32, units_per_row: u32) -> u32 {
    (expert * m + min(row, m - 1)) * units_per_row
}

/// The same of row `a` of a lane's.
#[device]
fn own_start(row: u32, #[comptime] a: u32, m: u32, expert: u32, units_per_row: u32) -> u32 {
    row_start(row + a, m, expert, units_per_row)
}

/// Folds the sums of W x, and those of V x where a form has them.
#[device]
fn fold_sums(
    gate: &PlaceArray<f32, Local>,
    up: &PlaceArray<f32, Local>,
    shared: &Shared<f32>,
    #[comptime] t: Tile,
    #[comptime] form: Form,
) {
    fold(&gate, &shared, comptime!(t));
    if comptime!(form.glu.is_some()) {
        if comptime!(t.far().count() > 0) {
            barrier();
        }
        fold(&up, &shared, comptime!(t));
    }
}

/// Adds up the sums of a row's lanes, lane by lane of each half with its counterpart of the other: every subgroup size
/// and both memories give the same bits. `sums[j]` of a lane is then sum [`held`]`(j)`.
#[device]
fn fold(sums: &PlaceArray<f32, Local>, shared: &Shared<f32>, #[comptime] t: Tile) {
    let lane = local_id() & (t.lanes - 1);
    if comptime!(t.subgroup.is_none()) {
        fold_in_memory(&sums, &shared, comptime!(t));
    } else {
        for mask in comptime!(halves(t.lanes)) {
            let upper = (lane & mask) != 0;
            if comptime!(t.far().any(|far| far == mask)) {
                meet_in_memory(&sums, &shared, upper, comptime!(mask), comptime!(t));
            } else {
                let left = comptime!(left_of(t, mask));
                if comptime!(left > 1) {
                    for i in comptime!(0..left / 2) {
                        let (a, b) = (sums[i], sums[i + left / 2]);
                        let theirs = subgroup::shuffle_xor(select(upper, a, b), mask);
                        sums[i] = select(upper, b, a) + theirs;
                    }
                } else {
                    let own = sums[0];
                    sums[0] = own + subgroup::shuffle_xor(own, mask);
                }
            }
        }
    }
}

/// The step of a fold between lanes at distance `mask` that are not of one subgroup: all that a lane gives is in
/// workgroup memory before anyone waits.
#[device]
fn meet_in_memory(
    sums: &PlaceArray<f32, Local>,
    shared: &Shared<f32>,
    upper: bool,
    #[comptime] mask: u32,
    #[comptime] t: Tile,
) {
    let i = local_id();
    let (n, left, row) = comptime!((exchanged(t, mask), left_of(t, mask), t.exchange_row(mask)));
    for v in comptime!(0..n) {
        let given = if comptime!(left > 1) { select(upper, sums[v], sums[v + left / 2]) } else { sums[0] };
        shared[(row + v) * t.local + i] = given;
    }
    barrier();
    for v in comptime!(0..n) {
        let own = if comptime!(left > 1) { select(upper, sums[v + left / 2], sums[v]) } else { sums[0] };
        sums[v] = own + shared[(row + v) * t.local + (i ^ mask)];
    }
}

/// All of a fold in workgroup memory, [`TOGETHER`] sums at a time.
#[device]
fn fold_in_memory(sums: &PlaceArray<f32, Local>, shared: &Shared<f32>, #[comptime] t: Tile) {
    let i = local_id();
    let lane = i & (t.lanes - 1);
    let n = comptime!(t.together());
    for first in comptime!((0..t.sums()).step_by(n as usize)) {
        for v in comptime!(0..n) {
            shared[i + v * t.local] = sums[first + v];
        }
        fold_columns(&shared, i, comptime!(t.lanes), comptime!(n), comptime!(t.local));
        // What a lane will hold is among the sums that are in workgroup memory already.
        for j in comptime!(0..t.split().0) {
            let v = held(comptime!(j), comptime!(t)) - first;
            if v < n {
                sums[j] = shared[v * t.local + (i - lane)];
            }
        }
        barrier();
    }
}

/// Sums that a lane gives to the one at distance `mask`.
const fn exchanged(t: Tile, mask: u32) -> u32 {
    left_of(t, mask).div_ceil(2)
}

/// Sums that are left before the exchange with the lane at distance `mask`.
const fn left_of(t: Tile, mask: u32) -> u32 {
    let done = t.lanes / 2 / mask;
    let left = t.sums() / done;
    if left == 0 { 1 } else { left }
}

/// Which sum a lane's `j`-th is after the fold.
#[device]
fn held(#[comptime] j: u32, #[comptime] t: Tile) -> u32 {
    let (each, alike) = comptime!(t.split());
    (local_id() & (t.lanes - 1)) / alike * each + j
}

/// Whether this lane is the one that stores what several hold.
#[device]
fn stores(#[comptime] t: Tile) -> bool {
    let alike = comptime!(t.split().1 - 1);
    (local_id() & alike) == 0
}

/// `act(x)`.
#[device]
pub(crate) fn activate(x: f32, #[comptime] activation: Activation) -> f32 {
    // gelu's tanh form is x · sigmoid(2 · √(2/π) · (x + 0.044715 · x³)).
    let z = if comptime!(activation == Activation::Gelu) {
        2.0 * GELU_SCALE * (x + GELU_CUBE * x * x * x)
    } else {
        x
    };
    x / (1.0 + exp(-z))
}

/// √(2/π), of the tanh form of gelu.
const GELU_SCALE: f32 = 0.797_884_6;
/// The cubic term of the tanh form of gelu.
const GELU_CUBE: f32 = 0.044_715;

/// Folds the sums of every row, applies what the form asks for, and stores.
///
/// `gate` are the sums of W x for rows `row` on of W and `r0` on of y, which has `n`; `up` are those of V x. The lane group
/// owns the rows from `own` on.
#[device]
fn store(
    gate: &PlaceArray<f32, Local>,
    up: &PlaceArray<f32, Local>,
    row: u32,
    own: u32,
    r0: u32,
    n: u32,
    bias: &Buf<f32>,
    y: &BufMut<f32>,
    #[push] p: GemvPush,
    #[comptime] t: Tile,
    #[comptime] form: Form,
) {
    let len = comptime!(t.shared());
    let shared = Shared::<f32>::new(len);
    fold_sums(&gate, &up, &shared, comptime!(t), comptime!(form));
    if stores(comptime!(t)) {
        for j in comptime!(0..t.split().0) {
            let sum = held(comptime!(j), comptime!(t));
            let (i, r) = (row + sum % t.rows, r0 + sum / t.rows);
            let owned = if comptime!(t.rounds > 0) { i >= own } else { i < p.m };
            if owned && r < n {
                let at = r * p.stride + p.first + i;
                let product = if comptime!(form.glu.is_some()) {
                    activate(gate[j], comptime!(form.glu.unwrap_or(Activation::Silu))) * up[j]
                } else {
                    gate[j]
                };
                let with_bias = if comptime!(form.bias) { product + bias[i] } else { product };
                y[at] = if comptime!(form.add) { y[at] + with_bias } else { with_bias };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the record 2026-12-01-h200-told-rounds measured it in models.
    #[test]
    fn without_told_rounds_few_rows_share_a_table_and_little_is_ahead() {
        let shared = Tile {
            lanes: 32,
            rows: 8,
            cols: 1,
            ahead: 1,
            rounds: 4,
            walk: 2,
            apart: false,
            local: 768,
            copies: MOST,
            subgroup: None,
        };
        let of = |tile: Tile| {
            let Tile { rows, ahead, rounds, walk, local, copies, .. } = tile.untold();
            ((rows, ahead, rounds, walk), (local, copies))
        };
        assert_eq!(of(shared), ((4, 1, 0, 0), (256, 16)));
        let long = Tile { lanes: 64, ahead: 2, copies: 1, local: 512, ..shared };
        assert_eq!(of(long), ((4, 1, 0, 0), (512, 1)));
        assert_eq!(of(Tile { lanes: 128, ..long }), ((4, 1, 0, 0), (256, 1)));
        // What asks for everything at once was measured as it is.
        let at_once = Tile { rows: 4, ahead: 0, walk: 0, rounds: 1, ..long };
        assert_eq!(of(at_once), ((4, 0, 0, 0), (512, 1)));
    }
}
