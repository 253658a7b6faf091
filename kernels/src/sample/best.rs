//! `best[o, c] = max` over chunk c of output o of its logits after penalties, as integers of the same order.
//!
//! Shapes: x `[outputs, n]` f32, samplers `[n_slots, 144]`, best `[outputs, 256]` and counts `[outputs]` u32: the count
//! of what the next kernel gathers starts at 0 here. A workgroup owns a chunk of an output. Traffic: 4 bytes per logit,
//! memory-bound. Numerics: a multiplication and a subtraction where there is a penalty, else exact.

use kiln_dsl::prelude::*;

use super::{
    BROKEN, LOCAL_SIZE, MAX_CHUNKS, PENALTY_WINDOW, SAMPLER_WORDS, fold_best, load_recent, ordered, penalized,
};
use crate::step::{n_outputs, output_row, row_position, row_slot};

/// Push constants of the three kernels of a choice.
#[derive(Clone, Copy, Debug, Push)]
pub struct SamplePush {
    /// Rows that the command has room for.
    pub rows: u32,
    /// Outputs that get a choice, at most; the step's later ones get none.
    pub outputs: u32,
    /// Logits of an output, from 1 to 2^20 - 1.
    pub n: u32,
    /// Logits of a chunk: [`chunk`](super::chunk) of n.
    pub chunk: u32,
    /// Lines of the samplers' buffer.
    pub n_slots: u32,
}

/// The kernel.
#[kernel(local_size = LOCAL_SIZE, grid = [p.n.div_ceil(p.chunk), p.outputs])]
pub fn sample_best(
    #[len(p.outputs * p.n)] x: &Buf<f32>,
    #[len(4 + 4 * p.rows)] step: &Buf<u32>,
    #[len(p.n_slots * SAMPLER_WORDS)] samplers: &Buf<u32>,
    #[len(p.outputs * MAX_CHUNKS)] best: &BufMut<u32>,
    #[len(p.outputs)] counts: &BufMut<u32>,
    #[push] p: SamplePush,
) {
    let o = workgroup_id_y();
    if o >= n_outputs(&step) {
        return;
    }
    let (t, c) = (local_id(), workgroup_id_x());
    let recent = Shared::<u32>::new(PENALTY_WINDOW);
    let keys = Shared::<u32>::new(LOCAL_SIZE);
    let row = output_row(&step, o);
    let line = row_slot(&step, row) * SAMPLER_WORDS;
    load_recent(&recent, &samplers, line, row_position(&step, row) + 1, t);
    let mut own = 0;
    for i in (c * p.chunk + t..min((c + 1) * p.chunk, p.n)).step_by(LOCAL_SIZE) {
        let raw = x[o * p.n + i];
        let key = penalized(raw, i, &recent, &samplers, line);
        own = max(own, select(ordered(raw) == BROKEN, BROKEN, key));
    }
    keys[t] = own;
    fold_best(&keys, t);
    if t == 0 {
        best[o * MAX_CHUNKS + c] = keys[0];
        if c == 0 {
            counts[o] = 0;
        }
    }
}
