//! `y[r, first + i] = Σ_j W[i, j] · x[r, j]`, W in a packed format, x in blocks of integers: the dot4 arm.
//!
//! Per group of W, with `w = s · q + o` and `x = d · (256 · hi + lo)`: `s · d · (256 · Σ q hi + Σ q lo) + o · d · Σ x`.
//! Where x has one plane of bytes, hi is zero.
//! Shapes: W `[m, k]` in planes, of each expert; x `[rows, k]` in blocks (see `activations.rs`), y `[rows, stride]` f32.
//! Who owns what: see [`Tile`]; lane j of a row takes units j, j + lanes, ...
//! Traffic: a row of W per `cols` outputs, memory-bound.
//! Numerics: the integer sums are exact; a group adds one rounded product and, with offsets, one more. The order of
//! the sum over groups depends on (k, lanes) alone.

use kiln_dsl::prelude::*;

use super::{Form, GemvPush, Tile, own_rows, row_start, store, tensor_words, tensors, x_row};
use crate::{activations::Planes, step::n_rows};

/// The kernel.
#[kernel(
    local_size = t.local,
    subgroup = t.subgroup,
    invocations = t.local.max(256),
    workgroup_bytes = t.workgroup_bytes::<F>(),
    grid = [p.m.div_ceil(t.workgroup_rows()), p.rows.div_ceil(t.cols)],
)]
pub fn gemv_dot4<F: PackedFormat>(
    #[weight]
    #[len(tensor_words::<F>(p.units))]
    w: &Buf<u32>,
    #[weight]
    #[when(form.glu.is_some())]
    #[len(tensor_words::<F>(p.units))]
    v: &Buf<u32>,
    #[len(p.rows / p.sharing * (p.k / F::UNIT) * planes.fields())] x: &Buf<Vec4<u32>>,
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
    #[comptime] planes: Planes,
    #[comptime] t: Tile,
    #[comptime] form: Form,
) {
    let r0 = workgroup_id_y() * t.cols;
    let n = n_rows(&step) * p.used;
    // Asked for before anything waits.
    let expert = if comptime!(form.experts) { ids[r0] } else { 0 };
    // A single row is there in every step: nobody waits for the count.
    if comptime!(t.cols > 1 || form.experts) {
        if r0 >= n {
            return;
        }
    }
    let (lane, row) = own_rows(comptime!(t));
    let per_row = p.k / F::UNIT;
    let n_sums = comptime!(t.sums());
    let mut gate = [0.0; n_sums];
    let mut up = [0.0; n_sums];
    let tensors = comptime!(tensors::<F>(w, v, p.units, form, t));
    let rows = comptime!(Rows {
        starts: (0..t.rows).map(|a| own_start(row, a, p.m, expert, per_row)).collect(),
        x: (0..t.cols).map(|c| x_row(r0, c, p, form)).collect(),
        per_row,
        lane,
    });
    // Where a table is filled first, the first round's units are on their way meanwhile; with several columns it is
    // the products that take long.
    let early =
        comptime!((t.cols == 1 && has_table::<F>()).then(|| Round::new(&tensors[0], &rows, number(0), t)));
    comptime!(tensors[0].fill_table());
    for s in comptime!(form.stacks()) {
        let sums = comptime!(if s == 0 { gate } else { up });
        let (tensor, early) = comptime!((&tensors[s as usize], early.as_ref().filter(|_| s == 0)));
        if comptime!(early.is_some()) {
            let round = comptime!(early.unwrap_or_else(|| unreachable!()));
            round_products::<F>(&sums, &round, 0, &x, &rows, comptime!(planes), comptime!(t));
        }
        let begun = comptime!(if early.is_some() { t.lanes * t.ahead } else { 0 });
        for first in (begun..per_row).step_by(t.lanes * t.ahead) {
            // Everything that the round reads is asked for before any of it is used.
            let round = comptime!(Round::new(tensor, &rows, first, t));
            round_products::<F>(&sums, &round, first, &x, &rows, comptime!(planes), comptime!(t));
        }
    }
    store(&gate, &up, row, r0, n, &bias, &y, p, comptime!(t), comptime!(form));
}

/// Whether a format has a table.
fn has_table<F: TensorFormat>() -> bool {
    F::PLANES.last().is_some_and(|plane| plane.units == 0)
}

/// Adds the products of a round, whose first step is unit `first`, to the sums.
#[device]
fn round_products<F: PackedFormat>(
    sums: &PlaceArray<f32, Local>,
    round: &Round,
    first: u32,
    x: &Buf<Vec4<u32>>,
    rows: &Rows,
    #[comptime] planes: Planes,
    #[comptime] t: Tile,
) {
    for h in comptime!(0..t.ahead) {
        let i = round.index(comptime!(h));
        let counts = first + h * t.lanes + rows.lane() < rows.per_row();
        let columns = comptime!(columns(x, rows, i, planes));
        for a in comptime!(0..t.rows) {
            let weights = comptime!(Weights::of::<F>(round.unit(h, a)));
            for c in comptime!(0..t.cols) {
                let column = comptime!(&columns[c as usize]);
                let product = unit_product::<F>(&weights, column);
                let j = comptime!(c * t.rows + a);
                sums[j] += select(counts, product, 0.0);
            }
        }
    }
}

/// What a lane works on: the first unit of each row of W, the rows of x, the units of a row, and its number.
struct Rows {
    starts: Vec<Ex<u32>>,
    x: Vec<Ex<u32>>,
    per_row: Ex<u32>,
    lane: Ex<u32>,
}

impl Rows {
    fn lane(&self) -> Ex<u32> {
        self.lane
    }

    fn per_row(&self) -> Ex<u32> {
        self.per_row
    }
}

impl<'a> Read for &'a Rows {
    type Out = &'a Rows;
    fn read(&self) -> &'a Rows {
        self
    }
}

#[device]
fn own_start(row: u32, #[comptime] a: u32, m: u32, expert: u32, per_row: u32) -> u32 {
    row_start(row + a, m, expert, per_row)
}

/// The units of one round, loaded: of `ahead` steps and `rows` rows.
struct Round {
    index: Vec<Ex<u32>>,
    units: Vec<Vec<Unit>>,
}

impl Round {
    #[track_caller]
    fn new(w: &Tensor, own: &Rows, first: Ex<u32>, t: Tile) -> Self {
        let (mut index, mut units) = (Vec::new(), Vec::new());
        for h in 0..t.ahead {
            let i = step_index(first, h, t.lanes, own.lane, own.per_row);
            let mut rows = Vec::new();
            for start in &own.starts {
                rows.push(w.unit(kiln_dsl::ops::add(*start, i)).load());
            }
            index.push(i);
            units.push(rows);
        }
        Round { index, units }
    }

    fn index(&self, h: u32) -> Ex<u32> {
        self.index[h as usize]
    }

    fn unit(&self, h: u32, a: u32) -> &Unit {
        &self.units[h as usize][a as usize]
    }
}

impl<'a> Read for &'a Round {
    type Out = &'a Round;
    fn read(&self) -> &'a Round {
        self
    }
}

/// The unit of a lane's step `h`; past the end of the row, the last one again: it does not count.
#[device]
fn step_index(first: u32, #[comptime] h: u32, #[comptime] lanes: u32, lane: u32, per_row: u32) -> u32 {
    min(first + h * lanes + lane, per_row - 1)
}

/// A unit of W ready to multiply.
struct Weights {
    lanes: Vec<Ex<u32>>,
    scales: Vec<(Ex<f32>, Ex<f32>)>,
}

impl Weights {
    #[track_caller]
    fn of<F: PackedFormat>(unit: &Unit) -> Self {
        let (mut lanes, mut scales) = (Vec::new(), Vec::new());
        for pack in 0..F::UNIT / 4 {
            lanes.push(F::lanes(unit, number(pack)));
        }
        for group in 0..F::UNIT / F::GROUP {
            scales.push(F::scale_offset(unit, number(group)));
        }
        Weights { lanes, scales }
    }

    fn lanes(&self, pack: u32) -> Ex<u32> {
        self.lanes[pack as usize]
    }

    fn scale(&self, group: u32) -> Ex<f32> {
        self.scales[group as usize].0
    }

    fn offset(&self, group: u32) -> Ex<f32> {
        self.scales[group as usize].1
    }
}

impl<'a> Read for &'a Weights {
    type Out = &'a Weights;
    fn read(&self) -> &'a Weights {
        self
    }
}

#[track_caller]
fn number(n: u32) -> Ex<u32> {
    n.read()
}

/// A block of x: its words, hi before lo, and its scale with the sums of its halves.
struct Column {
    words: Vec<Ex<Vec4<u32>>>,
    planes: Planes,
}

impl Column {
    fn planes(&self) -> Planes {
        self.planes
    }

    fn word(&self, plane: u32, pack: u32) -> Ex<u32> {
        let four = self.words[(2 * plane + pack / 4) as usize];
        match pack % 4 {
            0 => four.x(),
            1 => four.y(),
            2 => four.z(),
            _ => four.w(),
        }
    }

    fn field(&self, i: u32) -> Ex<f32> {
        let four = self.words[2 * self.planes.count() as usize];
        let word = match i {
            0 => four.x(),
            1 => four.y(),
            _ => four.z(),
        };
        bitcast::<f32, u32>(word)
    }
}

impl<'a> Read for &'a Column {
    type Out = &'a Column;
    fn read(&self) -> &'a Column {
        self
    }
}

/// Block `i` of each row of x.
#[track_caller]
fn columns(x: &Buf<Vec4<u32>>, rows: &Rows, i: Ex<u32>, planes: Planes) -> Vec<Column> {
    let mut columns = Vec::new();
    for row in &rows.x {
        let mut words = Vec::new();
        for field in 0..planes.fields() {
            words.push(x_word(x, *row, field, rows.per_row, i, planes.fields()));
        }
        columns.push(Column { words, planes });
    }
    columns
}

#[device]
fn x_word(
    x: &Buf<Vec4<u32>>,
    row: u32,
    #[comptime] field: u32,
    per_row: u32,
    i: u32,
    #[comptime] fields: u32,
) -> Vec4<u32> {
    x[(row * fields + field) * per_row + i]
}

/// The product of a unit of W and a block of x.
#[device]
fn unit_product<F: PackedFormat>(w: &Weights, x: &Column) -> f32 {
    let mut sum = 0.0;
    for group in comptime!(0..F::UNIT / F::GROUP) {
        let mut hi = 0;
        let mut lo = 0;
        let last = comptime!(x.planes().count() - 1);
        for pack in comptime!(group * F::GROUP / 4..(group + 1) * F::GROUP / 4) {
            let q = w.lanes(comptime!(pack));
            lo = dot4_i8_acc(q, x.word(comptime!(last), comptime!(pack)), lo);
            if comptime!(last > 0) {
                hi = dot4_i8_acc(q, x.word(comptime!(0), comptime!(pack)), hi);
            }
        }
        // The size of x first: a product of the two scales may be too small for a number.
        let whole = if comptime!(last > 0) { hi * 256 + lo } else { lo };
        let inner = whole as f32 * x.field(comptime!(0));
        sum = fma(inner, w.scale(comptime!(group)), sum);
        if comptime!(F::OFFSET && F::GROUP == 16) {
            sum = fma(w.offset(comptime!(group)), x.field(comptime!(1 + group)), sum);
        }
    }
    if comptime!(F::OFFSET && F::GROUP == 32) {
        sum = fma(w.offset(comptime!(0)), x.field(comptime!(1)) + x.field(comptime!(2)), sum);
    }
    sum
}
