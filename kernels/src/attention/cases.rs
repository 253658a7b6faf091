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
    let walks = kinds.into_iter().map(|(head_dim, ty, heads, reach, subgroup)| {
        let n = if (head_dim, ty) == (64, KvType::F16) { SHAPES.len() } else { FEW };
        let kernel = Attention::new(head_dim, ty, heads, reach, subgroup);
        let cases = move || {
            let bound = move |shape: &Shape| walk_case((head_dim, ty, heads, reach, subgroup), *shape);
            SHAPES[..n].iter().map(bound)
        };
        let cut = vec![
            head_dim.to_string(),
            ty.name().to_owned(),
            heads.to_string(),
            format!("{reach:?}"),
            format!("{subgroup:?}"),
        ];
        Variant::lazy("attention", kernel, cases).cut(cut)
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
            let bound = move |shape: &Shape| parts_case((head_dim, mixed, grain, leaves, subgroup), *shape);
            SHAPES.iter().map(bound)
        };
        let cut = [head_dim.to_string(), mixed.to_string(), format!("{grain:?} {leaves:?} {subgroup:?}")];
        Variant::lazy("attention", kernel, cases).cut(cut.into())
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
    let q = random.units((rows * n_head * head_dim) as usize);
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
    let (k_pages, v_pages) = (pages(), pages());
    let values = |pages: &[Vec<u32>]| -> Vec<f32> {
        pages.iter().flat_map(|line| reference::kv::decode(line, head_dim as usize, ty)).collect()
    };
    let (k, v) = (values(&k_pages), values(&v_pages));
    let (grain, n_parts) = match reach {
        Reach::All(_) => (None, 1),
        Reach::Part(grain) => (Some(grain), shape.n_parts(grain)),
    };
    let outputs = match (reach, grain) {
        (_, Some(grain)) => {
            let cut = (grain.keys() as usize, n_parts as usize, SENTINEL);
            let [sums, marks] = reference::attention_parts(&q, (&k, &v), &lines, of_reference, at, cut);
            let bytes = [&sums, &marks].map(|x| 4 * x.values.len());
            vec![(bytes[0], sums.at(5)), (bytes[1], marks.at(6))]
        }
        (Reach::All(leaves), None) => {
            let exact = reference::attention(&q, (&k, &v), &lines, of_reference, at);
            vec![result(exact, leaves, shape, head_dim, 5)]
        }
        (Reach::Part(_), None) => Vec::new(),
    };
    let mut buffers = vec![
        Buffer::Input(f32_bytes(&q)),
        Buffer::Input(u32_bytes(&k_pages.concat())),
        Buffer::Input(u32_bytes(&v_pages.concat())),
        Buffer::Input(u32_bytes(&step_block(&lines, &[], rows))),
        Buffer::Input(u32_bytes(&TABLE)),
    ];
    buffers.extend(outputs.iter().map(|(bytes, _)| Buffer::Output(*bytes)));
    let bind = move |r: &[BufferRange]| -> LaunchArgs {
        let is = |leaves| (reach == Reach::All(leaves)).then(|| r[5]);
        let args = AttentionArgs {
            q: r[0].into(),
            k_pages: r[1].into(),
            v_pages: r[2].into(),
            step: r[3].into(),
            table: r[4].into(),
            y: is(Leaves::Rows).map(Into::into),
            packed: is(Leaves::Blocks).map(Into::into),
            sums: grain.map(|_| r[5].into()),
            marks: grain.map(|_| r[6].into()),
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
            },
        };
        Attention::new(head_dim, ty, heads, reach, subgroup).bind(&args)
    };
    let expected = outputs.into_iter().map(|(_, expected)| expected).collect();
    Case { name: shape.name(), buffers, expected, bind: Box::new(bind) }
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
