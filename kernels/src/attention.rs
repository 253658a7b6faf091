//! `y[r, h] = Σ_i softmax_i(scale · q[r, h] · k[i, h / g]) · v[i, h / g]` over the positions i that row r sees.
//!
//! Source: Vaswani et al., arXiv:1706.03762, equation 1; the running maximum and sum: Milakov and Gimelshein,
//! arXiv:1805.02867, algorithm 3; soft caps: Gemma Team, arXiv:2408.00118, section 2. Row r of a sequence at position p
//! sees max(0, p + 1 − window)..=p.
//! Shapes: q, y `[rows, n_head, head_dim]` f32; pages as [`crate::kv_store`] fills them; g = n_head / n_head_kv.
//! Who owns what: a workgroup owns a (row, head) and walks the pages; in a page, an invocation scores positions t and
//! t + 128, then owns elements t, t + 128, … of the result.
//! Traffic: 4 · head_dim bytes per position and head, memory-bound at one row.
//! Numerics: f32; the order depends on the position and the window alone, so a row's result is the same bits
//! whatever rows share its step.

use half::f16;
use kiln_abi::Kernel;
use kiln_dsl::prelude::*;

use crate::{
    Variant,
    conformance::{Buffer, Case, Random, f32_bytes, u32_bytes},
    fold::{fold_max, fold_sums},
    kv_store::PAGE,
    reference,
    step::{StepRow, n_rows, row_position, row_slot, step_block},
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
}

const LOCAL_SIZE: u32 = PAGE / 2;
/// A score that no position has: its weight is zero.
const UNSEEN: f32 = -1.0e30;

/// The kernel.
#[kernel(local_size = LOCAL_SIZE, grid = [p.n_head, p.rows])]
pub fn attention(
    #[len(p.rows * p.n_head * head_dim)] q: &Buf<f32>,
    #[len(p.n_pages * p.n_head_kv * PAGE * head_dim)] k_pages: &Buf<f16>,
    #[len(p.n_pages * p.n_head_kv * PAGE * head_dim)] v_pages: &Buf<f16>,
    #[len(4 + 4 * p.rows)] step: &Buf<u32>,
    #[len(p.n_slots * p.max_pages)] table: &Buf<u32>,
    #[len(p.rows * p.n_head * head_dim)] y: &BufMut<f32>,
    #[push] p: AttentionPush,
    #[comptime] head_dim: u32,
) {
    let (h, r) = (workgroup_id_x(), workgroup_id_y());
    if r >= n_rows(&step) {
        return;
    }
    let t = local_id();
    let position = row_position(&step, r);
    let slot = row_slot(&step, r);
    let seen = if p.window == 0 { position + 1 } else { min(position + 1, p.window) };
    let first = position + 1 - seen;
    let head_kv = h / (p.n_head / p.n_head_kv);
    let out = (r * p.n_head + h) * head_dim;

    let query = Shared::<f32>::new(head_dim);
    let weights = Shared::<f32>::new(PAGE);
    let folded = Shared::<f32>::new(LOCAL_SIZE);
    for d in (t..head_dim).step_by(LOCAL_SIZE) {
        query[d] = q[out + d] * p.scale;
    }
    barrier();

    let mut highest = UNSEEN;
    let mut total = 0.0;
    let mut acc = [0.0; comptime!(head_dim.div_ceil(LOCAL_SIZE))];
    for page in (first / PAGE)..(position / PAGE + 1) {
        let line = (table[slot * p.max_pages + page] * p.n_head_kv + head_kv) * PAGE;
        for i in comptime!([0, LOCAL_SIZE]) {
            let at = page * PAGE + t + i;
            let mut score = UNSEEN;
            if at >= first && at <= position {
                let key = (line + t + i) * head_dim;
                score = 0.0;
                for d in 0..head_dim {
                    score = fma(query[d], k_pages[key + d] as f32, score);
                }
                if p.soft_cap > 0.0 {
                    // tanh(x) = 1 − 2 / (1 + e^2x), whose limits at both ends are those of e^2x.
                    score = p.soft_cap * (1.0 - 2.0 / (1.0 + exp(2.0 * score / p.soft_cap)));
                }
            }
            weights[t + i] = score;
        }
        folded[t] = max(weights[t], weights[t + LOCAL_SIZE]);
        fold_max(&folded, t, comptime!(LOCAL_SIZE));
        let raised = max(highest, folded[0]);
        let kept = exp(highest - raised);
        barrier();
        let low = exp(weights[t] - raised);
        let high = exp(weights[t + LOCAL_SIZE] - raised);
        weights[t] = low;
        weights[t + LOCAL_SIZE] = high;
        folded[t] = low + high;
        fold_sums(&folded, t, comptime!(LOCAL_SIZE));
        total = total * kept + folded[0];
        highest = raised;

        let from = max(first, page * PAGE) - page * PAGE;
        let to = min(position - page * PAGE, PAGE - 1) + 1;
        for j in comptime!(0..head_dim.div_ceil(LOCAL_SIZE)) {
            let d = t + j * LOCAL_SIZE;
            if d < head_dim {
                let mut sum = acc[j] * kept;
                for i in from..to {
                    sum = fma(weights[i], v_pages[(line + i) * head_dim + d] as f32, sum);
                }
                acc[j] = sum;
            }
        }
        barrier();
    }
    for j in comptime!(0..head_dim.div_ceil(LOCAL_SIZE)) {
        let d = t + j * LOCAL_SIZE;
        if d < head_dim {
            y[out + d] = acc[j] / total;
        }
    }
}

/// Widths of a head that models have.
pub const HEAD_DIMS: &[u32] = &[64, 128, 256];

/// One variant for each width of a head.
pub fn variants() -> Vec<Variant> {
    let variant = |head_dim| {
        let cases = move || {
            [
                (1, 1, 1, 0, 0.0),
                (3, 3, 1, 0, 0.0),
                (2, 4, 2, 0, 1.5),
                (2, 2, 1, 100, 0.0),
                (3, 3, 1, 1, 0.0),
                (2, 1, 1, PAGE, 0.5),
            ]
            .map(|s| case(head_dim, s))
            .into()
        };
        Variant::new("attention", Attention::new(head_dim), cases)
    };
    HEAD_DIMS.iter().copied().map(variant).collect()
}

fn case(head_dim: u32, (rows, n_head, n_head_kv, window, soft_cap): (u32, u32, u32, u32, f32)) -> Case {
    let mut random = Random::new(u64::from(head_dim) << 32 | u64::from(n_head));
    let q: Vec<f32> = random.units((rows * n_head * head_dim) as usize).iter().map(|x| 4.0 * x).collect();
    let (table, n_slots, max_pages, n_pages) = ([2u32, 0, 3, 1], 2, 2, 4);
    let elems = (n_pages * n_head_kv * PAGE * head_dim) as usize;
    let mut halves = || -> Vec<f16> { random.units(elems).into_iter().map(f16::from_f32).collect() };
    let (k, v) = (halves(), halves());
    // The first position, a page's last, one past it; the second slot too.
    let positions = [0, PAGE - 1, PAGE + 40];
    let lines: Vec<_> = (0..rows)
        .map(|r| StepRow { token: 0, position: positions[(r + n_head) as usize % 3], slot: r % 2 })
        .collect();
    let scale = 1.0 / (head_dim as f32).sqrt();
    let shape = reference::AttentionShape {
        n_head: n_head as usize,
        n_head_kv: n_head_kv as usize,
        head_dim: head_dim as usize,
        window: (window > 0).then_some(window as usize),
        scale,
        soft_cap: (soft_cap > 0.0).then_some(soft_cap),
    };
    let line = |slot: u32, position: usize, head: usize| {
        let page = table[(slot * max_pages) as usize + position / PAGE as usize] as usize;
        (page * n_head_kv as usize + head) * PAGE as usize + position % PAGE as usize
    };
    let bytes = |x: &[f16]| x.iter().flat_map(|x| x.to_le_bytes()).collect();
    Case {
        name: format!(
            "rows = {rows}, n_head = {n_head}, n_head_kv = {n_head_kv}, window = {window}, soft_cap = {soft_cap}"
        ),
        buffers: vec![
            Buffer::Input(f32_bytes(&q)),
            Buffer::Input(bytes(&k)),
            Buffer::Input(bytes(&v)),
            Buffer::Input(u32_bytes(&step_block(&lines, &[], rows))),
            Buffer::Input(u32_bytes(&table)),
            Buffer::Output(4 * q.len()),
        ],
        expected: vec![reference::attention(&q, (&k, &v), &lines, shape, line).at(5)],
        bind: Box::new(move |r| {
            let p = AttentionPush {
                rows,
                n_head,
                n_head_kv,
                max_pages,
                n_slots,
                n_pages,
                window,
                scale,
                soft_cap,
            };
            let (q, k_pages, v_pages) = (r[0].into(), r[1].into(), r[2].into());
            let (step, table, y) = (r[3].into(), r[4].into(), r[5].into());
            Attention::new(head_dim).bind(&AttentionArgs { q, k_pages, v_pages, step, table, y, p })
        }),
    }
}
