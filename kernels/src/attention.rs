//! `y[r, h] = Σ_i softmax_i(scale · q[r, h] · k[i, h / g]) · v[i, h / g]` over the positions i that row r sees.
//!
//! Source: Vaswani et al., arXiv:1706.03762, equation 1; the running maximum and sum: Milakov and Gimelshein,
//! arXiv:1805.02867, algorithm 3; soft caps: Gemma Team, arXiv:2408.00118, section 2. Row r of a sequence at position p
//! sees max(0, p + 1 − window)..=p.
//! Shapes: q, y `[rows, n_head, head_dim]` f32; pages as [`crate::kv_store`] fills them; g = n_head / n_head_kv.
//! Who owns what: a workgroup owns a (row, head) and walks the pages; in a page, an invocation scores positions t and
//! t + 128. For the result the invocations form groups of a line's data words, four words each where lines are whole
//! fours: an invocation owns the elements of its words over every n_groups-th position, and the groups' sums are added
//! at the end.
//! Traffic: two lines per position and head, memory-bound at one row.
//! Where lines are mixed, so is the query, and the result once more at the end.
//! Numerics: f32; the order depends on the position and the window alone, so a row's result is the same bits
//! whatever rows share its step.

use std::fmt;

use kiln_abi::Kernel;
use kiln_dsl::prelude::*;

use crate::{
    Variant,
    activations::{self, BLOCK, FIELDS, Planes, put_four, put_len},
    conformance::{Buffer, Case, Content, Expected, Random, f32_bytes, u32_bytes},
    fold::{fold_all, fold_all_len, most_of_all},
    gemv::SUBGROUP,
    hadamard::hadamard,
    kv_store::PAGE,
    kv_type::{KV_BLOCK, KvType, kv_element, kv_low, kv_scale},
    reference::{self, Bounded},
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

/// Words of a line that an invocation reads at once.
const fn together(head_dim: u32, ty: KvType) -> u32 {
    if !ty.is_mixed() && ty.line_words(head_dim).is_multiple_of(4) { 4 } else { 1 }
}

/// The kernel.
#[kernel(local_size = LOCAL_SIZE, subgroup = subgroup, grid = [p.n_head, p.rows])]
pub fn attention(
    #[len(p.rows * p.n_head * head_dim)] q: &Buf<f32>,
    #[len(p.n_pages * p.n_head_kv * PAGE * ty.line_words(head_dim))] k_pages: &Buf<u32>,
    #[len(p.n_pages * p.n_head_kv * PAGE * ty.line_words(head_dim))] v_pages: &Buf<u32>,
    #[len(4 + 4 * p.rows)] step: &Buf<u32>,
    #[len(p.n_slots * p.max_pages)] table: &Buf<u32>,
    #[when(leaves == Leaves::Rows)]
    #[len(p.rows * p.n_head * head_dim)]
    y: &BufMut<f32>,
    #[when(leaves == Leaves::Blocks)]
    #[len(p.rows * (p.n_head * head_dim / BLOCK) * FIELDS * 4)]
    packed: &BufMut<u32>,
    #[push] p: AttentionPush,
    #[comptime] head_dim: u32,
    #[comptime] ty: KvType,
    #[comptime] leaves: Leaves,
    #[comptime] subgroup: Option<u32>,
) {
    let (h, r) = (workgroup_id_x(), workgroup_id_y());
    // A single row is there in every step: nobody waits for the count.
    if p.rows > 1 {
        if r >= n_rows(&step) {
            return;
        }
    }
    let t = local_id();
    let position = row_position(&step, r);
    let slot = row_slot(&step, r);
    let seen = if p.window == 0 { position + 1 } else { min(position + 1, p.window) };
    let first = position + 1 - seen;
    let head_kv = h / (p.n_head / p.n_head_kv);
    let out = (r * p.n_head + h) * head_dim;

    let at_once = comptime!(together(head_dim, ty));
    let words = comptime!(ty.data_words(head_dim) / at_once);
    let per_word = comptime!(ty.per_word());
    let per_read = comptime!(ty.per_word() * at_once);
    let n_groups = comptime!(groups(words));
    let held = comptime!(words.div_ceil(LOCAL_SIZE));
    let group = t / words;

    let query = Shared::<f32>::new(head_dim);
    let weights = Shared::<f32>::new(PAGE);
    let folded = Shared::<f32>::new(comptime!(fold_all_len(LOCAL_SIZE, subgroup)));
    let sums = Shared::<f32>::new(comptime!(n_groups * head_dim));
    for d in (t..head_dim).step_by(LOCAL_SIZE) {
        query[d] = q[out + d] * p.scale;
    }
    barrier();
    if comptime!(ty.is_mixed()) {
        hadamard(&query, t, comptime!(head_dim), comptime!(LOCAL_SIZE));
    }

    let v_fours = v_pages.view::<Vec4<u32>>();
    let mut highest = UNSEEN;
    let mut total = 0.0;
    let mut acc = [0.0; comptime!(held * per_read)];
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
        let most = max(weights[t], weights[t + LOCAL_SIZE]);
        let raised = max(highest, most_of_all(most, &folded, t, comptime!(LOCAL_SIZE), comptime!(subgroup)));
        let kept = exp(highest - raised);
        let low = exp(weights[t] - raised);
        let high = exp(weights[t + LOCAL_SIZE] - raised);
        weights[t] = low;
        weights[t + LOCAL_SIZE] = high;
        let sum = fold_all(low + high, &folded, t, comptime!(LOCAL_SIZE), comptime!(subgroup));
        total = total * kept + sum;
        highest = raised;

        let from = max(first, page * PAGE) - page * PAGE;
        let to = min(position - page * PAGE, PAGE - 1) + 1;
        for j in comptime!(0..held) {
            let w = t % words + j * LOCAL_SIZE;
            if group < n_groups && w < words {
                for e in comptime!(0..per_read) {
                    acc[j * per_read + e] *= kept;
                }
                for i in (from + group..to).step_by(n_groups) {
                    let value = (line + i) * comptime!(ty.line_words(head_dim));
                    if comptime!(at_once == 4) {
                        let weight = weights[i];
                        let four = v_fours[value / 4 + w];
                        let read = [four.x(), four.y(), four.z(), four.w()];
                        for e in comptime!(0..per_read) {
                            let v = kv_element(read[e / per_word], 0, comptime!(ty), comptime!(e % per_word));
                            acc[j * per_read + e] = fma(weight, v, acc[j * per_read + e]);
                        }
                    } else {
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
        }
        barrier();
    }
    for j in comptime!(0..held) {
        let w = t % words + j * LOCAL_SIZE;
        if group < n_groups && w < words {
            for e in comptime!(0..per_read) {
                sums[group * head_dim + w * per_read + e] = acc[j * per_read + e];
            }
        }
    }
    barrier();
    let direct = comptime!(!ty.is_mixed() && leaves == Leaves::Rows);
    for d in (t..head_dim).step_by(LOCAL_SIZE) {
        let mut sum = sums[d];
        for g in comptime!(1..n_groups) {
            sum += sums[g * head_dim + d];
        }
        if comptime!(direct) {
            y[out + d] = sum / total;
        } else {
            query[d] = sum / total;
        }
    }
    if comptime!(!direct) {
        barrier();
        if comptime!(ty.is_mixed()) {
            hadamard(&query, t, comptime!(head_dim), comptime!(LOCAL_SIZE));
        }
        if comptime!(leaves == Leaves::Rows) {
            for d in (t..head_dim).step_by(LOCAL_SIZE) {
                y[out + d] = query[d];
            }
        } else {
            let shared = Shared::<u32>::new(comptime!(put_len(LOCAL_SIZE, subgroup)));
            let (fours, own) = (p.n_head * comptime!(head_dim / 4), comptime!(head_dim / 4));
            let d = min(t, own - 1) * 4;
            let four = vec4(query[d], query[d + 1], query[d + 2], query[d + 3]);
            let at = select(t < own, h * own + t, fours);
            put_four(four, at, r, fours, &packed, &shared, comptime!(Planes::Two), comptime!(subgroup));
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
    } else if comptime!(together(head_dim, ty) == 4) {
        let fours = k_pages.view::<Vec4<u32>>();
        let n = comptime!(ty.data_words(head_dim) / 4);
        // Several are asked for before any is used.
        let ahead = comptime!(if n % 4 == 0 { 4u32 } else { 1 });
        for first in (0..n).step_by(ahead) {
            let mut read = [splat::<Vec4<u32>>(0); ahead];
            for a in comptime!(0..ahead) {
                read[a] = fours[key / 4 + first + a];
            }
            for a in comptime!(0..ahead) {
                let four = read[a];
                let words = [four.x(), four.y(), four.z(), four.w()];
                for e in comptime!(0..4 * per_word) {
                    let k = kv_element(words[e / per_word], 0, comptime!(ty), comptime!(e % per_word));
                    score = fma(query[(first + a) * (4 * per_word) + e], k, score);
                }
            }
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
    let variant = |(head_dim, ty, leaves, subgroup): (u32, KvType, Leaves, Option<u32>)| {
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
        let cases = move || shapes[..n].iter().map(|s| case((head_dim, ty, leaves, subgroup), *s)).collect();
        let of_blocks = matches!(leaves, Leaves::Blocks).to_string();
        let cut = vec![head_dim.to_string(), ty.name().to_owned(), of_blocks, format!("{subgroup:?}")];
        Variant::new("attention", Attention::new(head_dim, ty, leaves, subgroup), cases).cut(cut)
    };
    let rows = layouts().map(|(head_dim, ty)| (head_dim, ty, Leaves::Rows, None));
    let blocks = [
        (64, KvType::F16, None),
        (64, KvType::F16, Some(SUBGROUP)),
        (128, KvType::F16, Some(SUBGROUP)),
        (256, KvType::F16, Some(SUBGROUP)),
        (96, KvType::Q8_0, Some(SUBGROUP)),
    ];
    rows.chain(blocks.map(|(head_dim, ty, subgroup)| (head_dim, ty, Leaves::Blocks, subgroup)))
        .map(variant)
        .collect()
}

fn case(
    (head_dim, ty, leaves, subgroup): (u32, KvType, Leaves, Option<u32>),
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
    let exact = reference::attention(&q, (&k, &v), &lines, shape, line);
    let (bytes, expected) = match leaves {
        Leaves::Rows => (4 * q.len(), exact.at(5)),
        Leaves::Blocks => {
            let (k, Bounded { values, bounds }) = ((n_head * head_dim) as usize, exact);
            let bounds = activations::with_steps(&values, &bounds);
            let bytes = activations::row_bytes(Planes::Two, rows.into(), n_head * head_dim);
            let content = Content::Blocks { k, values, bounds };
            (usize::try_from(bytes).unwrap_or(0), Expected { binding: 5, content })
        }
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
            Buffer::Output(bytes),
        ],
        expected: vec![expected],
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
            let (step, table) = (r[3].into(), r[4].into());
            let y = (leaves == Leaves::Rows).then(|| r[5].into());
            let packed = (leaves == Leaves::Blocks).then(|| r[5].into());
            let args = AttentionArgs { q, k_pages, v_pages, step, table, y, packed, p };
            Attention::new(head_dim, ty, leaves, subgroup).bind(&args)
        }),
    }
}
