//! The role gemv: `y[r, first + i] = Σ_j W[i, j] · x[r, j]` for the rows of a step, and its per-expert form.
//!
//! The arms multiply (`arms/`); here is what a launch binds, which arm and tile a shape takes, and the cases.

mod choice;

use kiln_abi::{BufferRange, Kernel};
use kiln_dsl::prelude::PackedFormat;

pub(crate) use self::choice::SUBGROUP;
use self::choice::{COLS, LANES};
pub use self::choice::{Traits, choose, of_block, subgroup, tiles};
pub use crate::arms::{Activation, Ends, Form, GemvPush, Tile, ends::LATE};
use crate::{
    Call, Format, Variant,
    activations::{self, BLOCK, Planes},
    arms::{
        dot4::{GemvDot4, GemvDot4Args},
        float::{Gemv, GemvArgs},
    },
    conformance::{Buffer, Case, Content, Expected, Random, SENTINEL, f32_bytes, random_blocks, u32_bytes},
    formats::layout,
    late_norm::late,
    offset_each, reference,
    step::{StepRow, step_block},
};

/// What a launch reads and writes.
#[derive(Clone, Copy, Debug)]
pub struct GemvOperands {
    /// W.
    pub w: BufferRange,
    /// V, where the form has two.
    pub v: Option<BufferRange>,
    /// Rows of x: f32 or blocks, as the arm takes them.
    pub x: BufferRange,
    /// The step block.
    pub step: BufferRange,
    /// The expert of each row of y, where there are several.
    pub ids: Option<BufferRange>,
    /// The bias.
    pub bias: Option<BufferRange>,
    /// Sums of squares of x, where the scale of its rows comes late.
    pub late: Option<BufferRange>,
    /// Rows of y; where the form ends with blocks, these.
    pub y: BufferRange,
    /// What a form that ends with a sum has beside y.
    pub sum: Option<SumOperands>,
}

/// What a sum is made of, and what it is left as beside its rows.
#[derive(Clone, Copy, Debug)]
pub struct SumOperands {
    /// The other rows.
    pub residual: BufferRange,
    /// The gain of the norm.
    pub gain: BufferRange,
    /// Blocks of the sum under the gain.
    pub packed: BufferRange,
    /// Sums of squares.
    pub squares: BufferRange,
}

/// A way to multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arm {
    /// Weights become f32, rows of x are f32.
    Float,
    /// Packed bytes times blocks of integers.
    Dot4(Planes),
}

impl Arm {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Arm::Float => "float",
            Arm::Dot4(Planes::Two) => "dot4",
            Arm::Dot4(Planes::One) => "dot4_int8",
        }
    }
}

/// The arm and tile for a shape, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The arm.
    pub arm: Arm,
    /// Its tile.
    pub tile: Tile,
    /// Why that arm, for people.
    pub why: &'static str,
    /// And how it multiplies.
    pub how: String,
}

impl Choice {
    /// A sentence for people.
    pub fn reason(&self) -> String {
        format!("{}; {}", self.why, self.how)
    }
}

/// What a choice depends on beside the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Rows of y at most.
    pub rows: u32,
    /// Rows of W.
    pub m: u32,
    /// Columns of W.
    pub k: u32,
    /// Whether rows of y name experts.
    pub experts: bool,
    /// How exact x is.
    pub exact: Exact,
}

/// How exact rows of x are where they meet W.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exact {
    /// f32, and with that the float arm.
    Float,
    /// Two bytes an element where they are packed: the class f16.
    Two,
    /// One byte an element where they are packed: the class int8.
    One,
}

/// Every form that a model uses on every arm.
pub fn forms() -> Vec<Form> {
    let plain = Form::default();
    vec![
        plain,
        Form { bias: true, ..plain },
        Form { add: true, ..plain },
        Form { glu: Some(Activation::Silu), ..plain },
        Form { glu: Some(Activation::Gelu), ..plain },
        Form { experts: true, ..plain },
        Form { experts: true, glu: Some(Activation::Silu), ..plain },
    ]
}

/// Every form that a model uses on packed weights of two planes alone.
pub fn late_forms() -> Vec<Form> {
    let late = Form { late: true, ..Form::default() };
    let silu = Some(Activation::Silu);
    vec![
        late,
        Form { bias: true, ..late },
        Form { glu: silu, ..late },
        Form { glu: silu, ends: Ends::Blocks, ..late },
        Form { glu: Some(Activation::Gelu), ends: Ends::Blocks, ..Form::default() },
        Form { ends: Ends::Sum, ..Form::default() },
    ]
}

/// The arms of a format: how each is launched, and its variants.
#[derive(Clone, Copy, Debug)]
pub struct Arms {
    float: Launch,
    packed: Option<[Launch; 2]>,
    group: u32,
    offset: bool,
    cases: fn() -> Vec<Variant>,
}

/// A launch of a tile in a form.
pub type Launch = fn(GemvOperands, GemvPush, Tile, Form) -> Call;

impl Arms {
    /// A format that only decodes.
    pub fn plain<F: Format>() -> Self {
        Arms {
            float: float::<F>,
            packed: None,
            group: 0,
            offset: false,
            cases: || variants::<F, _>(Arm::Float, float::<F>, Gemv::<F>::new),
        }
    }

    /// A format with packed lanes.
    pub fn packed<F: Format + PackedFormat>() -> Self {
        const {
            assert!(F::GROUP == 16 || F::GROUP == 32, "`GROUP`, elements that share a scale, is 16 or 32");
            assert!(
                F::UNIT == 32 || F::UNIT == 64,
                "`UNIT` of a packed format is 32 or 64: blocks of x are 32"
            );
            assert!(
                F::OFFSET || F::CENTER.is_none(),
                "`CENTER` says what offsets are, and `OFFSET` that there are none"
            );
        }
        let all = || {
            let on = |planes, launch| {
                variants::<F, _>(Arm::Dot4(planes), launch, move |t, form| {
                    GemvDot4::<F>::new(planes, t, form)
                })
            };
            let float = variants::<F, _>(Arm::Float, float::<F>, Gemv::<F>::new);
            let (one, two) = (on(Planes::One, one_plane::<F>), on(Planes::Two, two_planes::<F>));
            [offset_each::variants::<F>(), float, one, two].concat()
        };
        let packed = Some([one_plane::<F>, two_planes::<F>]);
        Arms { float: float::<F>, packed, group: F::GROUP, offset: F::OFFSET, cases: all }
    }

    /// Whether it has packed lanes.
    pub fn is_packed(&self) -> bool {
        self.packed.is_some()
    }

    /// Elements that share a scale of packed lanes, `PackedFormat::GROUP`; 0 without.
    pub fn group(&self) -> u32 {
        self.group
    }

    /// Whether packed lanes come with offsets, as `PackedFormat::OFFSET` says.
    pub fn has_offsets(&self) -> bool {
        self.offset
    }

    /// A launch on an arm; one that the format lacks is the float arm.
    pub fn launch(&self, arm: Arm) -> Launch {
        match (arm, self.packed) {
            (Arm::Dot4(Planes::One), Some([one, _])) => one,
            (Arm::Dot4(Planes::Two), Some([_, two])) => two,
            _ => self.float,
        }
    }

    /// Every variant.
    pub fn variants(&self) -> Vec<Variant> {
        (self.cases)()
    }
}

fn float<F: Format>(o: GemvOperands, p: GemvPush, tile: Tile, form: Form) -> Call {
    debug_assert!(!form.late && form.ends == Ends::Rows, "a form of the packed arms");
    let (x, step, y) = (o.x.into(), o.step.into(), o.y.into());
    let (v, ids, bias) = (o.v.map(Into::into), o.ids.map(Into::into), o.bias.map(Into::into));
    Call::new(Gemv::<F>::new(tile, form), &GemvArgs { w: o.w.into(), v, x, step, ids, bias, y, p })
}

fn one_plane<F: Format + PackedFormat>(o: GemvOperands, p: GemvPush, tile: Tile, form: Form) -> Call {
    dot4::<F>(Planes::One, o, p, tile, form)
}

fn two_planes<F: Format + PackedFormat>(o: GemvOperands, p: GemvPush, tile: Tile, form: Form) -> Call {
    dot4::<F>(Planes::Two, o, p, tile, form)
}

fn dot4<F: Format + PackedFormat>(
    planes: Planes,
    o: GemvOperands,
    p: GemvPush,
    tile: Tile,
    form: Form,
) -> Call {
    let (x, step, y) = (o.x.into(), o.step.into(), o.y.into());
    let (v, ids, bias) = (o.v.map(Into::into), o.ids.map(Into::into), o.bias.map(Into::into));
    let args = GemvDot4Args {
        w: o.w.into(),
        v,
        x,
        step,
        ids,
        bias,
        squares: o.late.map(Into::into),
        residual: o.sum.map(|sum| sum.residual.into()),
        gain: o.sum.map(|sum| sum.gain.into()),
        y: (form.ends != Ends::Blocks).then_some(y),
        packed: if form.ends == Ends::Blocks { Some(o.y.into()) } else { o.sum.map(|sum| sum.packed.into()) },
        parts: o.sum.map(|sum| sum.squares.into()),
        p,
    };
    let tile = tile.for_rows_of(p.m, p.k / F::UNIT, form);
    Call::new(GemvDot4::<F>::new(planes, tile, form), &args)
}

/// The variants of one format on one arm: every tile in the plain form, every other form on one tile.
fn variants<F: Format, K>(arm: Arm, launch: Launch, kernel: impl Fn(Tile, Form) -> K) -> Vec<Variant>
where
    K: Kernel + Send + Sync + 'static,
{
    let (tiles, forms) = (tiles(Traits::of::<F>(), arm), forms());
    let plain = tiles.iter().map(|&tile| (tile, Form::default()));
    let others = forms[1..].iter().flat_map(|&form| {
        let suits = move |t: &&Tile| t.subgroup.is_none() && (!form.experts || t.cols == 1);
        tiles.iter().filter(suits).take(1).map(move |&tile| (tile, form))
    });
    let variant = |(tile, form): (Tile, Form)| {
        let own = move |mut shapes: Vec<(u32, u32, u32)>| {
            // A known number of rounds is for rows of one length, and as many as a lane group has.
            if tile.rounds > 0 {
                let k = tile.lanes * tile.rounds * F::UNIT;
                shapes.iter_mut().for_each(|shape| *shape = (shape.0, shape.1.max(tile.rows), k));
            }
            if form.is_late() { late_shapes::<F>(form) } else { shapes }
        };
        let of = move |shapes: Vec<(u32, u32, u32)>| cases::<F>(arm, launch, (tile, form), own(shapes));
        Variant::lazy("gemv", kernel(tile, form), move || of(shapes::<F>()))
            .with_long(move || of(long_shapes::<F>()))
            .on(F::NAME, arm.name())
            .cut(vec![format!("{tile:?}"), format!("{form:?}")])
    };
    let late = late_forms().into_iter().filter(|_| arm == Arm::Dot4(Planes::Two));
    let late = late.flat_map(|form| late_tiles(&tiles, form).into_iter().map(move |tile| (tile, form)));
    plain.chain(others).chain(late).map(variant).collect()
}

/// The tiles that a late form is checked on: lanes that meet in memory, and lanes of several subgroups; where rows of one
/// matrix are left, several columns too.
fn late_tiles(tiles: &[Tile], form: Form) -> Vec<Tile> {
    let first = |lanes: u32, cols: u32, subgroup: Option<u32>| {
        let is = move |t: &&Tile| (t.lanes, t.cols, t.subgroup) == (lanes, cols, subgroup);
        let tile = tiles.iter().find(is).copied();
        tile.map(|t| if form.ends == Ends::Rows { t } else { t.of_block() })
    };
    let most = tiles.iter().map(|t| t.lanes).max().unwrap_or(LANES[3]).min(LANES[1]);
    let cols = if form.ends == Ends::Rows && form.glu.is_none() { COLS } else { 1 };
    [first(LANES[3], cols, None), first(most, 1, Some(SUBGROUP))].into_iter().flatten().collect()
}

/// Rows of x, rows of W, columns: one and several, whole workgroups and a part of one, one block and many, columns to
/// spare.
fn shapes<F: Format>() -> Vec<(u32, u32, u32)> {
    let k = F::BLK.max(F::UNIT);
    vec![
        (1, 1, k),
        (1, 3, 2 * k),
        (4, 16, 5 * k),
        (2, 17, 256.max(k)),
        (17, 5, 1024_u32.next_multiple_of(k) + k),
    ]
}

/// The same for a late form: columns that the sums of squares divide, more of these than lanes add up at once; whole
/// blocks of rows where blocks are left.
fn late_shapes<F: Format>(form: Form) -> Vec<(u32, u32, u32)> {
    let k = F::BLK.max(F::UNIT).next_multiple_of(LATE);
    let long = (32 * LATE + 1).next_multiple_of(k);
    let m = if form.ends == Ends::Rows { [1, 7, 3] } else { [32, 96, 32] };
    vec![(1, m[0], k), (3, m[1], 2 * k), (1, m[2], long)]
}

/// Every number of rows up to 17, and rows as long as models have.
fn long_shapes<F: Format>() -> Vec<(u32, u32, u32)> {
    let k = F::BLK.max(F::UNIT);
    let counts = (1..=17).map(|n| (n, 18 - n, (1 + n % 4) * k));
    counts.chain([(1, 2, 14336), (9, 3, 4096)]).collect()
}

/// The cases of these shapes, for those whose rows are whole units.
fn cases<F: Format>(
    arm: Arm,
    launch: Launch,
    how: (Tile, Form),
    shapes: Vec<(u32, u32, u32)>,
) -> impl Iterator<Item = Case> {
    let whole = shapes.into_iter().filter(|(_, _, k)| k % F::BLK.max(F::UNIT) == 0);
    whole.map(move |(n, m, k)| case::<F>(arm, launch, how, n, (m, k)))
}

/// Experts of a stack in a case, and how many of them a token uses.
const EXPERTS: (u32, u32) = (3, 2);

fn case<F: Format>(arm: Arm, launch: Launch, (tile, form): (Tile, Form), n: u32, (m, k): (u32, u32)) -> Case {
    let mut random = Random::new(u64::from(m) << 32 | u64::from(k));
    let (experts, used) = if form.experts { EXPERTS } else { (1, 1) };
    // With experts, odd shapes read a row of x for every expert, even ones share it among a token's.
    let sharing = if m % 2 == 0 { used } else { 1 };
    let rows = n * used;
    // Some steps have fewer rows than a launch has room for.
    let there = if form.ends == Ends::Rows && m % 2 == 1 { n - n / 4 } else { n };
    let mut x = random.units((rows / sharing * k) as usize);
    let x_bytes = match arm {
        Arm::Float => f32_bytes(&x),
        Arm::Dot4(planes) => {
            let quantized = |x| activations::quantize_row(planes, x);
            let rows: Vec<_> = x.chunks_exact(k as usize).map(quantized).collect();
            x = rows.iter().flat_map(|r| r.1.clone()).collect();
            rows.iter().flat_map(|r| u32_bytes(&r.0)).collect()
        }
    };
    let mut matrix = || random_blocks::<F>(&mut random, (experts * m * k) as usize);
    let (w, v) = (matrix(), form.glu.map(|_| matrix()));
    // First and last expert, and one twice.
    let ids: Vec<u32> =
        (0..rows).map(|r| [0, experts - 1, experts - 1, 1 % experts][r as usize % 4]).collect();
    let bias = random.units(m as usize);
    // Results land behind `first` in rows of `stride`; what lies between stays as it was.
    let (first, stride) = if form.ends == Ends::Rows { (m % 3, m + m % 5) } else { (0, m) };
    let stride = stride.max(first + m);
    let old = random.units((rows * stride) as usize);
    let own = |i: u32| (first..first + m).contains(&(i % stride));
    let per_lane = (k / F::UNIT).div_ceil(tile.lanes);
    let roundings = tile.lanes.ilog2()
        + 2
        + match arm {
            // A lane's chain of fmas, two levels within it, the tree over the lanes.
            Arm::Float => per_lane * (F::UNIT / 4),
            // The sum of a lane's units; within one the conversion and the products of its groups.
            Arm::Dot4(_) => per_lane + 8,
        };
    let product = |(blocks, values): &(Vec<u8>, Vec<f32>)| {
        let offsets = match arm {
            Arm::Float => vec![0.0; values.len()],
            Arm::Dot4(_) => offsets::<F>(blocks),
        };
        reference::gemv(values, &offsets, &x, reference::Rows { m, k, sharing, ids: &ids }, roundings)
    };
    const EPS: f32 = 1e-3;
    let squares: Vec<f32> =
        random.units((rows * k / BLOCK) as usize).iter().map(|x| 40.0 * x.abs()).collect();
    let product = |w: &(Vec<u8>, Vec<f32>)| match form.late {
        true => reference::late(product(w), m as usize, &squares, k as usize, EPS),
        false => product(w),
    };
    let mut expected = product(&w);
    if let (Some(activation), Some(v)) = (form.glu, &v) {
        expected = reference::gated(&expected, &product(v), activation == Activation::Gelu);
    }
    let (residual, gain) = (random.units((rows * m) as usize), random.units(m as usize));
    if form.bias {
        expected = expected.plus(bias.iter().cycle().copied());
    }
    if form.add {
        let own = (0..rows * stride).filter(|&i| own(i));
        expected = expected.plus(own.map(|i| old[i as usize]));
    }
    let before = |i: u32| if form.add { old[i as usize] } else { SENTINEL };
    let left = match form.ends {
        Ends::Rows => {
            let stored = |i: u32| own(i) && i / stride < there * used;
            vec![expected.spread((0..rows * stride).map(|i| (!stored(i)).then(|| before(i)))).at(0)]
        }
        Ends::Blocks => {
            let bounds = activations::with_steps(&expected.values, &expected.bounds);
            let content = Content::Blocks { k: m as usize, values: expected.values, bounds };
            vec![Expected { binding: 0, content }]
        }
        Ends::Sum => {
            let sum = expected.plus(residual.iter().copied());
            let (content, squares) = late(&sum, &gain);
            vec![sum.at(0), Expected { binding: 1, content }, squares.at(2)]
        }
    };
    let step = step_block(&vec![StepRow { token: 0, position: 0, slot: 0 }; there as usize], &[], n);
    let planes = |(blocks, _): &(Vec<u8>, Vec<f32>)| Buffer::Input(layout::pack::<F>(blocks));
    let mut buffers = vec![planes(&w)];
    buffers.extend(v.as_ref().map(planes));
    buffers.extend([Buffer::Input(x_bytes), Buffer::Input(u32_bytes(&step))]);
    buffers.extend(form.experts.then(|| Buffer::Input(u32_bytes(&ids))));
    buffers.extend(form.bias.then(|| Buffer::Input(f32_bytes(&bias))));
    buffers.extend(form.late.then(|| Buffer::Input(f32_bytes(&squares))));
    let has_sum = form.ends == Ends::Sum;
    if has_sum {
        buffers.extend([&residual, &gain].map(|x| Buffer::Input(f32_bytes(x))));
    }
    let y_at = buffers.len();
    let expected = left.into_iter().map(|e| Expected { binding: e.binding + y_at, ..e }).collect();
    let packed_bytes = usize::try_from(activations::row_bytes(Planes::Two, rows.into(), m)).unwrap_or(0);
    buffers.push(match form.ends {
        Ends::Blocks => Buffer::Output(packed_bytes),
        _ if form.add => Buffer::Changed(f32_bytes(&old)),
        _ => Buffer::Output(4 * old.len()),
    });
    if has_sum {
        buffers.extend([packed_bytes, 4 * (rows * m / BLOCK) as usize].map(Buffer::Output));
    }
    let units = experts * m * (k / F::UNIT);
    let p = GemvPush { rows, m, k, units, first, stride, used, sharing, eps: EPS };
    Case {
        name: format!("n = {there} of {n}, m = {m}, k = {k}"),
        buffers,
        expected,
        bind: Box::new(move |r| {
            let mut ranges = r.iter().copied();
            let mut next = |there: bool| if there { ranges.next() } else { None };
            let some = r[0];
            let operands = GemvOperands {
                w: next(true).unwrap_or(some),
                v: next(form.glu.is_some()),
                x: next(true).unwrap_or(some),
                step: next(true).unwrap_or(some),
                ids: next(form.experts),
                bias: next(form.bias),
                late: next(form.late),
                y: some,
                sum: None,
            };
            let (residual, gain) = (next(has_sum), next(has_sum));
            let y = next(true).unwrap_or(some);
            let (packed, squares) = (next(has_sum), next(has_sum));
            let sum = match (residual, gain, packed, squares) {
                (Some(residual), Some(gain), Some(packed), Some(squares)) => {
                    Some(SumOperands { residual, gain, packed, squares })
                }
                _ => None,
            };
            launch(GemvOperands { y, sum, ..operands }, p, tile, form).args
        }),
    }
}

/// What each element has beside `scale * q`.
pub(crate) fn offsets<F: Format>(blocks: &[u8]) -> Vec<f32> {
    let n_elems = F::GEOMETRY.elements() as usize;
    let of = |block: &[u8]| (0..n_elems).map(|i| F::offset(block, i)).collect::<Vec<_>>();
    blocks.chunks_exact(F::GEOMETRY.bytes() as usize).flat_map(of).collect()
}
