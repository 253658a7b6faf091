//! `y[r, first + i] = Σ_j W[i, j] · x[r, j]` for the rows of a step, W in any format: the float arm.
//!
//! Shapes: W `[m, k]` in blocks, x `[rows, k]` f32, y `[rows, stride]` f32; k is a multiple of the block and of four.
//! A W in several pieces is several launches, each with its `first`.
//! Who owns what: `lanes` invocations own a row of W for `cols` rows of x; lane j takes elements 4j, 4(j + lanes), …
//! four at a time; a tree in workgroup memory folds the lanes' sums.
//! Traffic: a row of W per `cols` outputs, memory-bound.
//! Numerics: weights decoded to f32, one fma per product into four running sums per lane. The order of the sum
//! depends on (k, lanes) alone: every subgroup size and every `cols` gives the same bits.

use kiln_abi::{BufferRange, Kernel};
use kiln_dsl::prelude::*;

use crate::{
    Call, Format, Variant,
    conformance::{Buffer, Case, Random, f32_bytes, random_blocks, u32_bytes},
    fold::fold_columns,
    reference,
    step::{StepRow, n_rows, step_block},
};

/// Push constants of `gemv`.
#[derive(Clone, Copy, Debug, Push)]
pub struct GemvPush {
    /// Rows of x that the command has room for.
    pub rows: u32,
    /// Rows of W in this piece.
    pub m: u32,
    /// Columns of W.
    pub k: u32,
    /// Where the piece's first result goes in a row of y.
    pub first: u32,
    /// Elements of a row of y.
    pub stride: u32,
}

/// Invocations of a workgroup; `lanes` divides it.
pub const LOCAL_SIZE: u32 = 128;

/// The kernel.
#[kernel(local_size = LOCAL_SIZE, grid = [p.m.div_ceil(LOCAL_SIZE / lanes), p.rows.div_ceil(cols)])]
pub fn gemv<F: QuantFormat>(
    #[len(p.m * (p.k / F::BLK))] w: &Buf<F::Block>,
    #[len(p.rows * (p.k / 4))] x: &Buf<Vec4<f32>>,
    #[len(4 + 4 * p.rows)] step: &Buf<u32>,
    #[len(p.rows * p.stride)] y: &BufMut<f32>,
    #[push] p: GemvPush,
    #[comptime] lanes: u32,
    #[comptime] cols: u32,
) {
    let n = n_rows(&step);
    let r0 = workgroup_id_y() * cols;
    if r0 >= n {
        return;
    }
    let t = local_id();
    let lane = t & (lanes - 1);
    let row = workgroup_id_x() * (LOCAL_SIZE / lanes) + t / lanes;
    let fours = p.k / 4;
    let mut acc = [splat::<Vec4<f32>>(0.0); cols];
    if row < p.m {
        let first = row * (p.k / F::BLK);
        for four in (lane..fours).step_by(lanes) {
            let b = &w[first + four / (F::BLK / 4)];
            let v = F::decode4(b, (four % (F::BLK / 4)) * 4);
            for c in comptime!(0..cols) {
                // Past the last row, the last row again: its sum is not stored.
                acc[c] = fma(v, x[min(r0 + c, n - 1) * fours + four], acc[c]);
            }
        }
    }
    let sums = Shared::<f32>::new(LOCAL_SIZE * cols);
    for c in comptime!(0..cols) {
        let own = acc[c];
        sums[c * LOCAL_SIZE + t] = (own.x() + own.y()) + (own.z() + own.w());
    }
    fold_columns(&sums, t, comptime!(lanes), comptime!(cols), comptime!(LOCAL_SIZE));
    if lane == 0 && row < p.m {
        for c in comptime!(0..cols) {
            if r0 + c < n {
                y[(r0 + c) * p.stride + p.first + row] = sums[c * LOCAL_SIZE + t];
            }
        }
    }
}

/// What a launch reads and writes.
#[derive(Clone, Copy, Debug)]
pub struct GemvOperands {
    /// Blocks of W.
    pub w: BufferRange,
    /// Rows of x.
    pub x: BufferRange,
    /// The step block.
    pub step: BufferRange,
    /// Rows of y.
    pub y: BufferRange,
}

/// A launch of the variant that suits the shape.
pub fn call<F: Format>(operands: GemvOperands, p: GemvPush) -> Call {
    let GemvOperands { w, x, step, y } = operands;
    let (w, x, step, y) = (w.into(), x.into(), step.into(), y.into());
    let (lanes, cols) = variant_for(p.rows, p.k);
    Call::new(Gemv::<F>::new(lanes, cols), &GemvArgs { w, x, step, y, p })
}

/// Rows below this many elements are too short for a whole subgroup's lanes.
const SHORT_ROW: u32 = 2048;
/// Columns at once, where there is more than one.
const COLS: u32 = 8;

/// Lanes and columns for rows of `k` elements and up to `rows` rows of x. Rows of one length get the same lanes
/// whatever `rows` is, so that a row's result does not depend on what shares its step.
const fn variant_for(rows: u32, k: u32) -> (u32, u32) {
    let lanes = if k < SHORT_ROW { 8 } else { 32 };
    (lanes, if rows == 1 { 1 } else { COLS })
}

/// Every (lanes, columns) that [`variant_for`] gives.
const SHAPES: [(u32, u32); 4] = [(8, 1), (8, COLS), (32, 1), (32, COLS)];

/// The variants of one format.
pub fn variants<F: Format>() -> Vec<Variant> {
    let variant = |(lanes, cols)| {
        let cases = move || cases::<F>(lanes, cols);
        Variant::new("gemv", Gemv::<F>::new(lanes, cols), cases).on(F::NAME, "float")
    };
    SHAPES.map(variant).into()
}

/// One row and several, whole workgroups and a part of one, one block and many, columns to spare.
fn cases<F: Format>(lanes: u32, cols: u32) -> Vec<Case> {
    let k = F::GEOMETRY.elements().next_multiple_of(4);
    let shapes = [(1, 1, k), (1, 3, 2 * k), (4, 16, 5 * k), (2, 17, 64.max(k)), (7, 5, 1024 + k)];
    shapes.map(|(n, m, k)| case::<F>((lanes, cols), n, (m, k))).into()
}

fn case<F: Format>((lanes, cols): (u32, u32), n: u32, (m, k): (u32, u32)) -> Case {
    let mut random = Random::new(u64::from(m) << 32 | u64::from(k));
    let x = random.units((n * k) as usize);
    let (blocks, w) = random_blocks::<F>(&mut random, (m * k) as usize);
    // A lane's chain of fmas, two levels within it, the tree over the lanes.
    let roundings = (k / 4).div_ceil(lanes) + 2 + lanes.ilog2();
    let rows = vec![StepRow { token: 0, position: 0, slot: 0 }; n as usize];
    Case {
        name: format!("n = {n}, m = {m}, k = {k}"),
        buffers: vec![
            Buffer::Input(blocks),
            Buffer::Input(f32_bytes(&x)),
            Buffer::Input(u32_bytes(&step_block(&rows, &[], n))),
            Buffer::Output(4 * (n * m) as usize),
        ],
        expected: vec![reference::gemv(&w, &x, k as usize, roundings).at(3)],
        bind: Box::new(move |r| {
            let p = GemvPush { rows: n, m, k, first: 0, stride: m };
            let (w, x, step, y) = (r[0].into(), r[1].into(), r[2].into(), r[3].into());
            Gemv::<F>::new(lanes, cols).bind(&GemvArgs { w, x, step, y, p })
        }),
    }
}
