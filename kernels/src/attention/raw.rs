//! Heads as the products made them, ready for attention within its own launch: the queries of a workgroup normed, where
//! the form says so, and rotated; and the row's own key and value as their page will hold them.
//!
//! The same operations in the same order as [`crate::heads`], so the same bits. A team of 32 takes a line at a time.

use kiln_dsl::prelude::*;

use super::AttentionPush;
use crate::{
    fold::{RUN, sum_of_run},
    heads::HeadsForm,
};

/// Makes ready `heads` lines of q from element `q0` on, the last `n_own - 1` again past them, for `query`, and the line of
/// k and v from element `kv0` on, as f16, for `new_key` and `new_value`; all of a workgroup have to come here.
#[device]
pub(super) fn ready(
    q: &Buf<f32>,
    k: &Buf<f32>,
    v: &Buf<f32>,
    q_gain: &Buf<f32>,
    k_gain: &Buf<f32>,
    angles: &Buf<Vec2<f32>>,
    query: &Shared<f32>,
    new_key: &Shared<u32>,
    new_value: &Shared<u32>,
    folded: &Shared<f32>,
    q0: u32,
    n_own: u32,
    kv0: u32,
    position: u32,
    #[push] p: AttentionPush,
    #[comptime] form: Option<HeadsForm>,
    #[comptime] head_dim: u32,
    #[comptime] heads: u32,
    #[comptime] teams: u32,
    #[comptime] subgroup: Option<u32>,
) {
    let t = local_id();
    let (team, at) = (t / RUN, t % RUN);
    let local = comptime!(teams * RUN);
    let (norm, halves) = comptime!(form.map_or((false, false), |form| (form.norm, form.halves)));
    // The queries' lines, then the key's.
    let lines = Shared::<f32>::new(comptime!((heads + 1) * head_dim));
    for d in (t..comptime!(heads * head_dim)).step_by(local) {
        lines[d] = q[q0 + min(d / head_dim, n_own - 1) * head_dim + d % head_dim];
    }
    for d in (t..head_dim).step_by(local) {
        lines[comptime!(heads * head_dim) + d] = k[kv0 + d];
    }
    for u in (t..comptime!(head_dim / 2)).step_by(local) {
        new_value[u] = pack_half(vec2(v[kv0 + 2 * u], v[kv0 + 2 * u + 1]));
    }
    barrier();
    if comptime!(norm) {
        for first in comptime!((0..=heads).step_by(teams as usize)) {
            let line = first + team;
            let own = line * head_dim;
            // A team past the last line comes along for the folds.
            let end = select(line <= heads, head_dim, 0);
            // Elements 64 apart meet first, then runs of 32, one after the other.
            let mut total = 0.0;
            for run in comptime!(0..2u32) {
                let mut squares = 0.0;
                for d in (at + run * RUN..end).step_by(2 * RUN) {
                    squares = fma(lines[own + d], lines[own + d], squares);
                }
                let sum = sum_of_run(squares, &folded, t, comptime!(subgroup));
                total = if comptime!(run == 0) { sum } else { total + sum };
            }
            let scale = inverse_sqrt(total / (head_dim as f32) + p.eps);
            for d in (at..end).step_by(RUN) {
                let mut gain = 0.0;
                if line == heads {
                    gain = k_gain[d];
                } else {
                    gain = q_gain[d];
                }
                lines[own + d] = lines[own + d] * scale * gain;
            }
        }
        barrier();
    }
    for i in (t..(heads + 1) * (p.n_rot / 2)).step_by(local) {
        let (line, j) = (i / (p.n_rot / 2), i % (p.n_rot / 2));
        let angle = angles[position * (p.n_rot / 2) + j];
        let a = line * head_dim + if comptime!(halves) { j } else { 2 * j };
        let b = a + if comptime!(halves) { p.n_rot / 2 } else { 1 };
        let (xa, xb) = (lines[a], lines[b]);
        lines[a] = xa * angle.x() - xb * angle.y();
        lines[b] = xa * angle.y() + xb * angle.x();
    }
    barrier();
    for d in (t..comptime!(heads * head_dim)).step_by(local) {
        query[d] = lines[d] * p.scale;
    }
    for u in (t..comptime!(head_dim / 2)).step_by(local) {
        let own = comptime!(heads * head_dim) + 2 * u;
        new_key[u] = pack_half(vec2(lines[own], lines[own + 1]));
    }
}
