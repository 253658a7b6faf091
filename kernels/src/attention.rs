//! `y[r, h] = Σ_i softmax_i(scale · q[r, h] · k[i, h / g]) · v[i, h / g]` over the positions i that row r sees.
//!
//! Source: Vaswani et al., arXiv:1706.03762, equation 1; the running maximum and sum: Milakov and Gimelshein,
//! arXiv:1805.02867, algorithm 3; soft caps: Gemma Team, arXiv:2408.00118, section 2. Row r of a sequence at position p
//! sees max(0, p + 1 − window)..=p.
//! Shapes: q, y `[rows, n_head, head_dim]` f32; pages as [`crate::kv_store`] fills them; g = n_head / n_head_kv.
//! Who owns what: a workgroup owns a (row, head) and walks the pages; in a page, an invocation scores positions t and
//! t + 128. For the result the invocations form groups of a line's data words: an invocation owns the elements of its
//! word over every n_groups-th position, and the groups' sums are added at the end.
//! Traffic: two lines per position and head, memory-bound at one row.
//! Where lines are mixed, so is the query, and the result once more at the end.
//! Numerics: f32; the order depends on the position and the window alone, so a row's result is the same bits
//! whatever rows share its step.

use kiln_abi::Kernel;
use kiln_dsl::prelude::*;

use crate::{
    Variant,
    conformance::{Buffer, Case, Random, f32_bytes, u32_bytes},
    fold::{fold_max, fold_sums},
    hadamard::hadamard,
    kv_store::PAGE,
    kv_type::{KV_BLOCK, KvType, kv_element, kv_low, kv_scale},
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

/// Invocations side by side that hold a line's words; each holds as many more as do not fit.
const fn groups(words: u32) -> u32 {
    if words < LOCAL_SIZE { LOCAL_SIZE / words } else { 1 }
}

/// The kernel.
#[kernel(local_size = LOCAL_SIZE, grid = [p.n_head, p.rows])]
pub fn attention(
    #[len(p.rows * p.n_head * head_dim)] q: &Buf<f32>,
    #[len(p.n_pages * p.n_head_kv * PAGE * ty.line_words(head_dim))] k_pages: &Buf<u32>,
    #[len(p.n_pages * p.n_head_kv * PAGE * ty.line_words(head_dim))] v_pages: &Buf<u32>,
    #[len(4 + 4 * p.rows)] step: &Buf<u32>,
    #[len(p.n_slots * p.max_pages)] table: &Buf<u32>,
    #[len(p.rows * p.n_head * head_dim)] y: &BufMut<f32>,
    #[push] p: AttentionPush,
    #[comptime] head_dim: u32,
    #[comptime] ty: KvType,
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

    let words = comptime!(ty.data_words(head_dim));
    let per_word = comptime!(ty.per_word());
    let n_groups = comptime!(groups(words));
    let held = comptime!(words.div_ceil(LOCAL_SIZE));
    let group = t / words;

    let query = Shared::<f32>::new(head_dim);
    let weights = Shared::<f32>::new(PAGE);
    let folded = Shared::<f32>::new(LOCAL_SIZE);
    let sums = Shared::<f32>::new(comptime!(n_groups * head_dim));
    for d in (t..head_dim).step_by(LOCAL_SIZE) {
        query[d] = q[out + d] * p.scale;
    }
    barrier();
    if comptime!(ty.is_mixed()) {
        hadamard(&query, t, comptime!(head_dim), comptime!(LOCAL_SIZE));
    }

    let mut highest = UNSEEN;
    let mut total = 0.0;
    let mut acc = [0.0; comptime!(held * per_word)];
    for page in (first / PAGE)..(position / PAGE + 1) {
        let line = (table[slot * p.max_pages + page] * p.n_head_kv + head_kv) * PAGE;
        for i in comptime!([0, LOCAL_SIZE]) {
            let at = page * PAGE + t + i;
            let mut score = UNSEEN;
            if at >= first && at <= position {
                let key = (line + t + i) * comptime!(ty.line_words(head_dim));
                score = score_of(&query, &k_pages, key, comptime!(head_dim), comptime!(ty));
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
        for j in comptime!(0..held) {
            let w = t % words + j * LOCAL_SIZE;
            if group < n_groups && w < words {
                for e in comptime!(0..per_word) {
                    acc[j * per_word + e] *= kept;
                }
                for i in (from + group..to).step_by(n_groups) {
                    let value = (line + i) * comptime!(ty.line_words(head_dim));
                    let word = v_pages[value + w];
                    let low = kv_low(&v_pages, value, w, comptime!(ty), comptime!(head_dim));
                    let b = w / comptime!(KV_BLOCK / per_word);
                    let weight =
                        weights[i] * kv_scale(&v_pages, value, b, comptime!(ty), comptime!(head_dim));
                    for e in comptime!(0..per_word) {
                        let v = kv_element(word, low, comptime!(ty), comptime!(e));
                        acc[j * per_word + e] = fma(weight, v, acc[j * per_word + e]);
                    }
                }
            }
        }
        barrier();
    }
    for j in comptime!(0..held) {
        let w = t % words + j * LOCAL_SIZE;
        if group < n_groups && w < words {
            for e in comptime!(0..per_word) {
                sums[group * head_dim + w * per_word + e] = acc[j * per_word + e];
            }
        }
    }
    barrier();
    for d in (t..head_dim).step_by(LOCAL_SIZE) {
        let mut sum = sums[d];
        for g in comptime!(1..n_groups) {
            sum += sums[g * head_dim + d];
        }
        if comptime!(ty.is_mixed()) {
            query[d] = sum / total;
        } else {
            y[out + d] = sum / total;
        }
    }
    if comptime!(ty.is_mixed()) {
        barrier();
        hadamard(&query, t, comptime!(head_dim), comptime!(LOCAL_SIZE));
        for d in (t..head_dim).step_by(LOCAL_SIZE) {
            y[out + d] = query[d];
        }
    }
}

/// The product of the query and the key whose line starts at word `key`.
#[device]
fn score_of(
    query: &Shared<f32>,
    k_pages: &Buf<u32>,
    key: u32,
    #[comptime] head_dim: u32,
    #[comptime] ty: KvType,
) -> f32 {
    let per_word = comptime!(ty.per_word());
    let mut score = 0.0;
    if comptime!(ty == KvType::Q8_0) {
        for b in 0..comptime!(head_dim / KV_BLOCK) {
            let mut sum = 0.0;
            for w in b * comptime!(KV_BLOCK / per_word)..(b + 1) * comptime!(KV_BLOCK / per_word) {
                let word = k_pages[key + w];
                let low = kv_low(&k_pages, key, w, comptime!(ty), comptime!(head_dim));
                for e in comptime!(0..per_word) {
                    sum =
                        fma(query[w * per_word + e], kv_element(word, low, comptime!(ty), comptime!(e)), sum);
                }
            }
            score = fma(kv_scale(&k_pages, key, b, comptime!(ty), comptime!(head_dim)), sum, score);
        }
    } else {
        for w in 0..comptime!(ty.data_words(head_dim)) {
            let word = k_pages[key + w];
            for e in comptime!(0..per_word) {
                score = fma(query[w * per_word + e], kv_element(word, 0, comptime!(ty), comptime!(e)), score);
            }
        }
    }
    score
}

/// The widest head; its query and the groups' sums have to fit a workgroup's memory.
pub const MAX_HEAD_DIM: u32 = 256;

/// Whether heads of `head_dim` elements can be kept as `ty`.
pub const fn serves(head_dim: u32, ty: KvType) -> bool {
    head_dim > 0 && head_dim <= MAX_HEAD_DIM && head_dim.is_multiple_of(ty.multiple())
}

/// Widths of a head that are checked in each type: words that divide a workgroup, that do not, and more than it has.
pub(crate) fn layouts() -> impl Iterator<Item = (u32, KvType)> {
    use KvType::{F16, F32, Q8_0};
    [(64, F16), (80, F16), (128, F16), (256, F16), (64, F32), (256, F32), (64, Q8_0), (96, Q8_0), (256, Q8_0)]
        .into_iter()
}

/// One variant for each width of a head and type of keys and values.
pub fn variants() -> Vec<Variant> {
    let variant = |(head_dim, ty): (u32, KvType)| {
        // The type and width change how a line is read, not what a row sees.
        let shapes = [
            (3, 3, 1, 0, 0.0),
            (2, 4, 2, 100, 1.5),
            (1, 1, 1, 0, 0.0),
            (2, 4, 2, 0, 0.5),
            (3, 3, 1, 1, 0.0),
            (2, 1, 1, PAGE, 0.5),
        ];
        let n = if (head_dim, ty) == (64, KvType::F16) { shapes.len() } else { 2 };
        let cases = move || shapes[..n].iter().map(|s| case(head_dim, ty, *s)).collect();
        Variant::new("attention", Attention::new(head_dim, ty), cases)
    };
    layouts().map(variant).collect()
}

fn case(
    head_dim: u32,
    ty: KvType,
    (rows, n_head, n_head_kv, window, soft_cap): (u32, u32, u32, u32, f32),
) -> Case {
    let mut random = Random::new(u64::from(head_dim) << 32 | u64::from(n_head));
    let q: Vec<f32> = random.units((rows * n_head * head_dim) as usize).iter().map(|x| 4.0 * x).collect();
    let (table, n_slots, max_pages, n_pages) = ([2u32, 0, 3, 1], 2, 2, 4);
    let n_lines = n_pages * n_head_kv * PAGE;
    let mut pages = || -> Vec<Vec<u32>> {
        let line = |_| reference::kv::encode(&random.units(head_dim as usize), ty);
        (0..n_lines).map(line).collect()
    };
    let (k_pages, v_pages) = (pages(), pages());
    let values = |pages: &[Vec<u32>]| -> Vec<f32> {
        pages.iter().flat_map(|line| reference::kv::decode(line, head_dim as usize, ty)).collect()
    };
    let (k, v) = (values(&k_pages), values(&v_pages));
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
        mixed: ty.is_mixed(),
    };
    let line = |slot: u32, position: usize, head: usize| {
        let page = table[(slot * max_pages) as usize + position / PAGE as usize] as usize;
        (page * n_head_kv as usize + head) * PAGE as usize + position % PAGE as usize
    };
    Case {
        name: format!(
            "rows = {rows}, n_head = {n_head}, n_head_kv = {n_head_kv}, window = {window}, soft_cap = {soft_cap}"
        ),
        buffers: vec![
            Buffer::Input(f32_bytes(&q)),
            Buffer::Input(u32_bytes(&k_pages.concat())),
            Buffer::Input(u32_bytes(&v_pages.concat())),
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
            Attention::new(head_dim, ty).bind(&AttentionArgs { q, k_pages, v_pages, step, table, y, p })
        }),
    }
}
