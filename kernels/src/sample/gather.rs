//! The candidates of each output, in any order: every id that the filters may keep, and few more.
//!
//! Left out is what weighs nothing at the output's temperature nor at 1; where top-k is at most the number of chunks,
//! what is below the k-th of the chunks' best; and without top-p, what min-p drops.
//! Shapes: as for [`best`](super::best); list `[outputs, n]` of (logit as an integer, id from the highest down in the
//! upper 20 bits), of which `counts[o]` are filled. A workgroup owns a chunk of an output. Traffic: 4 bytes per logit
//! and 8 per candidate, memory-bound. Numerics: one subtraction per logit.

use kiln_dsl::prelude::*;

use super::{
    ALL, BROKEN, LOCAL_SIZE, MAX_CHUNKS, ONE_REACH, PENALTY_WINDOW, SAMPLER_WORDS, best::SamplePush,
    fold_best, load_recent, logit, ordered, penalized,
};
use crate::step::{n_outputs, output_row, row_position, row_slot};

/// Logits that an invocation holds at a time.
const HELD: u32 = 4;

/// The kernel.
#[kernel(local_size = LOCAL_SIZE, grid = [p.n.div_ceil(p.chunk), p.outputs])]
pub fn sample_gather(
    #[len(p.outputs * p.n)] x: &Buf<f32>,
    #[len(4 + 4 * p.rows)] step: &Buf<u32>,
    #[len(p.n_slots * SAMPLER_WORDS)] samplers: &Buf<u32>,
    #[len(p.outputs * MAX_CHUNKS)] best: &Buf<u32>,
    #[len(p.outputs)] counts: &BufMut<u32>,
    #[len(p.outputs * p.n)] list: &BufMut<Vec2<u32>>,
    #[push] p: SamplePush,
) {
    let o = workgroup_id_y();
    if o >= n_outputs(&step) {
        return;
    }
    let (t, c) = (local_id(), workgroup_id_x());
    let n_chunks = div_ceil(p.n, p.chunk);
    let recent = Shared::<u32>::new(PENALTY_WINDOW);
    let firsts = Shared::<u32>::new(LOCAL_SIZE);
    let keys = Shared::<u32>::new(LOCAL_SIZE);
    // The k-th of the chunks' best; what a piece adds, and where.
    let words = Shared::<u32>::new(3);
    let row = output_row(&step, o);
    let line = row_slot(&step, row) * SAMPLER_WORDS;
    load_recent(&recent, &samplers, line, row_position(&step, row) + 1, t);
    let own = select(t < n_chunks, best[o * MAX_CHUNKS + select(t < n_chunks, t, 0)], 0);
    firsts[t] = own;
    keys[t] = own;
    if t == 0 {
        words[0] = 0;
    }
    fold_best(&firsts, t);
    let k = samplers[line];
    if k == 1 && t == 0 {
        words[0] = firsts[0];
    }
    if k > 1 && k <= n_chunks && t < n_chunks {
        let mut before = 0;
        for i in 0..n_chunks {
            before += select(keys[i] > own || (keys[i] == own && i < t), 1, 0);
        }
        if before == k - 1 {
            words[0] = own;
        }
    }
    barrier();
    let first = logit(firsts[0]);
    let reach = max(bitcast::<f32, u32>(samplers[line + 4]), ONE_REACH);
    let likely = ordered(first + bitcast::<f32, u32>(samplers[line + 2]));
    let least = max(words[0], select(samplers[line + 1] == ALL, likely, 0));
    // A chunk whose best is left out has nothing to give.
    if keys[c] < least || first - logit(keys[c]) > reach {
        return;
    }
    let end = min((c + 1) * p.chunk, p.n);
    for piece in (c * p.chunk..(c + 1) * p.chunk).step_by(HELD * LOCAL_SIZE) {
        let mut held = [0u32; 4];
        let mut kept = 0;
        for h in comptime!(0..HELD) {
            let i = piece + h * LOCAL_SIZE + t;
            if i < end && firsts[0] != BROKEN {
                let key = penalized(x[o * p.n + i], i, &recent, &samplers, line);
                if key >= least && first - logit(key) <= reach {
                    held[h] = key;
                    kept += 1;
                }
            }
        }
        if t == 0 {
            words[1] = 0;
        }
        barrier();
        let mut at = atomic::add(&words[1], kept);
        barrier();
        if t == 0 {
            words[2] = atomic::add(&counts[o], words[1]);
        }
        barrier();
        at += o * p.n + words[2];
        for h in comptime!(0..HELD) {
            if held[h] > 0 {
                list[at] = vec2(held[h], ((piece + h * LOCAL_SIZE + t) ^ 0xfffff) << 12);
                at += 1;
            }
        }
    }
}
