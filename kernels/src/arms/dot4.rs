//! `y[r, first + i] = Σ_j W[i, j] · x[r, j]`, W in a packed format, x in blocks of integers: the dot4 arm.
//!
//! Per group of W, with `w = s · q + o` and `x = d · (256 · hi + lo)`: `s · d · (256 · Σ q hi + Σ q lo) + o · d · Σ x`.
//! Where x has one plane of bytes, hi is zero.
//! Shapes: W `[m, k]` in planes, of each expert; x `[rows, k]` in blocks (see `activations.rs`), y `[rows, stride]` f32.
//! Who owns what: see [`Tile`]; lane j of a row takes units j, j + lanes, ...
//! Traffic: a row of W per `cols` outputs, memory-bound.
//! Numerics: the integer sums are exact; a group adds one rounded product and, with offsets, one more. The order of
//! the sum over groups depends on (k, lanes) alone.

use kiln_dsl::{prelude::*, tensor::AskedTables};

use super::{
    Ends, Form, GemvPush, HELD_ROWS, Tile,
    columns::{Rows, rows_left},
    dot4_operands::{Column, number},
    dot4_products::round_products,
    ends::{LATE, late_first, late_scales, store_block},
    first_row,
    kept::{Words, arrived, asked, keep, words_of},
    own_results, own_rows, own_start, store, tensor_words, tensors, x_row,
};
use crate::{
    activations::{BLOCK, FIELDS, Planes},
    step::n_rows,
};

/// The kernel.
#[kernel(
    local_size = t.local,
    subgroup = t.subgroup,
    invocations = t.local.max(256),
    workgroup_bytes = t.workgroup_bytes::<F>(form),
    checked = form.experts,
    grid = [p.m.div_ceil(t.workgroup_rows()), (p.rows / p.used).div_ceil(t.cols), p.used],
)]
pub fn gemv_dot4<F: PackedFormat>(
    #[weight]
    #[len(tensor_words::<F>(p.units))]
    w: &Buf<u32>,
    #[weight]
    #[when(form.glu.is_some())]
    #[len(tensor_words::<F>(p.units))]
    v: &Buf<u32>,
    #[len(p.rows / p.sharing * (p.k / BLOCK) * planes.fields())] x: &Buf<Vec4<u32>>,
    #[len(4 + 4 * p.rows / p.used)] step: &Buf<u32>,
    #[when(form.experts)]
    #[len(p.rows)]
    ids: &Buf<u32>,
    #[weight]
    #[when(form.bias)]
    #[len(p.m)]
    bias: &Buf<f32>,
    #[when(form.late)]
    #[len(p.rows / p.sharing * (p.k / LATE))]
    squares: &Buf<Vec4<f32>>,
    #[when(form.ends == Ends::Sum)]
    #[len(p.rows * (p.m / 4))]
    residual: &Buf<Vec4<f32>>,
    #[weight]
    #[when(form.ends == Ends::Sum)]
    #[len(p.m / 4)]
    gain: &Buf<Vec4<f32>>,
    #[when(form.ends != Ends::Blocks)]
    #[len(p.rows * p.stride)]
    y: &BufMut<f32>,
    #[when(form.ends != Ends::Rows)]
    #[len(p.rows * (p.m / BLOCK) * FIELDS * 4)]
    packed: &BufMut<u32>,
    #[when(form.ends == Ends::Sum)]
    #[len(p.rows * (p.m / BLOCK))]
    parts: &BufMut<f32>,
    #[push] p: GemvPush,
    #[comptime] planes: Planes,
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
    let (lane, own_row) = own_rows(comptime!(t));
    let row = first_row(own_row, p.m, comptime!(t));
    let per_row = if comptime!(t.rounds > 0) { comptime!(t.rounds * t.lanes) } else { p.k / F::UNIT };
    // Those of a single row are there before its sums are.
    let early = if comptime!(form.late && t.cols == 1) {
        late_first(&squares, x_row(step_row, r0, comptime!(0), p, comptime!(form)), p.k)
    } else {
        splat::<Vec4<f32>>(0.0)
    };
    let n_sums = comptime!(t.sums());
    let mut gate = [0.0; n_sums];
    let mut up = [0.0; n_sums];
    let tensors = comptime!(tensors::<F>(w, v, p.units, form, t));
    let rows = comptime!(Rows {
        starts: (0..if t.rounds > 0 { 1 } else { t.rows })
            .map(|a| own_start(row, a, p.m, expert, per_row))
            .collect(),
        x: (0..t.cols).map(|c| x_row(step_row, r0, c, p, form)).collect(),
        per_row,
        lane,
        left: (t.cols > 1).then(|| rows_left(n, r0)),
    });
    let n_words = comptime!(t.kept_words::<F>().max(1));
    let mut kept = [0u32; n_words];
    for s in comptime!(form.stacks()) {
        let sums = comptime!(if s == 0 { gate } else { up });
        let tensor = comptime!(&tensors[s as usize]);
        if comptime!(t.rounds > 0) {
            comptime!(in_steps::<F>(&sums, tensor, &x, &rows, planes, t));
        } else {
            let table = comptime!((s == 0).then(|| tensor.ask_table()));
            for q in comptime!(0..t.ahead) {
                let words = comptime!(Round::new(tensor, &rows, number(q * t.lanes)).words());
                keep(&kept, &words, comptime!(q));
            }
            // The first rounds are on their way while a table is filled: a driver moves no load behind the subgroup's
            // barrier, where nobody needs to wait.
            if comptime!(t.ahead > 0 && table.is_some() && tensor.has_tables()) {
                subgroup_barrier();
            }
            comptime!(fill_tables(tensor, table));
            for first in (0..per_row).step_by(t.lanes) {
                // Everything that a later round reads is asked for before anything of this one is used.
                let round = comptime!(Round::kept(tensor, &rows, first, words_of(&kept, n_words), t));
                let next = comptime!(Round::new(tensor, &rows, add_step(first, t.ahead * t.lanes)));
                let now = comptime!(if t.ahead == 0 { &next } else { &round });
                // A column of x lives as long as its products: a lane that holds them all has room for little else.
                let nearest = comptime!(rows.column::<F>(x, 0, &now, planes, t));
                comptime!(round_products::<F>(&sums, now, &nearest, x, &rows, planes, t));
                for q in comptime!(1..t.ahead) {
                    move_up(&kept, comptime!(q), comptime!(t.words::<F>()));
                }
                if comptime!(t.ahead > 0) {
                    let words = comptime!(next.words());
                    keep(&kept, &words, comptime!(t.ahead - 1));
                }
            }
        }
    }
    if comptime!(form.late) {
        let n_cols = comptime!(t.cols);
        let mut scales = [0.0; n_cols];
        late_scales(&scales, early, &squares, r0, p, comptime!(t), comptime!(form));
        for c in comptime!(0..t.cols) {
            for j in comptime!(c * t.rows..(c + 1) * t.rows) {
                gate[j] *= scales[c];
                if comptime!(form.glu.is_some()) {
                    up[j] *= scales[c];
                }
            }
        }
    }
    if comptime!(form.ends == Ends::Rows) {
        store(&gate, &up, row, own_row, r0, n, &bias, &y, p, comptime!(t), comptime!(form));
    } else {
        store_block(&gate, &up, r0, &residual, &gain, &y, &packed, &parts, p, comptime!(t), comptime!(form));
    }
}

#[device]
fn add_step(first: u32, #[comptime] more: u32) -> u32 {
    first + more
}

/// Brings a tensor's tables to workgroup memory, where they were asked for.
#[track_caller]
fn fill_tables(tensor: &Tensor, asked: Option<AskedTables>) {
    if let Some(asked) = asked {
        tensor.fill_table_with(&asked);
    }
}

/// All that a lane does where it knows its rounds, in steps: `walk` rows of a round, or everything.
///
/// Nobody needs to wait at the subgroup's barriers, but a driver moves no load behind them: without them, it keeps few on
/// their way to save registers. Where a table is filled, that barrier is enough, and others cost 3 to 15 %.
#[track_caller]
fn in_steps<F: PackedFormat>(
    sums: &PlaceArray<f32, Local>,
    tensor: &Tensor,
    x: &Buf<Vec4<u32>>,
    rows: &Rows,
    planes: Planes,
    t: Tile,
) {
    let each = if t.walk == 0 { t.rows } else { t.walk };
    let per_round = t.rows / each;
    let steps = t.rounds * per_round;
    let ahead = if t.walk == 0 { steps } else { t.ahead.max(1) };
    // A table is asked for first: what is asked for later may come no sooner.
    let asked = tensor.ask_table();
    let filled = if fills_early::<F>(t) { 0 } else { ahead };
    let (mut rounds, mut columns) = (Vec::new(), Vec::new());
    for step in 0..steps + ahead {
        if step < steps {
            let first = step % per_round * each;
            let round = Round::whole(rows, step / per_round * t.lanes, first);
            // x before W: it is nearer, and does not wait for the number of an expert.
            if first == 0 {
                columns.push(rows.column::<F>(x, 0, &round, planes, t));
            }
            rounds.push(round.with_units(tensor, rows, each, t));
        }
        // What was asked for is on its way meanwhile.
        if step == filled {
            tensor.fill_table_with(&asked);
        }
        if step >= ahead {
            if !tensor.has_tables() && (step < steps || step == ahead) {
                subgroup_barrier();
            }
            let now = step - ahead;
            let (round, column) = (&rounds[now as usize], &columns[(now / per_round) as usize]);
            round_products::<F>(sums, round, column, x, rows, planes, t);
        }
    }
}

/// Whether a table is filled as soon as a lane's first step is asked for, not all that are ahead: where entries are of two
/// words and a lane has few rows. It was measured to lose elsewhere.
fn fills_early<F: PackedFormat>(t: Tile) -> bool {
    t.walk > 0 && t.rows <= HELD_ROWS && F::PLANES.iter().any(|plane| plane.is_table() && plane.entry > 1)
}

impl Rows {
    /// What a round meets of row `c` of x.
    #[track_caller]
    pub(super) fn column<F: PackedFormat>(
        &self,
        x: &Buf<Vec4<u32>>,
        c: u32,
        round: &Round,
        planes: Planes,
        t: Tile,
    ) -> Column {
        let known = (t.rounds > 0).then_some((t.rounds * t.lanes, round.behind));
        Column::new::<F>(x, self.x[c as usize], (self.per_row, known), round.index, planes)
    }
}

/// The units of one round, a lane's of each row from the first on, loaded.
pub(super) struct Round {
    index: Ex<u32>,
    /// Units from there to the round's.
    behind: u32,
    pub(super) first_row: u32,
    /// Whether the lane's units count, where some may not.
    pub(super) counts: Option<Ex<bool>>,
    pub(super) units: Vec<Unit>,
}

impl Round {
    /// The round whose first unit is `first`, its words asked for.
    #[track_caller]
    fn new(w: &Tensor, own: &Rows, first: Ex<u32>) -> Self {
        let (index, counts) = own_index(first, own.lane, own.per_row);
        let units = asked(w, &own.starts, index);
        Round { index, behind: 0, first_row: 0, counts: Some(counts), units }
    }

    /// The round of some rows, from `first_row` on, where every lane has a unit, and its first is `behind` of a row: not yet
    /// loaded.
    fn whole(own: &Rows, behind: u32, first_row: u32) -> Self {
        Round { index: own.lane, behind, first_row, counts: None, units: Vec::new() }
    }

    /// The same with the units of so many rows loaded.
    #[track_caller]
    fn with_units(self, w: &Tensor, own: &Rows, rows: u32, t: Tile) -> Self {
        let behind = |row| row * t.rounds * t.lanes + self.behind;
        let unit = |row| w.unit_of_row(own.starts[0], own.lane).behind(behind(row)).load();
        Round { units: (self.first_row..self.first_row + rows).map(unit).collect(), ..self }
    }

    /// The same, its words asked for earlier.
    #[track_caller]
    fn kept(w: &Tensor, own: &Rows, first: Ex<u32>, words: Vec<Ex<u32>>, t: Tile) -> Self {
        let (index, counts) = own_index(first, own.lane, own.per_row);
        let n = words.len() / t.ahead.max(1) as usize;
        let units = arrived(w, &own.starts, index, &words[..n], 0..own.starts.len());
        Round { index, behind: 0, first_row: 0, counts: Some(counts), units }
    }

    fn words(&self) -> Words {
        Words::of(&self.units)
    }
}

/// Moves the words of the `q`-th round ahead to the place before it.
#[device]
fn move_up(kept: &PlaceArray<u32, Local>, #[comptime] q: u32, #[comptime] n: u32) {
    for i in comptime!(0..n) {
        kept[(q - 1) * n + i] = kept[q * n + i];
    }
}

impl<'a> Read for &'a Round {
    type Out = &'a Round;
    fn read(&self) -> &'a Round {
        self
    }
}

/// The unit of a lane in a round, and whether it counts: past the end of the row, the last one again does not.
#[device]
fn own_index(first: u32, lane: u32, per_row: u32) -> (u32, bool) {
    let i = first + lane;
    (min(i, per_row - 1), i < per_row)
}
