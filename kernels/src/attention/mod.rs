//! `y[r, h] = Σ_i softmax_i(scale · q[r, h] · k[i, h / g]) · v[i, h / g]` over the positions i that row r sees.
//!
//! Source: Vaswani et al., arXiv:1706.03762, equation 1; the running maximum and sum: Milakov and Gimelshein,
//! arXiv:1805.02867, algorithm 3; keys in parts that meet later: Dao et al., Flash-Decoding, 2023; soft caps: Gemma
//! Team, arXiv:2408.00118, section 2. Row r of a sequence at position p sees max(0, p + 1 − window)..=p.
//! Shapes: q, y `[rows, n_head, head_dim]` f32; pages as [`crate::kv_store`] fills them; g = n_head / n_head_kv.
//!
//! Keys are cut by position: 32 are a chunk, 8 chunks a page. A chunk has a highest score, a total of weights beside it
//! and sums of values under them; chunks meet in a page in the order of their keys, then pages do. A workgroup reaches
//! over one chunk, one page or all that a row sees ([`Reach`]); what is in parts is brought together by
//! [`parts`], by the same operations in the same order, so every reach gives the same bits.
//!
//! Who owns what: a workgroup owns `heads` query heads that share keys; a team of 32 invocations owns a chunk. Up to 16
//! of them share a line, 16 bytes each at a time, for keys and for values; a tree of sums leaves each with the score of
//! one key.
//! Traffic: a line of keys and values once for `heads` heads, memory-bound; a chunk's part of a head takes
//! `4 · head_dim + 8` bytes, written and read once: 13 % of f16 lines of 4 heads, 1.6 % in parts of pages.
//! Time on an H200 (132 SMs, 4.46 TB/s), 8 heads of keys of 128 as f16, one row: at 1024 positions 264 workgroups, 4 MiB
//! and a chain of four waits of about 0.7 µs, beside which 0.9 µs of bandwidth vanish; at 8192, 2056 workgroups of
//! about 1900 instructions, 4.3 µs of issue beneath 7.6 µs of bandwidth.
//! Where lines are mixed, so is the query, and the result once more at the end.
//! Numerics: f32; the order depends on the position and the window alone, so a row's result is the same bits
//! whatever rows share its step.

mod cases;
mod choice;
mod cover;
pub mod parts;

use std::fmt;

use kiln_dsl::prelude::*;

use self::cover::{Cover, Member, ask, own_key, own_parts, score, sum_of, weigh};
pub use self::{
    cases::variants,
    choice::{Choice, Shape, choose},
    cover::CHUNK,
};
use crate::{
    activations::{BLOCK, FIELDS, Planes, put_four, put_len},
    fold::{fold_run_len, most_of_run, sum_of_run},
    hadamard::hadamard,
    kv_store::PAGE,
    kv_type::KvType,
    step::{is_beyond, row_position, row_slot},
};

/// Push constants of `attention`.
#[derive(Clone, Copy, Debug, Push)]
pub struct AttentionPush {
    /// Rows that the command has room for.
    pub rows: u32,
    /// Query heads.
    pub n_head: u32,
    /// Heads of keys and values.
    pub n_head_kv: u32,
    /// Pages of a slot, at most.
    pub max_pages: u32,
    /// Slots.
    pub n_slots: u32,
    /// Pages of the layer.
    pub n_pages: u32,
    /// Positions that a row sees, itself included; 0 for all.
    pub window: u32,
    /// Scores are multiplied by this.
    pub scale: f32,
    /// Scores become soft_cap · tanh(score / soft_cap); 0 leaves them.
    pub soft_cap: f32,
    /// Parts of a row, at most; 1 where a workgroup reaches over all.
    pub n_parts: u32,
}

/// A score that no position has: its weight is zero.
pub(crate) const UNSEEN: f32 = -1.0e30;
/// Chunks of a page.
pub(crate) const CHUNKS: u32 = PAGE / CHUNK;

/// How a result leaves: comptime.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Leaves {
    /// As f32.
    Rows,
    /// In blocks of integers, of which a head is a whole number.
    Blocks,
}

impl fmt::Debug for Leaves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Leaves::Rows { "rows" } else { "blocks" })
    }
}

/// Keys of a part: comptime.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Grain {
    /// A chunk.
    Chunk,
    /// A page.
    Page,
}

impl fmt::Debug for Grain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Grain::Chunk { "chunk" } else { "page" })
    }
}

impl Grain {
    /// Keys of a part.
    pub const fn keys(self) -> u32 {
        match self {
            Grain::Chunk => CHUNK,
            Grain::Page => PAGE,
        }
    }

    /// Parts of a row that sees up to `window` (0: all) of `n_ctx` positions, wherever they start.
    pub const fn parts(self, n_ctx: u32, window: u32) -> u32 {
        let all = n_ctx.div_ceil(self.keys());
        if window == 0 || window >= n_ctx {
            return all;
        }
        let own = (window - 1).div_ceil(self.keys()) + 1;
        if own < all { own } else { all }
    }
}

/// What a workgroup reaches over: comptime.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reach {
    /// All that a row sees: the result.
    All(Leaves),
    /// A part.
    Part(Grain),
}

impl fmt::Debug for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reach::All(leaves) => write!(f, "all, {leaves:?}"),
            Reach::Part(grain) => write!(f, "{grain:?}"),
        }
    }
}

impl Reach {
    const fn leaves(self) -> Option<Leaves> {
        match self {
            Reach::All(leaves) => Some(leaves),
            Reach::Part(_) => None,
        }
    }

    /// Chunks at once.
    const fn teams(self) -> u32 {
        match self {
            Reach::Part(Grain::Chunk) => 1,
            _ => 4,
        }
    }

    const fn local(self) -> u32 {
        self.teams() * CHUNK
    }
}

/// The kernel.
#[kernel(
    local_size = reach.local(),
    subgroup = subgroup,
    grid = [p.n_head_kv * (p.n_head / p.n_head_kv).div_ceil(heads), p.rows, p.n_parts],
)]
pub fn attention(
    #[len(p.rows * p.n_head * head_dim)] q: &Buf<f32>,
    #[len(p.n_pages * p.n_head_kv * PAGE * ty.line_words(head_dim))] k_pages: &Buf<u32>,
    #[len(p.n_pages * p.n_head_kv * PAGE * ty.line_words(head_dim))] v_pages: &Buf<u32>,
    #[len(4 + 4 * p.rows)] step: &Buf<u32>,
    #[len(p.n_slots * p.max_pages)] table: &Buf<u32>,
    #[when(reach.leaves() == Some(Leaves::Rows))]
    #[len(p.rows * p.n_head * head_dim)]
    y: &BufMut<f32>,
    #[when(reach.leaves() == Some(Leaves::Blocks))]
    #[len(p.rows * (p.n_head * head_dim / BLOCK) * FIELDS * 4)]
    packed: &BufMut<u32>,
    #[when(reach.leaves().is_none())]
    #[len(p.rows * p.n_parts * p.n_head * head_dim)]
    sums: &BufMut<f32>,
    #[when(reach.leaves().is_none())]
    #[len(p.rows * p.n_parts * p.n_head)]
    marks: &BufMut<Vec2<f32>>,
    #[push] p: AttentionPush,
    #[comptime] head_dim: u32,
    #[comptime] ty: KvType,
    #[comptime] heads: u32,
    #[comptime] reach: Reach,
    #[comptime] subgroup: Option<u32>,
) {
    let (group, r, part) = (workgroup_id_x(), workgroup_id_y(), workgroup_id_z());
    if is_beyond(&step, r, p.rows) {
        return;
    }
    let t = local_id();
    let (teams, local) = comptime!((reach.teams(), reach.local()));
    let position = row_position(&step, r);
    let slot = row_slot(&step, r);
    let first = first_seen(position, p.window);
    // Rounds of as many chunks as there are teams.
    let (first_chunk, last_chunk) = (first / CHUNK, position / CHUNK);
    let mut from = first_chunk / teams;
    let mut to = last_chunk / teams + 1;
    if comptime!(reach == Reach::Part(Grain::Chunk)) {
        from = first_chunk + part;
        if from > last_chunk {
            return;
        }
        to = from + 1;
    }
    if comptime!(reach == Reach::Part(Grain::Page)) {
        let page = first / PAGE + part;
        if page > position / PAGE {
            return;
        }
        from = max(from, page * comptime!(CHUNKS / teams));
        to = min(to, (page + 1) * comptime!(CHUNKS / teams));
    }
    let sharing = p.n_head / p.n_head_kv;
    let per_kv = div_ceil(sharing, heads);
    let head_kv = group / per_kv;
    let h0 = head_kv * sharing + group % per_kv * heads;
    // Of the last group's heads some may be the last one again.
    let n_own = min((head_kv + 1) * sharing - h0, heads);

    let c = comptime!(Cover::of(head_dim, ty));
    let width = comptime!(heads * head_dim);
    let n_room = comptime!(heads * c.room(subgroup));
    let query = Shared::<f32>::new(width);
    let room = Shared::<f32>::new(comptime!(teams * n_room));
    let tops = Shared::<f32>::new(comptime!(teams * heads));
    let totals = Shared::<f32>::new(comptime!(teams * heads));
    let folded = Shared::<f32>::new(comptime!(fold_run_len(local, subgroup)));
    let shared = Shared::<f32>::new(comptime!(if subgroup.is_some() { 1 } else { teams * heads * CHUNK }));
    for d in (t..width).step_by(local) {
        query[d] = q[(r * p.n_head + h0 + min(d / head_dim, n_own - 1)) * head_dim + d % head_dim] * p.scale;
    }
    barrier();
    if comptime!(ty.is_mixed()) {
        hadamard(&query, t, comptime!(width), comptime!(local));
    }
    let (team, at) = (t / CHUNK, t % CHUNK);
    let mut queries = [splat::<Vec4<f32>>(0.0); comptime!(heads * c.fours())];
    own_parts(&query, at, &queries, comptime!(heads), comptime!(c));

    // What an invocation owns of the page's sums and of all.
    let n_held = comptime!(width.div_ceil(local));
    let mut page_top = [UNSEEN; n_held];
    let mut page_total = [0.0; n_held];
    let mut page_sum = [0.0; n_held];
    let mut top = [UNSEEN; n_held];
    let mut total = [0.0; n_held];
    let mut sum = [0.0; n_held];
    for round in from..to {
        // A team without a chunk does another's again, to no effect.
        let start = clamp(round * teams + team, first_chunk, last_chunk) * CHUNK;
        let page = table[slot * p.max_pages + start / PAGE];
        let line = (page * p.n_head_kv + head_kv) * PAGE + start % PAGE;
        let (low, high) = (max(first, start) - start, min(position - start, CHUNK - 1));
        let m = Member { at, line, low, high };
        let mut scores = [0.0; heads];
        let mut words = [0u32; comptime!(c.asked())];
        let n0 = team * n_room;
        score(&queries, &k_pages, m, &scores, &room, n0, comptime!(heads), comptime!(c), comptime!(subgroup));
        // The first values are on their way while the weights are made.
        ask(&v_pages, m, &words, comptime!(c));
        let key = own_key(at, comptime!(c));
        for h in comptime!(0..heads) {
            let mut own = scores[h];
            if p.soft_cap > 0.0 {
                // tanh(x) = 1 − 2 / (1 + e^2x), whose limits at both ends are those of e^2x.
                own = p.soft_cap * (1.0 - 2.0 / (1.0 + exp(2.0 * own / p.soft_cap)));
            }
            own = select(key >= low && key <= high, own, UNSEEN);
            let most = most_of_run(own, &folded, t, comptime!(subgroup));
            let weight = exp(own - most);
            let all = sum_of_run(weight, &folded, t, comptime!(subgroup));
            scores[h] = weight;
            if comptime!(subgroup.is_none()) {
                shared[(team * heads + h) * CHUNK + at] = weight;
            }
            if at == 0 {
                tops[team * heads + h] = most;
                totals[team * heads + h] = all;
            }
        }
        if comptime!(subgroup.is_none()) {
            barrier();
        }
        let own = team * comptime!(heads * CHUNK);
        weigh(
            &scores,
            &v_pages,
            m,
            &words,
            &shared,
            own,
            &room,
            n0,
            comptime!(heads),
            comptime!(c),
            comptime!(subgroup),
        );
        barrier();
        if comptime!(reach == Reach::Part(Grain::Chunk)) {
            let to = (r * p.n_parts + part) * p.n_head + h0;
            for d in (t..n_own * head_dim).step_by(local) {
                sums[to * head_dim + d] =
                    sum_of(&room, n0, d / head_dim, d % head_dim, comptime!(c), comptime!(subgroup));
            }
            if t < n_own {
                marks[to + t] = vec2(tops[t], totals[t]);
            }
        } else {
            let before = round * teams;
            let (k0, k1) = (max(first_chunk, before) - before, min(last_chunk - before, teams - 1) + 1);
            for i in comptime!(0..n_held) {
                let d = min(t + i * local, width - 1);
                let h = d / head_dim;
                for k in k0..k1 {
                    let theirs = tops[k * heads + h];
                    let raised = max(page_top[i], theirs);
                    let (kept, joins) = (exp(page_top[i] - raised), exp(theirs - raised));
                    let own = sum_of(&room, k * n_room, h, d % head_dim, comptime!(c), comptime!(subgroup));
                    page_total[i] = joined(page_total[i], kept, totals[k * heads + h], joins);
                    page_sum[i] = joined(page_sum[i], kept, own, joins);
                    page_top[i] = raised;
                }
            }
            if comptime!(reach.leaves().is_some()) {
                if (round + 1) % comptime!(CHUNKS / teams) == 0 || round + 1 == to {
                    for i in comptime!(0..n_held) {
                        let raised = max(top[i], page_top[i]);
                        let (kept, joins) = (exp(top[i] - raised), exp(page_top[i] - raised));
                        total[i] = joined(total[i], kept, page_total[i], joins);
                        sum[i] = joined(sum[i], kept, page_sum[i], joins);
                        top[i] = raised;
                        page_top[i] = UNSEEN;
                        page_total[i] = 0.0;
                        page_sum[i] = 0.0;
                    }
                }
            }
            barrier();
        }
    }
    if comptime!(reach == Reach::Part(Grain::Page)) {
        let to = (r * p.n_parts + part) * p.n_head + h0;
        for i in comptime!(0..n_held) {
            let d = t + i * local;
            if d < n_own * head_dim {
                sums[to * head_dim + d] = page_sum[i];
                if d % head_dim == 0 {
                    marks[to + d / head_dim] = vec2(page_top[i], page_total[i]);
                }
            }
        }
    }
    if comptime!(reach.leaves().is_some()) {
        for i in comptime!(0..n_held) {
            let d = t + i * local;
            if d < width {
                query[d] = sum[i] / total[i];
            }
        }
        barrier();
        if comptime!(ty.is_mixed()) {
            hadamard(&query, t, comptime!(width), comptime!(local));
        }
        let to = (r * p.n_head + h0) * head_dim;
        if comptime!(reach.leaves() == Some(Leaves::Rows)) {
            for d in (t..n_own * head_dim).step_by(local) {
                y[to + d] = query[d];
            }
        } else {
            let fours = p.n_head * comptime!(head_dim / 4);
            let (h4, n4) = (h0 * comptime!(head_dim / 4), n_own * comptime!(head_dim / 4));
            put_heads(
                &query,
                &packed,
                h4,
                n4,
                r,
                fours,
                comptime!(width / 4),
                comptime!(local),
                comptime!(subgroup),
            );
        }
    }
}

/// The first position that a row at `position` sees.
#[device]
pub(crate) fn first_seen(position: u32, window: u32) -> u32 {
    if window == 0 { 0 } else { position + 1 - min(position + 1, window) }
}

/// Two sums, each under the weight of its highest score.
#[device]
pub(crate) fn joined(a: f32, of_a: f32, b: f32, of_b: f32) -> f32 {
    fma(b, of_b, a * of_a)
}

/// Writes the first `count` of the `n` fours of `x`, whole heads, as blocks from four `first` of row `r` on, which has
/// `fours`. Every invocation of the `local` has to come here.
#[device]
pub(crate) fn put_heads(
    x: &Shared<f32>,
    packed: &BufMut<u32>,
    first: u32,
    count: u32,
    r: u32,
    fours: u32,
    #[comptime] n: u32,
    #[comptime] local: u32,
    #[comptime] subgroup: Option<u32>,
) {
    let shared = Shared::<u32>::new(comptime!(put_len(local, subgroup)));
    let t = local_id();
    for i in comptime!(0..n.div_ceil(local)) {
        let four = t + i * local;
        let d = min(four, n - 1) * 4;
        let values = vec4(x[d], x[d + 1], x[d + 2], x[d + 3]);
        let at = select(four < count, first + four, fours);
        put_four(values, at, r, fours, &packed, &shared, comptime!(Planes::Two), comptime!(subgroup));
    }
}

/// The widest head; its queries and the teams' sums have to fit a workgroup's memory.
pub const MAX_HEAD_DIM: u32 = 256;

/// Whether heads of `head_dim` elements can be kept as `ty`.
pub const fn serves(head_dim: u32, ty: KvType) -> bool {
    head_dim > 0 && head_dim <= MAX_HEAD_DIM && head_dim.is_multiple_of(ty.multiple())
}

/// Widths of a head that are checked in each type: words that divide a team, that do not, and more than it has.
pub(crate) fn layouts() -> impl Iterator<Item = (u32, KvType)> {
    use KvType::{F16, F32, Q8_0};
    [(64, F16), (80, F16), (128, F16), (256, F16), (64, F32), (256, F32), (64, Q8_0), (96, Q8_0), (256, Q8_0)]
        .into_iter()
}
