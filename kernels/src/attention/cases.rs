//! Launches that attention is checked by.

use kiln_abi::{BufferRange, Kernel, LaunchArgs};

use super::{
    Attention, AttentionArgs, AttentionPush, CHUNK, Grain, Leaves, Reach, layouts,
    parts::{AttentionParts, AttentionPartsArgs, AttentionPartsPush},
};
use crate::{
    Variant,
    activations::{self, Planes},
    conformance::{Buffer, Case, Content, Expected, Random, SENTINEL, f32_bytes, u32_bytes},
    gemv::SUBGROUP,
    heads::HeadsForm,
    kv_store::PAGE,
    kv_type::KvType,
    reference::{self, AttentionShape, Bounded},
    step::{StepRow, step_block},
};

/// What a row sees, and by how many heads.
#[derive(Clone, Copy)]
struct Shape {
    positions: &'static [u32],
    n_head: u32,
    n_head_kv: u32,
    window: u32,
    soft_cap: f32,
}

const fn shape(positions: &'static [u32], heads: (u32, u32), window: u32, soft_cap: f32) -> Shape {
    Shape { positions, n_head: heads.0, n_head_kv: heads.1, window, soft_cap }
}

/// One key, a chunk less one, a chunk, one more; the same of a page; several chunks of two pages. Windows that start
/// within a chunk, at its first key, at the row itself; heads alone, in pairs, in threes.
const SHAPES: [Shape; 8] = [
    shape(&[0, PAGE - 1, PAGE + 40], (3, 1), 0, 0.0),
    shape(&[PAGE + 40, 5], (4, 2), 100, 1.5),
    shape(&[PAGE + 70], (1, 1), 0, 0.0),
    shape(&[CHUNK - 2, CHUNK - 1, CHUNK], (2, 2), 0, 0.0),
    shape(&[PAGE - 2, PAGE], (4, 2), 0, 0.5),
    shape(&[0, CHUNK, PAGE + 40], (3, 3), 1, 0.0),
    shape(&[PAGE - 1, PAGE + CHUNK - 1], (7, 1), CHUNK, 0.0),
    shape(&[PAGE + 2 * CHUNK], (5, 1), PAGE, 0.5),
];

/// The same of heads that come raw, a row of each slot at most: its own key alone, first and last of a chunk, in the
/// chunk of a window's start.
const RAW_SHAPES: [Shape; 5] = [
    shape(&[0], (3, 1), 0, 0.0),
    shape(&[PAGE + 40, 5], (4, 2), 100, 1.5),
    shape(&[CHUNK - 1, CHUNK], (2, 2), 0, 0.0),
    shape(&[PAGE - 1, PAGE + CHUNK - 1], (7, 1), CHUNK, 0.0),
    shape(&[PAGE + 2 * CHUNK], (5, 1), 0, 0.5),
];

/// The first shapes alone, where a variant changes how a line is read and not what a row sees.
const FEW: usize = 2;
const MAX_PAGES: u32 = 2;
const N_SLOTS: u32 = 2;
const N_PAGES: u32 = 4;
const TABLE: [u32; 4] = [2, 0, 3, 1];

/// Every reach and way to leave, every layout of lines, each with its parts brought together.
pub fn variants() -> Vec<Variant> {
    use Grain::{Chunk, Page};
    use Leaves::{Blocks, Rows};
    let all = |leaves| Reach::All(leaves);
    let of = |heads, reach, subgroup| move |(head_dim, ty)| (head_dim, ty, heads, reach, subgroup);
    let (plain, shuffled) = (None, Some(SUBGROUP));
    let f16 = |head_dim| (head_dim, KvType::F16);
    let mut kinds: Vec<(u32, KvType, u32, Reach, Option<u32>)> = Vec::new();
    kinds.extend(layouts().map(of(1, all(Rows), plain)));
    kinds.extend(layouts().map(of(1, Reach::Part(Chunk), plain)));
    kinds.extend(layouts().map(of(2, Reach::Part(Chunk), shuffled)));
    kinds.extend([of(1, Reach::Part(Page), plain)(f16(64)), of(1, all(Blocks), plain)(f16(64))]);
    for (head_dim, heads) in [(64, 4), (128, 4), (256, 2)] {
        let reaches = [all(Blocks), all(Rows), Reach::Part(Page)];
        kinds.extend(reaches.map(|reach| of(heads, reach, shuffled)(f16(head_dim))));
    }
    kinds.extend([1, 3, 4].map(|heads| of(heads, Reach::Part(Chunk), shuffled)(f16(128))));
    kinds.extend([all(Blocks), Reach::Part(Page)].map(|reach| of(2, reach, shuffled)((96, KvType::Q8_0))));
    kinds.push(of(4, Reach::Part(Page), shuffled)((128, KvType::F32)));
    let form = |norm, halves| HeadsForm { norm, halves, keys_alone: false };
    for (heads, subgroup, (head_dim, ty)) in
        [(1, plain, f16(64)), (4, shuffled, f16(128)), (2, shuffled, f16(80))]
    {
        let reaches = [all(Blocks), Reach::Part(Chunk)].map(|reach| reach.of_raw(form(true, true)));
        let reaches = reaches.into_iter().filter(|reach| head_dim != 80 || reach.leaves().is_none());
        kinds.extend(reaches.map(|reach| of(heads, reach, subgroup)((head_dim, ty))));
    }
    let others = [form(false, false), form(false, true), form(true, false)];
    kinds.extend(others.map(|form| of(2, all(Rows).of_raw(form), shuffled)(f16(64))));
    let walks = kinds.into_iter().map(|(head_dim, ty, heads, reach, subgroup)| {
        let n = if (head_dim, ty) == (64, KvType::F16) { SHAPES.len() } else { FEW };
        let kernel = Attention::new(head_dim, ty, heads, reach, subgroup);
        let cases = move || {
            let bound = |shape: &Shape| walk_case((head_dim, ty, heads, reach, subgroup), *shape);
            if reach.raw().is_some() { &RAW_SHAPES } else { &SHAPES[..n] }.iter().map(bound).collect()
        };
        let cut = vec![
            head_dim.to_string(),
            ty.name().to_owned(),
            heads.to_string(),
            format!("{reach:?}"),
            format!("{subgroup:?}"),
        ];
        Variant::new("attention", kernel, cases).cut(cut)
    });
    let parts = [
        (64, false, Chunk, Rows, plain),
        (64, false, Page, Blocks, plain),
        (64, false, Page, Rows, shuffled),
        (33, false, Chunk, Rows, plain),
        (96, true, Page, Rows, plain),
        (96, true, Chunk, Blocks, shuffled),
        (128, false, Chunk, Blocks, shuffled),
        (128, false, Page, Blocks, shuffled),
        (256, false, Chunk, Blocks, shuffled),
        (256, true, Page, Rows, shuffled),
    ];
    let parts = parts.map(|(head_dim, mixed, grain, leaves, subgroup)| {
        let kernel = AttentionParts::new(head_dim, mixed, grain, leaves, subgroup);
        let cases = move || {
            let bound = |shape: &Shape| parts_case((head_dim, mixed, grain, leaves, subgroup), *shape);
            SHAPES.iter().map(bound).collect()
        };
        let cut = [head_dim.to_string(), mixed.to_string(), format!("{grain:?} {leaves:?} {subgroup:?}")];
        Variant::new("attention", kernel, cases).cut(cut.into())
    });
    walks.chain(parts).collect()
}

impl Shape {
    fn name(&self) -> String {
        let Shape { positions, n_head, n_head_kv, window, soft_cap } = self;
        format!(
            "rows at {positions:?}, n_head = {n_head}, n_head_kv = {n_head_kv}, window = {window}, soft_cap = {soft_cap}"
        )
    }

    fn rows(&self) -> u32 {
        self.positions.len() as u32
    }

    /// The first row in the first slot, the next in the second, and so on.
    fn lines(&self) -> Vec<StepRow> {
        let row =
            |(r, position): (usize, &u32)| StepRow { token: 0, position: *position, slot: r as u32 % 2 };
        self.positions.iter().enumerate().map(row).collect()
    }

    fn of_reference(&self, head_dim: u32, mixed: bool) -> AttentionShape {
        AttentionShape {
            n_head: self.n_head as usize,
            n_head_kv: self.n_head_kv as usize,
            head_dim: head_dim as usize,
            window: (self.window > 0).then_some(self.window as usize),
            scale: 1.0 / (head_dim as f32).sqrt(),
            soft_cap: (self.soft_cap > 0.0).then_some(self.soft_cap),
            mixed,
        }
    }

    /// Parts of the longest row that there is room for, and one more.
    fn n_parts(&self, grain: Grain) -> u32 {
        grain.parts(MAX_PAGES * PAGE, self.window) + 1
    }
}

/// What a result must be, and the bytes of its buffer.
fn result(exact: Bounded, leaves: Leaves, shape: Shape, head_dim: u32, binding: usize) -> (usize, Expected) {
    let width = shape.n_head * head_dim;
    match leaves {
        Leaves::Rows => (4 * exact.values.len(), exact.at(binding)),
        Leaves::Blocks => {
            let Bounded { values, bounds } = exact;
            let bounds = activations::with_steps(&values, &bounds);
            let bytes = activations::row_bytes(Planes::Two, shape.rows().into(), width);
            let content = Content::Blocks { k: width as usize, values, bounds };
            (usize::try_from(bytes).unwrap_or(0), Expected { binding, content })
        }
    }
}

fn walk_case(
    (head_dim, ty, heads, reach, subgroup): (u32, KvType, u32, Reach, Option<u32>),
    shape: Shape,
) -> Case {
    let Shape { n_head, n_head_kv, window, soft_cap, .. } = shape;
    let rows = shape.rows();
    let mut random = Random::new(u64::from(head_dim) << 32 | u64::from(rows));
    let mut q = random.units((rows * n_head * head_dim) as usize);
    let lines = shape.lines();
    let at = |slot: u32, position: usize, head: usize| {
        let page = TABLE[(slot * MAX_PAGES) as usize + position / PAGE as usize] as usize;
        (page * n_head_kv as usize + head) * PAGE as usize + position % PAGE as usize
    };
    let of_reference = shape.of_reference(head_dim, ty.is_mixed());
    let n_lines = (N_PAGES * n_head_kv * PAGE) as usize;
    // What no row sees is no number.
    let mut is_seen = vec![false; n_lines];
    for row in &lines {
        let first = if window == 0 { 0 } else { (row.position + 1).saturating_sub(window) };
        for position in first..=row.position {
            (0..n_head_kv as usize).for_each(|head| is_seen[at(row.slot, position as usize, head)] = true);
        }
    }
    let mut pages = || -> Vec<Vec<u32>> {
        let line = |seen: &bool| {
            let own = reference::kv::encode(&random.units(head_dim as usize), ty);
            if *seen { own } else { vec![u32::MAX; own.len()] }
        };
        is_seen.iter().map(line).collect()
    };
    let (mut k_pages, mut v_pages) = (pages(), pages());
    let mut inputs = Vec::new();
    let (mut k_before, mut v_before) = (k_pages.concat(), v_pages.concat());
    let n_rot = head_dim / 4 * 2;
    if let Some(form) = reach.raw() {
        let raw = Raw::new(&mut random, (form, head_dim, n_rot), &lines, [n_head, n_head_kv]);
        q = raw.ready(&raw.q, &raw.q_gain);
        let keys = raw.ready(&raw.k, &raw.k_gain);
        let own = keys.chunks_exact(head_dim as usize).zip(raw.v.chunks_exact(head_dim as usize));
        for (i, (key, value)) in own.enumerate() {
            let row = lines[i / n_head_kv as usize];
            let line = at(row.slot, row.position as usize, i % n_head_kv as usize);
            (k_pages[line], v_pages[line]) =
                (reference::kv::encode(key, ty), reference::kv::encode(value, ty));
            // What the pages hold there is not read.
            let words =
                line * ty.line_words(head_dim) as usize..(line + 1) * ty.line_words(head_dim) as usize;
            k_before[words.clone()].fill(u32::MAX);
            v_before[words].fill(u32::MAX);
        }
        inputs.extend([&raw.q, &raw.k, &raw.v].map(|x| Buffer::Input(f32_bytes(x))));
        if form.norm {
            inputs.extend([&raw.q_gain, &raw.k_gain].map(|x| Buffer::Input(f32_bytes(x))));
        }
        inputs.push(Buffer::Input(f32_bytes(&raw.angles)));
    } else {
        inputs.push(Buffer::Input(f32_bytes(&q)));
    }
    let values = |pages: &[Vec<u32>]| -> Vec<f32> {
        pages.iter().flat_map(|line| reference::kv::decode(line, head_dim as usize, ty)).collect()
    };
    let (k, v) = (values(&k_pages), values(&v_pages));
    let grain = reach.grain();
    let n_parts = grain.map_or(1, |grain| shape.n_parts(grain));
    let n_in = inputs.len() + 4;
    let outputs = match (reach.leaves(), grain) {
        (_, Some(grain)) => {
            let cut = (grain.keys() as usize, n_parts as usize, SENTINEL);
            let [sums, marks] = reference::attention_parts(&q, (&k, &v), &lines, of_reference, at, cut);
            let bytes = [&sums, &marks].map(|x| 4 * x.values.len());
            vec![(bytes[0], sums.at(n_in)), (bytes[1], marks.at(n_in + 1))]
        }
        (Some(leaves), None) => {
            let exact = reference::attention(&q, (&k, &v), &lines, of_reference, at);
            vec![result(exact, leaves, shape, head_dim, n_in)]
        }
        (None, None) => Vec::new(),
    };
    let mut buffers = inputs;
    buffers.extend([
        Buffer::Input(u32_bytes(&k_before)),
        Buffer::Input(u32_bytes(&v_before)),
        Buffer::Input(u32_bytes(&step_block(&lines, &[], rows))),
        Buffer::Input(u32_bytes(&TABLE)),
    ]);
    buffers.extend(outputs.iter().map(|(bytes, _)| Buffer::Output(*bytes)));
    let bind = move |r: &[BufferRange]| -> LaunchArgs {
        let mut ranges = r.iter().copied();
        let mut some = |has: bool| if has { ranges.next() } else { None };
        let (raw, norm) = (reach.raw().is_some(), reach.norms());
        let q = some(true).unwrap_or(r[0]);
        let (k, v, q_gain, k_gain) = (some(raw), some(raw), some(norm), some(norm));
        let angles = some(raw);
        let mut next = || some(true).unwrap_or(r[0]);
        let (k_pages, v_pages, step, table) = (next(), next(), next(), next());
        let left = next();
        let is = |leaves| (reach.leaves() == Some(leaves)).then_some(left);
        let args = AttentionArgs {
            q: q.into(),
            k: k.map(Into::into),
            v: v.map(Into::into),
            q_gain: q_gain.map(Into::into),
            k_gain: k_gain.map(Into::into),
            angles: angles.map(Into::into),
            k_pages: k_pages.into(),
            v_pages: v_pages.into(),
            step: step.into(),
            table: table.into(),
            y: is(Leaves::Rows).map(Into::into),
            packed: is(Leaves::Blocks).map(Into::into),
            sums: grain.map(|_| left.into()),
            marks: grain.map(|_| next().into()),
            p: AttentionPush {
                rows,
                n_head,
                n_head_kv,
                max_pages: MAX_PAGES,
                n_slots: N_SLOTS,
                n_pages: N_PAGES,
                window,
                scale: of_reference.scale,
                soft_cap,
                n_parts,
                n_rot,
                n_ctx: MAX_PAGES * PAGE,
                eps: 0.0,
            },
        };
        Attention::new(head_dim, ty, heads, reach, subgroup).bind(&args)
    };
    let expected = outputs.into_iter().map(|(_, expected)| expected).collect();
    Case { name: shape.name(), buffers, expected, bind: Box::new(bind) }
}

/// Heads that come raw, such that what is done to them is exact: quarter turns, and ones of either sign where there is a
/// norm, whose size is then one.
struct Raw {
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    q_gain: Vec<f32>,
    k_gain: Vec<f32>,
    /// Of every position.
    angles: Vec<f32>,
    positions: Vec<u32>,
    form: HeadsForm,
    head_dim: usize,
    n_rot: usize,
}

impl Raw {
    fn new(
        random: &mut Random,
        (form, head_dim, n_rot): (HeadsForm, u32, u32),
        lines: &[StepRow],
        [n_head, n_head_kv]: [u32; 2],
    ) -> Self {
        let decided = |x: &[f32]| reference::kv::decided(x, KvType::F16);
        let mut heads = |n: u32, ones: bool| {
            let x = random.units((n * head_dim) as usize);
            if ones { x.into_iter().map(f32::signum).collect() } else { decided(&x) }
        };
        let rows = lines.len() as u32;
        let (q, k) = (heads(rows * n_head, form.norm), heads(rows * n_head_kv, form.norm));
        let (v, q_gain, k_gain) = (heads(rows * n_head_kv, false), heads(1, false), heads(1, false));
        let turn = |i: u32| [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]][(i * 7 + i / 5) as usize % 4];
        let angles = (0..MAX_PAGES * PAGE * n_rot / 2).flat_map(turn).collect();
        let positions = lines.iter().map(|row| row.position).collect();
        let (head_dim, n_rot) = (head_dim as usize, n_rot as usize);
        Raw { q, k, v, q_gain, k_gain, angles, positions, form, head_dim, n_rot }
    }

    fn ready(&self, x: &[f32], gain: &[f32]) -> Vec<f32> {
        let gains = gain.iter().cycle();
        let normed: Vec<f32> =
            if self.form.norm { x.iter().zip(gains).map(|(x, gain)| x * gain).collect() } else { x.to_vec() };
        let widths = (x.len() / self.positions.len(), self.head_dim, self.n_rot);
        let turned = reference::rope(&normed, &self.angles, &self.positions, widths, self.form.halves);
        turned.values.iter().map(|x| *x as f32).collect()
    }
}

/// Parts as a kernel leaves them: of scores and values at random, those that a row lacks no numbers.
fn parts_case(
    (head_dim, mixed, grain, leaves, subgroup): (u32, bool, Grain, Leaves, Option<u32>),
    shape: Shape,
) -> Case {
    let Shape { n_head, window, .. } = shape;
    let (rows, lines, n_parts) = (shape.rows(), shape.lines(), shape.n_parts(grain));
    let mut random = Random::new(u64::from(head_dim) << 32 | u64::from(rows));
    let (mut sums, mut marks) = (Vec::new(), Vec::new());
    let mut parts = Vec::new();
    for row in &lines {
        let first = if window == 0 { 0 } else { (row.position + 1).saturating_sub(window) };
        let n = row.position / grain.keys() - first / grain.keys() + 1;
        for (part, _) in (0..n_parts).flat_map(|part| (0..n_head).map(move |h| (part, h))) {
            if part < n {
                marks.extend([4.0 * random.unit(), 1.0 + grain.keys() as f32 * random.unit().abs()]);
                sums.extend(random.units(head_dim as usize));
            } else {
                marks.extend([f32::NAN; 2]);
                sums.extend(vec![f32::NAN; head_dim as usize]);
            }
        }
        parts.push(n as usize);
    }
    let exact = reference::joined_parts(
        (&sums, &marks),
        &parts,
        (n_parts as usize, n_head as usize, head_dim as usize),
        mixed,
    );
    let (bytes, expected) = result(exact, leaves, shape, head_dim, 3);
    let buffers = vec![
        Buffer::Input(f32_bytes(&sums)),
        Buffer::Input(f32_bytes(&marks)),
        Buffer::Input(u32_bytes(&step_block(&lines, &[], rows))),
        Buffer::Output(bytes),
    ];
    let bind = move |r: &[BufferRange]| -> LaunchArgs {
        let args = AttentionPartsArgs {
            sums: r[0].into(),
            marks: r[1].into(),
            step: r[2].into(),
            y: (leaves == Leaves::Rows).then(|| r[3].into()),
            packed: (leaves == Leaves::Blocks).then(|| r[3].into()),
            p: AttentionPartsPush { rows, n_head, n_parts, window },
        };
        AttentionParts::new(head_dim, mixed, grain, leaves, subgroup).bind(&args)
    };
    Case { name: shape.name(), buffers, expected: vec![expected], bind: Box::new(bind) }
}
