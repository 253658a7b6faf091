//! Brings together the parts that [`crate::attention`] made of a row.
//!
//! `y[r, h] = Σ_c e^(m_c − m) · s_c / Σ_c e^(m_c − m) · l_c` over the parts c of a row, of which each has a highest score
//! m_c, a total l_c and sums s_c, m being the largest m_c: chunks meet in their pages, then pages, in the order of keys.
//! Source: as there. Shapes: sums `[rows, n_parts, n_head, head_dim]`, marks (m, l) `[rows, n_parts, n_head]`, all f32; a
//! part's place is counted from the row's first. Who owns what: a workgroup owns a (row, head), a group of invocations a
//! page at a time, an invocation four elements of it.
//! Traffic: parts once, `4 · head_dim + 8` bytes each, out of the cache that they were just written to: 4.3 MB for one
//! row of 32 heads of 128 at 8192 positions in chunks, whose loads of a page are all on their way at once: 5 rounds of
//! about 0.6 µs on an H200.
//! Numerics: f32, the operations of a workgroup that reaches over all, in its order.

use kiln_dsl::prelude::*;

use super::{CHUNKS, Grain, Leaves, UNSEEN, first_seen, joined, put_heads};
use crate::{
    activations::{BLOCK, FIELDS},
    hadamard::hadamard,
    kv_store::PAGE,
    step::{is_beyond, row_position},
};

/// Push constants of `attention_parts`.
#[derive(Clone, Copy, Debug, Push)]
pub struct AttentionPartsPush {
    /// Rows that the command has room for.
    pub rows: u32,
    /// Query heads.
    pub n_head: u32,
    /// Parts of a row, at most.
    pub n_parts: u32,
    /// Positions that a row sees, itself included; 0 for all.
    pub window: u32,
}

const LOCAL_SIZE: u32 = 256;

/// Elements of a head that an invocation owns.
const fn each(head_dim: u32) -> u32 {
    if head_dim.is_multiple_of(4) { 4 } else { 1 }
}

/// The kernel.
#[kernel(local_size = LOCAL_SIZE, subgroup = subgroup, grid = [p.n_head, p.rows])]
pub fn attention_parts(
    #[len(p.rows * p.n_parts * p.n_head * head_dim)] sums: &Buf<f32>,
    #[len(p.rows * p.n_parts * p.n_head)] marks: &Buf<Vec2<f32>>,
    #[len(4 + 4 * p.rows)] step: &Buf<u32>,
    #[when(leaves == Leaves::Rows)]
    #[len(p.rows * p.n_head * head_dim)]
    y: &BufMut<f32>,
    #[when(leaves == Leaves::Blocks)]
    #[len(p.rows * (p.n_head * head_dim / BLOCK) * FIELDS * 4)]
    packed: &BufMut<u32>,
    #[push] p: AttentionPartsPush,
    #[comptime] head_dim: u32,
    #[comptime] mixed: bool,
    #[comptime] grain: Grain,
    #[comptime] leaves: Leaves,
    #[comptime] subgroup: Option<u32>,
) {
    let (h, r) = (workgroup_id_x(), workgroup_id_y());
    if is_beyond(&step, r, p.rows) {
        return;
    }
    let t = local_id();
    let position = row_position(&step, r);
    let first = first_seen(position, p.window);
    let (first_page, last_page) = (first / PAGE, position / PAGE);
    let n_each = comptime!(each(head_dim));
    let lanes = comptime!(head_dim / each(head_dim));
    let groups = comptime!(LOCAL_SIZE / (head_dim / each(head_dim)));
    let keys = comptime!(grain.keys());
    let (group, lane) = (t / lanes, t % lanes);

    let result = Shared::<f32>::new(head_dim);
    let tops = Shared::<f32>::new(groups);
    let totals = Shared::<f32>::new(groups);
    let page_sums = Shared::<f32>::new(comptime!(groups * head_dim));
    let fours = sums.view::<Vec4<f32>>();
    let mut top = UNSEEN;
    let mut total = 0.0;
    let mut sum = [0.0; n_each];
    for page0 in (first_page..last_page + 1).step_by(groups) {
        let page = page0 + group;
        if group < groups && page <= last_page {
            // Everything is asked for before any of it is used; past what the row sees, the last part again.
            let n = comptime!(if grain == Grain::Chunk { CHUNKS } else { 1 });
            let mut mark = [splat::<Vec2<f32>>(0.0); n];
            let mut parts = [0.0; comptime!(n * n_each)];
            for i in comptime!(0..n) {
                let part = clamp(page * n + i, first / keys, position / keys) - first / keys;
                let own = (r * p.n_parts + part) * p.n_head + h;
                mark[i] = marks[own];
                if comptime!(n_each == 4) {
                    let four = fours[own * lanes + lane];
                    for e in comptime!(0..4u32) {
                        parts[i * 4 + e] = four[e];
                    }
                } else {
                    parts[i] = sums[own * head_dim + lane];
                }
            }
            let mut page_top = UNSEEN;
            let mut page_total = 0.0;
            let mut page_sum = [0.0; n_each];
            for i in comptime!(0..n) {
                let part = page * n + i;
                if part >= first / keys && part <= position / keys {
                    let (theirs, all) = (mark[i].x(), mark[i].y());
                    if comptime!(grain == Grain::Page) {
                        page_top = theirs;
                        page_total = all;
                        for e in comptime!(0..n_each) {
                            page_sum[e] = parts[e];
                        }
                    } else {
                        let raised = max(page_top, theirs);
                        let (kept, joins) = (exp(page_top - raised), exp(theirs - raised));
                        page_total = joined(page_total, kept, all, joins);
                        for e in comptime!(0..n_each) {
                            page_sum[e] = joined(page_sum[e], kept, parts[i * n_each + e], joins);
                        }
                        page_top = raised;
                    }
                }
            }
            for e in comptime!(0..n_each) {
                page_sums[group * head_dim + lane * n_each + e] = page_sum[e];
            }
            if lane == 0 {
                tops[group] = page_top;
                totals[group] = page_total;
            }
        }
        barrier();
        for g in 0..min(last_page + 1 - page0, groups) {
            let theirs = tops[g];
            let raised = max(top, theirs);
            let (kept, joins) = (exp(top - raised), exp(theirs - raised));
            total = joined(total, kept, totals[g], joins);
            for e in comptime!(0..n_each) {
                sum[e] = joined(sum[e], kept, page_sums[g * head_dim + lane * n_each + e], joins);
            }
            top = raised;
        }
        barrier();
    }
    if group == 0 {
        for e in comptime!(0..n_each) {
            result[lane * n_each + e] = sum[e] / total;
        }
    }
    barrier();
    if comptime!(mixed) {
        hadamard(&result, t, comptime!(head_dim), comptime!(LOCAL_SIZE));
    }
    if comptime!(leaves == Leaves::Rows) {
        for d in (t..head_dim).step_by(LOCAL_SIZE) {
            y[(r * p.n_head + h) * head_dim + d] = result[d];
        }
    } else {
        let n = comptime!(head_dim / 4);
        put_heads(
            &result,
            &packed,
            h * n,
            n,
            r,
            p.n_head * n,
            comptime!(head_dim / 4),
            comptime!(LOCAL_SIZE),
            comptime!(subgroup),
        );
    }
}
