//! `y[r, h] = Σ_i softmax_i(scale · q[r, h] · k[i, h / g]) · v[i, h / g]` for many rows, on matrices of a subgroup.
//!
//! Source: as [`crate::attention`], whose push constants, pages and rows these are; Dao, arXiv:2307.08691, algorithm 1.
//! Shapes: q, y `[rows, n_head, head_dim]` f32, pages of f16; g = n_head / n_head_kv.
//! Who owns what: a workgroup owns (a tile of rows, a head, some of the sequences in it) and walks their keys a block at a
//! time; keys and values of a block are in workgroup memory. A subgroup owns the rows of one matrix: its query and its
//! sums stay in matrices, its scores and weights pass through workgroup memory, where lanes own parts of a row.
//! Traffic: a tile's rows of q and y once, a sequence's keys and values once for each tile and head.
//! Numerics: query and weights are rounded to f16, sums are f32. Blocks start at multiples of their keys, and one that a
//! row does not see leaves it as it was: a row's result is the same bits whatever rows share its step.

mod cases;
mod lines;
mod shape;

use kiln_dsl::prelude::*;

pub use self::{
    cases::variants,
    shape::{AttentionShape, choose},
};
use self::{lines::Lines, shape::PER_WORD};
use crate::{
    attention::AttentionPush,
    kv_store::PAGE,
    step::{n_rows, row_position, row_slot},
};

/// Workgroups that share a tile and head, each walking some of the sequences in it: a step may hold short prompts of
/// many.
const RUNS: u32 = 4;
/// The largest number of f16.
const LARGEST: f32 = 65504.0;
/// A score that no position has: its weight is zero.
const UNSEEN: f32 = -1.0e30;

/// The kernel.
#[kernel(
    local_size = t.invocations(),
    subgroup = t.lanes,
    workgroup_bytes = t.workgroup_bytes(),
    grid = [p.n_head, p.rows.div_ceil(t.rows()), RUNS],
)]
pub fn attention_khr(
    #[len(p.rows * p.n_head * (t.head_dim / 4))] q: &Buf<Vec4<f32>>,
    #[len(p.n_pages * p.n_head_kv * PAGE * t.line())] k_pages: &Buf<Vec4<u32>>,
    #[len(p.n_pages * p.n_head_kv * PAGE * t.line())] v_pages: &Buf<Vec4<u32>>,
    #[len(4 + 4 * p.rows)] step: &Buf<u32>,
    #[len(p.n_slots * p.max_pages)] table: &Buf<u32>,
    #[len(p.rows * p.n_head * t.head_dim)] y: &BufMut<f32>,
    #[push] p: AttentionPush,
    #[comptime] t: AttentionShape,
) {
    dims!(R = t.edge, C = t.edge, D = t.edge);
    let (rows, line, pitch, edge) = comptime!((t.rows(), t.line(), t.pitch(), t.edge));
    let (score_pitch, weight_pitch) = comptime!((t.score_pitch(), t.weight_pitch()));
    let (n_across, n_keys) = comptime!((t.head_dim / t.edge, t.keys / t.edge));
    let n = n_rows(&step);
    let h = workgroup_id_x();
    // The last rows see most and start first.
    let r0 = (div_ceil(p.rows, rows) - 1 - workgroup_id_y()) * rows;
    if r0 >= n {
        return;
    }
    let end = min(r0 + rows, n);
    // A tile of one sequence needs one workgroup.
    if workgroup_id_z() > 0 {
        if run_end(&step, r0, r0, end, comptime!(t)) == end {
            return;
        }
    }
    let head_kv = h / (p.n_head / p.n_head_kv);
    let memory = Shared::<Vec4<u32>>::new(comptime!(t.staged()));
    let scores = Shared::<Vec4<f32>>::new(comptime!(t.rows() * t.score_pitch()));
    let weights = Shared::<Vec4<u32>>::new(comptime!(t.rows() * t.weight_pitch()));
    for i in (local_id()..comptime!(t.rows() * t.line())).step_by(comptime!(t.invocations())) {
        let from = (min(r0 + i / line, n - 1) * p.n_head + h) * comptime!(t.head_dim / 4) + 2 * (i % line);
        memory[i / line * pitch + i % line] = halves(q[from], q[from + 1], p.scale);
    }
    barrier();
    let first_row = subgroup_id() * edge;
    let mut query = [Tile::<f16, MatA, Sg, R, D>::zero(); n_across];
    let mut sums = [Tile::<f32, Acc, Sg, R, D>::zero(); n_across];
    for d in comptime!(0..n_across) {
        query[d] = Tile::<f16, MatA, Sg, R, D>::load(
            &memory,
            first_row * pitch + comptime!(d * t.edge / PER_WORD),
            pitch,
        );
    }
    let own_scores = first_row * score_pitch;
    let own_weights = first_row * weight_pitch;
    let mine = comptime!(Mine::new(&step, r0, n, p.window, t));
    let mut highest = UNSEEN;
    let mut total = 0.0;
    let mut next = [splat::<Vec4<u32>>(0); comptime!(2 * t.each())];

    let mut from = r0;
    let mut run = 0u32;
    let mut walked = 0u32;
    while from < end {
        // Rows of one sequence after another.
        let start = from;
        let to = run_end(&step, start, r0, end, comptime!(t));
        if run % RUNS == workgroup_id_z() {
            let slot = row_slot(&step, start);
            let (low, high) = positions(&step, start, to, r0, p.window, comptime!(t));
            let first_key = low / comptime!(t.keys) * comptime!(t.keys);
            let lines = comptime!(Lines {
                k_pages,
                v_pages,
                table,
                slot,
                head_kv,
                n_head_kv: p.n_head_kv,
                max_pages: p.max_pages,
                low,
                high,
                t
            });
            comptime!(lines.fetch(&next, first_key));
            for key0 in (first_key..high + 1).step_by(comptime!(t.keys)) {
                barrier();
                comptime!(lines.put(&next, &memory, key0));
                barrier();
                // The next block is on its way while this one is worked on.
                let after = key0 + comptime!(t.keys);
                if after <= high {
                    comptime!(lines.fetch(&next, after));
                }
                for c in comptime!(0..n_keys) {
                    let mut score = Tile::<f32, Acc, Sg, R, C>::zero();
                    for d in comptime!(0..n_across) {
                        let at = comptime!(c * t.edge * t.pitch() + d * t.edge / PER_WORD);
                        let keys = Tile::<f16, MatB, Sg, D, C>::load_columns(&memory, at, pitch);
                        score = mul_add(query[d], keys, score);
                    }
                    tile::store(score, &scores, own_scores + comptime!(c * t.edge / 4), score_pitch);
                }
                subgroup_barrier();
                let (raised, sum) = weigh(
                    &scores,
                    &weights,
                    comptime!(&mine),
                    (start, to),
                    key0,
                    highest,
                    p.soft_cap,
                    comptime!(t),
                );
                let kept = exp(highest - raised);
                total = total * kept + sum;
                highest = raised;
                let fade = across::<R, D>(&scores, kept, comptime!(t));
                for d in comptime!(0..n_across) {
                    sums[d] = sums[d] * fade;
                }
                for c in comptime!(0..n_keys) {
                    let at = own_weights + comptime!(c * t.edge / PER_WORD);
                    let weight = Tile::<f16, MatA, Sg, R, C>::load(&weights, at, weight_pitch);
                    for d in comptime!(0..n_across) {
                        let at = comptime!((t.keys + c * t.edge) * t.pitch() + d * t.edge / PER_WORD);
                        let values = Tile::<f16, MatB, Sg, C, D>::load(&memory, at, pitch);
                        sums[d] = mul_add(weight, values, sums[d]);
                    }
                }
            }
            walked = to - start;
        }
        run += 1;
        from = to;
    }
    if walked == 0 {
        return;
    }

    let share = across::<R, D>(&scores, select(total > 0.0, 1.0 / total, 0.0), comptime!(t));
    let stride = p.n_head * comptime!(t.head_dim);
    for d in comptime!(0..n_across) {
        let result = sums[d] * share;
        let first = h * comptime!(t.head_dim) + comptime!(d * t.edge);
        // The same for all subgroups: a driver may hold them all up where one waits for itself.
        if walked == rows {
            tile::store(result, y, (r0 + first_row) * stride + first, stride);
        } else {
            subgroup_barrier();
            tile::store(result, &scores, own_scores, score_pitch);
            subgroup_barrier();
            for j in comptime!(0..t.edge * t.edge / t.lanes) {
                let e = lane() + comptime!(j * t.lanes);
                // A row that another workgroup walks, or that there is not, has seen nothing here.
                let seen = subgroup::shuffle(total, e / edge * comptime!(t.sharing())) > 0.0;
                if seen {
                    let four = own_scores + e / edge * score_pitch + e % edge / 4;
                    y[(r0 + first_row + e / edge) * stride + first + e % edge] = scores[four][e % 4];
                }
            }
        }
    }
}

/// The row behind those of the sequence of row `start`, in a tile from `r0` to `end`.
#[device]
fn run_end(step: &Buf<u32>, start: u32, r0: u32, end: u32, #[comptime] t: AttentionShape) -> u32 {
    let slot = row_slot(&step, start);
    let mut other = end;
    for i in comptime!((0..t.rows()).step_by(t.lanes as usize)) {
        let r = min(r0 + i + lane(), end - 1);
        other = min(other, select(r > start && row_slot(&step, r) != slot, r, end));
    }
    comptime!(over(other.read(), t.lanes, |a, b| least(a, b)))
}

/// The first and the last position that any of the rows `start` to `to` sees.
#[device]
fn positions(
    step: &Buf<u32>,
    start: u32,
    to: u32,
    r0: u32,
    window: u32,
    #[comptime] t: AttentionShape,
) -> (u32, u32) {
    let mut low = 0xffff_ffffu32;
    let mut high = 0u32;
    for i in comptime!((0..t.rows()).step_by(t.lanes as usize)) {
        let r = min(max(r0 + i + lane(), start), to - 1);
        let position = row_position(&step, r);
        low = min(low, first_seen(position, window));
        high = max(high, position);
    }
    let low = comptime!(over(low.read(), t.lanes, |a, b| least(a, b)));
    (low, comptime!(over(high.read(), t.lanes, |a, b| most(a, b))))
}

/// The row that a lane works on with its neighbors, and what it sees.
struct Mine {
    row: Ex<u32>,
    /// In its row: which of those that share it.
    part: Ex<u32>,
    inside: Ex<bool>,
    first: Ex<u32>,
    position: Ex<u32>,
}

impl Mine {
    #[track_caller]
    fn new(step: &Buf<u32>, r0: Ex<u32>, n: Ex<u32>, window: Ex<u32>, t: AttentionShape) -> Self {
        let (row, part) = lane_of(r0, t);
        let (inside, first, position) = seen_by(step, row, n, window);
        Mine { row, part, inside, first, position }
    }
}

#[device]
fn lane_of(r0: u32, #[comptime] t: AttentionShape) -> (u32, u32) {
    let sharing = comptime!(t.sharing());
    (r0 + subgroup_id() * comptime!(t.edge) + lane() / sharing, lane() % sharing)
}

/// Whether the step has row `r` of its `n`, and the positions that it sees.
#[device]
fn seen_by(step: &Buf<u32>, r: u32, n: u32, window: u32) -> (bool, u32, u32) {
    let position = row_position(&step, min(r, n - 1));
    (r < n, first_seen(position, window), position)
}

/// The first position that a row at `position` sees.
#[device]
fn first_seen(position: u32, window: u32) -> u32 {
    if window == 0 { 0 } else { position + 1 - min(position + 1, window) }
}

/// Turns a lane's part of its row of scores into weights, in words of eight halves. What it gives are the highest score
/// of the row so far and the sum of the block's weights.
#[device]
fn weigh(
    scores: &Shared<Vec4<f32>>,
    weights: &Shared<Vec4<u32>>,
    mine: &Mine,
    rows: (u32, u32),
    key0: u32,
    highest: f32,
    soft_cap: f32,
    #[comptime] t: AttentionShape,
) -> (f32, f32) {
    let n_own = comptime!(t.keys / t.sharing());
    let own_row = subgroup_id() * comptime!(t.edge) + lane() / comptime!(t.sharing());
    let (part, first, position) = comptime!((mine.part, mine.first, mine.position));
    let counts = comptime!(mine.inside) && comptime!(mine.row) >= rows.0 && comptime!(mine.row) < rows.1;
    let mut own = [0.0; n_own];
    let mut largest = highest;
    for j in comptime!(0..n_own / 4) {
        let four = scores[own_row * comptime!(t.score_pitch()) + part * (n_own / 4) + j];
        let read = [four.x(), four.y(), four.z(), four.w()];
        for e in comptime!(0..4u32) {
            let key = key0 + part * n_own + (j * 4 + e);
            let mut score = read[e];
            if soft_cap > 0.0 {
                // tanh(x) = 1 − 2 / (1 + e^2x), whose limits at both ends are those of e^2x.
                score = soft_cap * (1.0 - 2.0 / (1.0 + exp(2.0 * score / soft_cap)));
            }
            own[j * 4 + e] = select(counts && key >= first && key <= position, score, UNSEEN);
            largest = max(largest, own[j * 4 + e]);
        }
    }
    let raised = comptime!(over(largest.read(), t.sharing(), |a, b| most(a, b)));
    let mut sum = 0.0;
    for j in comptime!(0..n_own) {
        own[j] = select(own[j] > UNSEEN, exp(own[j] - raised), 0.0);
        sum += own[j];
    }
    // A lane's scores are read by now, and the rest of the row by its neighbors, when weights and what fades arrive.
    for j in comptime!((0..n_own).step_by(8)) {
        weights[own_row * comptime!(t.weight_pitch()) + part * (n_own / 8) + comptime!(j / 8)] = vec4(
            pack_half(vec2(own[j], own[j + 1])),
            pack_half(vec2(own[j + 2], own[j + 3])),
            pack_half(vec2(own[j + 4], own[j + 5])),
            pack_half(vec2(own[j + 6], own[j + 7])),
        );
    }
    (raised, comptime!(over(sum.read(), t.sharing(), |a, b| plus(a, b))))
}

#[device]
fn least<T: Num>(a: T, b: T) -> T {
    min(a, b)
}

#[device]
fn most<T: Num>(a: T, b: T) -> T {
    max(a, b)
}

#[device]
fn plus(a: f32, b: f32) -> f32 {
    a + b
}

/// What `lanes` neighbors have, folded, in each of them.
#[track_caller]
fn over<T: Num>(mut own: Ex<T>, lanes: u32, fold: impl Fn(Ex<T>, Ex<T>) -> Ex<T>) -> Ex<T> {
    let mut apart = 1;
    while apart < lanes {
        own = fold(own, subgroup::shuffle_xor(own, apart.read()));
        apart *= 2;
    }
    own
}

/// A matrix that holds in each row what the row's lanes have, by way of the subgroup's scores, which are read.
#[device]
fn across<R: Dim, D: Dim>(
    scores: &Shared<Vec4<f32>>,
    own: f32,
    #[comptime] t: AttentionShape,
) -> Tile<f32, Acc, Sg, R, D> {
    let n_own = comptime!(t.edge / t.sharing() / 4);
    let first = subgroup_id() * comptime!(t.edge * t.score_pitch());
    subgroup_barrier();
    for j in comptime!(0..n_own) {
        let at = first + lane() / comptime!(t.sharing()) * comptime!(t.score_pitch());
        scores[at + lane() % comptime!(t.sharing()) * n_own + j] = splat::<Vec4<f32>>(own);
    }
    subgroup_barrier();
    let pitch = comptime!(t.score_pitch());
    Tile::<f32, Acc, Sg, R, D>::load(scores, first, pitch)
}

/// Eight numbers as halves, times `scale`.
#[device]
fn halves(a: Vec4<f32>, b: Vec4<f32>, scale: f32) -> Vec4<u32> {
    vec4(
        half(a.x() * scale, a.y() * scale),
        half(a.z() * scale, a.w() * scale),
        half(b.x() * scale, b.y() * scale),
        half(b.z() * scale, b.w() * scale),
    )
}

/// Two numbers as a word; what is larger than every f16 becomes the largest.
#[device]
fn half(a: f32, b: f32) -> u32 {
    pack_half(vec2(clamp(a, -LARGEST, LARGEST), clamp(b, -LARGEST, LARGEST)))
}
