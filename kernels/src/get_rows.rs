//! `y[r, j] = W[token(r), j]`, W in any format.
//!
//! Shapes: W `[m, k]` in planes, rows `first..first + m` of the table; y `[rows, k]` f32. A row whose token lies in
//! another piece of the table is left as it is. An invocation owns four elements of a row.
//! Traffic: a row of W read and 4 bytes per output written, memory-bound. Numerics: decoding only: the host's
//! values, but for the sign of a zero.

use kiln_abi::{BufferRange, Kernel};
use kiln_dsl::prelude::*;

use crate::{
    Call, Format, Variant,
    arms::tensor_words,
    conformance::{Buffer, Case, Expected, Random, random_blocks, u32_bytes},
    formats::layout,
    step::{StepRow, n_rows, row_token, step_block},
};

/// Push constants of `get_rows`.
#[derive(Clone, Copy, Debug, Push)]
pub struct GetRowsPush {
    /// Rows the command has room for.
    pub rows: u32,
    /// First row of the table in this piece.
    pub first: u32,
    /// Rows of the table in this piece.
    pub m: u32,
    /// Elements of a row.
    pub k: u32,
}

const LOCAL_SIZE: u32 = 64;

/// The kernel.
#[kernel(local_size = LOCAL_SIZE, grid = [(p.k / 4).div_ceil(LOCAL_SIZE), p.rows])]
pub fn get_rows<F: TensorFormat>(
    #[weight]
    #[len(tensor_words::<F>(p.m * (p.k / F::UNIT)))]
    w: &Buf<u32>,
    #[len(4 + 4 * p.rows)] step: &Buf<u32>,
    #[len(p.rows * (p.k / 4))] y: &BufMut<Vec4<f32>>,
    #[push] p: GetRowsPush,
) {
    let r = workgroup_id_y();
    let four = global_id_x();
    let units = p.m * (p.k / F::UNIT);
    if r < n_rows(&step) && four < p.k / 4 {
        let token = row_token(&step, r);
        if token >= p.first && token - p.first < p.m {
            let per_row = p.k / F::UNIT;
            let tensor = comptime!(Tensor::new::<F>(w, units));
            let index = (token - p.first) * per_row + four / (F::UNIT / 4);
            let unit = comptime!(tensor.unit(index));
            y[r * (p.k / 4) + four] = F::decode4(&unit, (four % (F::UNIT / 4)) * 4);
        }
    }
}

/// What a launch reads and writes.
#[derive(Clone, Copy, Debug)]
pub struct GetRowsOperands {
    /// Blocks of W.
    pub w: BufferRange,
    /// The step block.
    pub step: BufferRange,
    /// Rows of y.
    pub y: BufferRange,
}

/// A launch.
pub fn call<F: Format>(operands: GetRowsOperands, p: GetRowsPush) -> Call {
    let GetRowsOperands { w, step, y } = operands;
    Call::new(GetRows::<F>::new(), &GetRowsArgs { w: w.into(), step: step.into(), y: y.into(), p })
}

/// The variants of one format.
pub fn variants<F: Format>() -> Vec<Variant> {
    let cases = || {
        let k = F::BLK.max(F::UNIT);
        vec![case::<F>(k, 0, 3), case::<F>(3 * k, 5, 17)]
    };
    vec![Variant::new("get_rows", GetRows::<F>::new(), cases).on(F::NAME, "float")]
}

fn case<F: Format>(k: u32, first: u32, m: u32) -> Case {
    let mut random = Random::new(u64::from(k) << 32 | u64::from(m));
    let (blocks, w) = random_blocks::<F>(&mut random, (m * k) as usize);
    // First and last row of the piece, one twice; one row more than there is room for would not be read.
    let tokens = [first, first + m - 1, first + 1, first];
    let rows: Vec<_> = tokens.iter().map(|&token| StepRow { token, position: 0, slot: 0 }).collect();
    let capacity = 4;
    let line = |t: &u32| &w[((t - first) * k) as usize..((t - first + 1) * k) as usize];
    let values: Vec<f32> = tokens.iter().flat_map(line).copied().collect();
    Case {
        name: format!("k = {k}, first = {first}, m = {m}"),
        buffers: vec![
            Buffer::Input(layout::pack::<F>(&blocks)),
            Buffer::Input(u32_bytes(&step_block(&rows, &[], capacity))),
            Buffer::Output(4 * values.len()),
        ],
        expected: vec![Expected::equal(2, &values)],
        bind: Box::new(move |r| {
            let p = GetRowsPush { rows: capacity, first, m, k };
            GetRows::<F>::new().bind(&GetRowsArgs { w: r[0].into(), step: r[1].into(), y: r[2].into(), p })
        }),
    }
}
