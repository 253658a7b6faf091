//! However far a workgroup of attention reaches, a row's result is the same bits; so it is whatever rows are beside it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use kiln_abi::{BufferRange, Device, launch};
use kiln_kernels::{
    attention::{
        Attention, AttentionArgs, AttentionPush, Grain, Leaves, Reach,
        parts::{AttentionParts, AttentionPartsArgs, AttentionPartsPush},
    },
    conformance::{Random, f32_bytes, u32_bytes},
    kv_store::PAGE,
    kv_type::KvType,
    reference::kv,
    step::{StepRow, step_block},
};
use kiln_spirv_interp::{InterpOptions, Interpreter};

const MAX_PAGES: u32 = 3;
const HEADS: (u32, u32) = (6, 2);
/// A row's reach ends in the third page, in the first, at the end of one.
const POSITIONS: [u32; 3] = [2 * PAGE + 133, 40, PAGE - 1];

/// What all launches of a comparison read.
struct Scene {
    head_dim: u32,
    ty: KvType,
    window: u32,
    soft_cap: f32,
    q: Vec<f32>,
    k: Vec<u32>,
    v: Vec<u32>,
}

/// How keys are walked: in parts or all at once, heads at once, shuffles.
type Way = (Option<Grain>, u32, Option<u32>);

impl Scene {
    fn new(head_dim: u32, ty: KvType, window: u32, soft_cap: f32) -> Self {
        let mut random = Random::new(u64::from(head_dim));
        let q = random.units(POSITIONS.len() * (HEADS.0 * head_dim) as usize);
        let n_lines = POSITIONS.len() as u32 * MAX_PAGES * HEADS.1 * PAGE;
        let mut lines = || -> Vec<u32> {
            (0..n_lines).flat_map(|_| kv::encode(&random.units(head_dim as usize), ty)).collect()
        };
        let (k, v) = (lines(), lines());
        Scene { head_dim, ty, window, soft_cap, q, k, v }
    }

    /// The results of these rows in one launch, as bits.
    fn bits(&self, rows: &[usize], (grain, heads, subgroup): Way) -> Vec<u32> {
        let interp = Interpreter::new(InterpOptions::default());
        let put = |bytes: &[u8]| {
            let buffer = interp.allocate(bytes.len() as u64, "data").unwrap();
            interp.write(buffer, 0, bytes).unwrap();
            BufferRange { buffer, offset_bytes: 0, bytes: bytes.len() as u64 }
        };
        let width = (HEADS.0 * self.head_dim) as usize;
        let q: Vec<f32> = rows.iter().flat_map(|r| self.q[r * width..(r + 1) * width].to_vec()).collect();
        let lines: Vec<StepRow> =
            rows.iter().map(|r| StepRow { token: 0, position: POSITIONS[*r], slot: *r as u32 }).collect();
        let n_slots = POSITIONS.len() as u32;
        let n_pages = n_slots * MAX_PAGES;
        // A page of each slot in turn.
        let table: Vec<u32> =
            (0..n_slots).flat_map(|s| (0..MAX_PAGES).map(move |p| p * n_slots + s)).collect();
        let rows = lines.len() as u32;
        let [q, k_pages, v_pages, step, table] = [
            put(&f32_bytes(&q)),
            put(&u32_bytes(&self.k)),
            put(&u32_bytes(&self.v)),
            put(&u32_bytes(&step_block(&lines, &[], rows))),
            put(&u32_bytes(&table)),
        ];
        let y = put(&vec![0; 4 * rows as usize * width]);
        let n_parts = grain.map_or(1, |grain| grain.parts(MAX_PAGES * PAGE, self.window));
        let parts = grain.map(|_| {
            let n = (rows * n_parts * HEADS.0) as usize;
            [put(&vec![0xff; 4 * n * self.head_dim as usize]), put(&vec![0xff; 8 * n])]
        });
        let (n_head, n_head_kv) = HEADS;
        let args = AttentionArgs {
            q: q.into(),
            k_pages: k_pages.into(),
            v_pages: v_pages.into(),
            step: step.into(),
            table: table.into(),
            y: parts.is_none().then(|| y.into()),
            packed: None,
            sums: parts.map(|[sums, _]| sums.into()),
            marks: parts.map(|[_, marks]| marks.into()),
            p: AttentionPush {
                rows,
                n_head,
                n_head_kv,
                max_pages: MAX_PAGES,
                n_slots,
                n_pages,
                n_parts,
                window: self.window,
                scale: 0.3,
                soft_cap: self.soft_cap,
            },
        };
        let reach = grain.map_or(Reach::All(Leaves::Rows), Reach::Part);
        launch(&interp, &Attention::new(self.head_dim, self.ty, heads, reach, subgroup), &args).unwrap();
        if let (Some(grain), Some([sums, marks])) = (grain, parts) {
            let args = AttentionPartsArgs {
                sums: sums.into(),
                marks: marks.into(),
                step: step.into(),
                y: Some(y.into()),
                packed: None,
                p: AttentionPartsPush { rows, n_head, n_parts, window: self.window },
            };
            let mixed = self.ty.is_mixed();
            let kernel = AttentionParts::new(self.head_dim, mixed, grain, Leaves::Rows, subgroup);
            launch(&interp, &kernel, &args).unwrap();
        }
        let mut bytes = vec![0; 4 * rows as usize * width];
        interp.read(y.buffer, 0, &mut bytes).unwrap();
        bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
    }
}

const WAYS: [Way; 6] = [
    (None, 3, Some(32)),
    (Some(Grain::Chunk), 2, Some(32)),
    (Some(Grain::Page), 1, Some(32)),
    (None, 1, None),
    (Some(Grain::Chunk), 1, None),
    (Some(Grain::Page), 1, None),
];

#[test]
fn every_reach_gives_the_same_bits() {
    for (head_dim, ty, window, soft_cap) in
        [(64, KvType::F16, 0, 0.0), (24, KvType::F32, 300, 0.5), (64, KvType::Q8_0, 0, 0.0)]
    {
        let mut scene = Scene::new(head_dim, ty, window, soft_cap);
        let expected = scene.bits(&[0, 1, 2], WAYS[0]);
        assert!(expected.iter().any(|bits| *bits != 0));
        for way in WAYS {
            assert!(scene.bits(&[0, 1, 2], way) == expected, "{head_dim} {ty:?} {way:?}");
            let alone: Vec<u32> = [0, 1, 2].iter().flat_map(|r| scene.bits(&[*r], way)).collect();
            assert!(alone == expected, "each row alone, {head_dim} {ty:?} {way:?}");
        }
        // The control: the key of the second row's own position, which lies in the second slot's first page.
        let line = (HEADS.1 * PAGE + POSITIONS[1]) * ty.line_words(head_dim);
        scene.k[line as usize] ^= 0x0000_0400;
        assert!(scene.bits(&[0, 1, 2], WAYS[1]) != expected, "{head_dim} {ty:?}");
    }
}
