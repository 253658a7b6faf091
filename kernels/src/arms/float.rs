//! `y[r, first + i] = Σ_j W[i, j] · x[r, j]` for the rows of a step, W in any format: the float arm.
//!
//! Shapes: W `[m, k]` in planes, of each expert; x `[rows, k]` f32, y `[rows, stride]` f32; k is a multiple of the block and the unit.
//! Who owns what: see [`Tile`]; lane j of a row takes units j, j + lanes, ...
//! Traffic: a row of W per `cols` outputs, memory-bound.
//! Numerics: weights decoded to f32, one fma per product into four running sums per lane. The order of the sum
//! depends on (k, lanes) alone: every subgroup size, `rows` and `cols` give the same bits.

use kiln_dsl::prelude::*;

use super::{Form, GemvPush, Tile, own_results, own_rows, row_start, store, tensor_words, tensors, x_row};
use crate::step::n_rows;

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
    for s in comptime!(form.stacks()) {
        let tensor = comptime!(&tensors[s as usize]);
        let mut acc = [splat::<Vec4<f32>>(0.0); n_sums];
        for i in (lane..per_row).step_by(t.lanes) {
            for a in comptime!(0..t.rows) {
                let start = row_start(row + a, p.m, expert, per_row);
                let unit = comptime!(tensor.unit_of_row(start, i).load());
                for four in comptime!(0..F::UNIT / 4) {
                    let weights = F::decode4(&unit, four * 4);
                    for c in comptime!(0..t.cols) {
                        // Past the last row, the last row again: its sum is not stored.
                        let x_row = x_row(step_row, r0, comptime!(c), p, comptime!(form));
                        let j = comptime!(c * t.rows + a);
                        acc[j] = fma(weights, x[(x_row * per_row + i) * (F::UNIT / 4) + four], acc[j]);
                    }
                }
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
