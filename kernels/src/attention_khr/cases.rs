//! What the kernel must give: prompts, sequences by turns, numbers that are none where nobody looks.

use kiln_abi::Kernel;
use kiln_dsl::prelude::*;

use super::{AttentionKhr, AttentionKhrArgs, AttentionShape};
use crate::{
    Variant,
    attention::AttentionPush,
    conformance::{Buffer, Case, Random, SENTINEL, f32_bytes, u32_bytes},
    kv_store::PAGE,
    reference,
    step::{StepRow, step_block},
};

/// Widths that are checked.
pub fn variants() -> Vec<Variant> {
    let shapes = [64, 128, 256].map(|head_dim| AttentionShape::all(head_dim)[0]);
    let small = [16, 64].map(|head_dim| AttentionShape::all(head_dim)[1]);
    let variant = |t: AttentionShape| {
        Variant::new("attention", AttentionKhr::new(t), move || cases(t)).cut(vec![format!("{t:?}")])
    };
    shapes.into_iter().chain(small).map(variant).collect()
}

/// A prompt whose last tile has a part of its rows; two sequences by turns, with a window and a soft cap; one row. The
/// width changes how a line is read, not what a row sees.
fn cases(t: AttentionShape) -> Vec<Case> {
    let prompt = |first, n| -> Vec<_> {
        (first..first + n).map(|position| StepRow { token: 0, position, slot: 1 }).collect()
    };
    if t.head_dim != 64 {
        return vec![case(t, prompt(0, t.rows() + 3), (1, 1), 0, 0.0)];
    }
    let mixed =
        |r: u32| StepRow { token: 0, position: [3, PAGE - 1, PAGE + 40][r as usize % 3], slot: r / 5 % 2 };
    vec![
        case(t, prompt(PAGE - 20, t.rows() + t.edge + 3), (2, 1), 0, 0.0),
        case(t, (0..t.rows()).map(mixed).collect(), (2, 2), 100, 1.5),
        case(t, vec![mixed(1)], (3, 1), 0, 0.0),
    ]
}

/// The command has room for two rows more than the step has; y is as it was there. Queries and scale are such that
/// halves hold their product.
fn case(
    t: AttentionShape,
    lines: Vec<StepRow>,
    (n_head, n_head_kv): (u32, u32),
    window: u32,
    soft_cap: f32,
) -> Case {
    let (head_dim, scale) = (t.head_dim, 0.125);
    let mut random = Random::new(u64::from(head_dim) << 32 | u64::from(n_head));
    let n = lines.len() as u32;
    let rows = n + 2;
    let width = n_head * head_dim;
    let mut numbers = |n: u32, by: f32| -> Vec<f32> {
        random.units(n as usize).iter().map(|x| f16::from_f32(by * x).to_f32()).collect()
    };
    let q = numbers(n * width, 4.0);
    let (table, n_slots, max_pages, n_pages) = ([2u32, 0, 3, 1], 2, 2, 4);
    let n_lines = n_pages * n_head_kv * PAGE;
    let (k, v) = (numbers(n_lines * head_dim, 1.0), numbers(n_lines * head_dim, 1.0));
    let line = |slot: u32, position: usize, head: usize| {
        let page = table[(slot * max_pages) as usize + position / PAGE as usize] as usize;
        (page * n_head_kv as usize + head) * PAGE as usize + position % PAGE as usize
    };
    let shape = reference::AttentionShape {
        n_head: n_head as usize,
        n_head_kv: n_head_kv as usize,
        head_dim: head_dim as usize,
        window: (window > 0).then_some(window as usize),
        scale,
        soft_cap: (soft_cap > 0.0).then_some(soft_cap),
        mixed: false,
    };
    let mut expected = reference::attention(&q, (&k, &v), &lines, shape, line);
    let more = reference::attention_of_halves(&q, (&k, &v), &lines, shape, line, false);
    expected.bounds.iter_mut().zip(more).for_each(|(bound, more)| *bound += more);
    // Lines that no row of the step has stored or sees are no numbers.
    let last =
        |slot| lines.iter().filter(|l| l.slot == slot).map(|l| l.position as usize + 1).max().unwrap_or(0);
    let mut known = vec![false; n_lines as usize];
    for slot in 0..n_slots {
        for (position, head) in (0..last(slot)).flat_map(|p| (0..n_head_kv as usize).map(move |h| (p, h))) {
            known[line(slot, position, head)] = true;
        }
    }
    let pages = |x: &[f32]| -> Vec<u8> {
        let line = |(x, known): (&[f32], &bool)| {
            let bits = |x: &f32| if *known { f16::from_f32(*x).to_le_bytes() } else { [0xff; 2] };
            x.iter().flat_map(bits).collect::<Vec<u8>>()
        };
        x.chunks_exact(head_dim as usize).zip(&known).flat_map(line).collect()
    };
    let mut q_bytes = f32_bytes(&q);
    q_bytes.resize((4 * rows * width) as usize, 0xff);
    let place = |i: u32| (i >= n * width).then_some(SENTINEL);
    Case {
        name: format!(
            "rows = {n}, n_head = {n_head}, n_head_kv = {n_head_kv}, window = {window}, soft_cap = {soft_cap}"
        ),
        buffers: vec![
            Buffer::Input(q_bytes),
            Buffer::Input(pages(&k)),
            Buffer::Input(pages(&v)),
            Buffer::Input(u32_bytes(&step_block(&lines, &[], rows))),
            Buffer::Input(u32_bytes(&table)),
            Buffer::Changed(f32_bytes(&vec![SENTINEL; (rows * width) as usize])),
        ],
        expected: vec![expected.spread((0..rows * width).map(place)).at(5)],
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
                n_parts: 1,
            };
            let (q, k_pages, v_pages) = (r[0].into(), r[1].into(), r[2].into());
            let (step, table, y) = (r[3].into(), r[4].into(), r[5].into());
            AttentionKhr::new(t).bind(&AttentionKhrArgs { q, k_pages, v_pages, step, table, y, p })
        }),
    }
}
