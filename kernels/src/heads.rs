//! Queries and keys ready for attention, and keys and values in their pages: each head of q and k is normed, where the
//! form says so, and rotated; then q goes to its own rows, k and v to their sequences' pages.
//!
//! The same as [`crate::rms_norm`], [`crate::rope`] and [`crate::kv_store`] one after the other, which have the sources.
//! Shapes: q, q_out `[rows, n_head, head_dim]`, k, v `[rows, n_head_kv, head_dim]`, gains `[head_dim]`, all f32; angles
//! as `rope` takes them; pages and their table as `kv_store` fills them. A workgroup owns a head of q, or one of k and
//! v, and keeps it in workgroup memory; an invocation owns elements t, t + 64, … for the norm, pairs t, t + 64, … for
//! the rotation, and what shares a word of a page. Traffic: each operand once, memory-bound.
//! Numerics: as the three kernels; the order of the sum depends on `head_dim` alone.

use std::fmt;

use kiln_abi::Kernel;
use kiln_dsl::prelude::*;

use crate::{
    Variant,
    conformance::{Buffer, Case, Content, Expected, Random, SENTINEL, f32_bytes, u32_bytes},
    fold::{fold_all, fold_all_len},
    gemv::SUBGROUP,
    kv_store::{PAGE, kv_line},
    kv_type::{KvType, kv_put},
    reference,
    step::{StepRow, is_beyond, row_position, row_slot, step_block},
};

/// What is done to a head: comptime.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct HeadsForm {
    /// Heads of q and k are normed before they rotate.
    pub norm: bool,
    /// Pairs are elements j and j + n_rot / 2; else 2j and 2j + 1.
    pub halves: bool,
}

impl fmt::Debug for HeadsForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let norm = if self.norm { "norm+" } else { "" };
        write!(f, "{norm}{}", if self.halves { "halves" } else { "neighbors" })
    }
}

/// Push constants of `heads`.
#[derive(Clone, Copy, Debug, Push)]
pub struct HeadsPush {
    /// Rows that the command has room for.
    pub rows: u32,
    /// Heads of queries.
    pub n_head: u32,
    /// Heads of keys and values.
    pub n_head_kv: u32,
    /// Elements of a head that rotate.
    pub n_rot: u32,
    /// Positions that have angles.
    pub n_ctx: u32,
    /// Pages of a slot, at most.
    pub max_pages: u32,
    /// Slots.
    pub n_slots: u32,
    /// Pages of the layer.
    pub n_pages: u32,
    /// Added to the mean squares.
    pub eps: f32,
}

const LOCAL_SIZE: u32 = 64;

/// The kernel.
#[kernel(local_size = LOCAL_SIZE, subgroup = subgroup, grid = [p.n_head + p.n_head_kv, p.rows])]
pub fn heads(
    #[len(p.rows * p.n_head * head_dim)] q: &Buf<f32>,
    #[len(p.rows * p.n_head_kv * head_dim)] k: &Buf<f32>,
    #[len(p.rows * p.n_head_kv * head_dim)] v: &Buf<f32>,
    #[when(form.norm)]
    #[len(head_dim)]
    q_gain: &Buf<f32>,
    #[when(form.norm)]
    #[len(head_dim)]
    k_gain: &Buf<f32>,
    #[len(p.n_ctx * (p.n_rot / 2))] angles: &Buf<Vec2<f32>>,
    #[len(4 + 4 * p.rows)] step: &Buf<u32>,
    #[len(p.n_slots * p.max_pages)] table: &Buf<u32>,
    #[len(p.rows * p.n_head * head_dim)] q_out: &BufMut<f32>,
    #[len(p.n_pages * p.n_head_kv * PAGE * ty.line_words(head_dim))] k_pages: &BufMut<u32>,
    #[len(p.n_pages * p.n_head_kv * PAGE * ty.line_words(head_dim))] v_pages: &BufMut<u32>,
    #[push] p: HeadsPush,
    #[comptime] form: HeadsForm,
    #[comptime] head_dim: u32,
    #[comptime] ty: KvType,
    #[comptime] subgroup: Option<u32>,
) {
    let (h, r) = (workgroup_id_x(), workgroup_id_y());
    if is_beyond(&step, r, p.rows) {
        return;
    }
    let t = local_id();
    // Asked for before it is used.
    let position = row_position(&step, r);
    let is_key = h >= p.n_head;
    let line = Shared::<f32>::new(head_dim);
    let value = Shared::<f32>::new(head_dim);
    let partial = Shared::<f32>::new(comptime!(fold_all_len(LOCAL_SIZE, subgroup)));
    let head = select(is_key, h - p.n_head, h);
    let from = (r * select(is_key, p.n_head_kv, p.n_head) + head) * head_dim;
    for d in (t..head_dim).step_by(LOCAL_SIZE) {
        if is_key {
            line[d] = k[from + d];
            value[d] = v[from + d];
        } else {
            line[d] = q[from + d];
        }
    }
    if comptime!(form.norm) {
        let mut squares = 0.0;
        for d in (t..head_dim).step_by(LOCAL_SIZE) {
            squares = fma(line[d], line[d], squares);
        }
        let sum = fold_all(squares, &partial, t, comptime!(LOCAL_SIZE), comptime!(subgroup));
        let scale = inverse_sqrt(sum / (head_dim as f32) + p.eps);
        for d in (t..head_dim).step_by(LOCAL_SIZE) {
            let mut gain = 0.0;
            if is_key {
                gain = k_gain[d];
            } else {
                gain = q_gain[d];
            }
            line[d] = line[d] * scale * gain;
        }
    }
    barrier();
    for j in (t..p.n_rot / 2).step_by(LOCAL_SIZE) {
        let angle = angles[position * (p.n_rot / 2) + j];
        let a = if comptime!(form.halves) { j } else { 2 * j };
        let b = a + if comptime!(form.halves) { p.n_rot / 2 } else { 1 };
        let (xa, xb) = (line[a], line[b]);
        line[a] = xa * angle.x() - xb * angle.y();
        line[b] = xa * angle.y() + xb * angle.x();
    }
    barrier();
    if is_key {
        let to = kv_line(&table, row_slot(&step, r), p.max_pages, position, p.n_head_kv, head)
            * comptime!(ty.line_words(head_dim));
        kv_put(&line, &k_pages, to, t, comptime!(LOCAL_SIZE), comptime!(ty), comptime!(head_dim));
        kv_put(&value, &v_pages, to, t, comptime!(LOCAL_SIZE), comptime!(ty), comptime!(head_dim));
    } else {
        for d in (t..head_dim).step_by(LOCAL_SIZE) {
            q_out[from + d] = line[d];
        }
    }
}

/// One variant for each form, and for each layout of a line with the richest of them.
pub fn variants() -> Vec<Variant> {
    let rich = HeadsForm { norm: true, halves: true };
    let forms =
        [(false, false), (false, true), (true, false)].map(|(norm, halves)| HeadsForm { norm, halves });
    let forms = forms.into_iter().map(|form| (form, (64, KvType::F16), None));
    let layouts = crate::attention::layouts().map(|layout| (rich, layout, None));
    let shuffled = [(rich, (128, KvType::F16), Some(SUBGROUP))];
    let variant = |(form, (head_dim, ty), subgroup): (HeadsForm, (u32, KvType), Option<u32>)| {
        let shapes = [(1, 1, 1, head_dim), (3, 4, 2, head_dim / 4 * 2)];
        let cases = move || shapes.iter().map(|shape| case((form, head_dim, ty, subgroup), *shape)).collect();
        let cut = [
            format!("{} {}", form.norm, form.halves),
            head_dim.to_string(),
            ty.name().to_owned(),
            format!("{subgroup:?}"),
        ];
        Variant::new("heads", Heads::new(form, head_dim, ty, subgroup), cases).cut(cut.into())
    };
    forms.chain(layouts).chain(shuffled).map(variant).collect()
}

fn case(
    (form, head_dim, ty, subgroup): (HeadsForm, u32, KvType, Option<u32>),
    (rows, n_head, n_head_kv, n_rot): (u32, u32, u32, u32),
) -> Case {
    const N_CTX: u32 = PAGE + 3;
    const EPS: f32 = 1e-5;
    let mut random = Random::new(u64::from(head_dim) << 32 | u64::from(rows));
    let mut units = |heads: u32| random.units((heads * head_dim) as usize);
    let (q, k, v) = (units(rows * n_head), units(rows * n_head_kv), units(rows * n_head_kv));
    let (q_gain, k_gain) = (units(1), units(1));
    let v: Vec<f32> = v.chunks(head_dim as usize).flat_map(|line| reference::kv::decided(line, ty)).collect();
    let angles: Vec<f32> =
        (0..N_CTX * n_rot / 2).flat_map(|i| <[f32; 2]>::from((i as f32 * 0.7).sin_cos())).collect();
    // Two slots of two pages each, in an order of their own; rows at the seam of a page.
    let (table, n_slots, max_pages, n_pages) = ([2u32, 0, 3, 1], 2, 2, 4);
    let lines: Vec<_> =
        (0..rows).map(|r| StepRow { token: 0, position: PAGE - 1 + r % 2, slot: r.min(1) }).collect();
    let positions: Vec<u32> = lines.iter().map(|line| line.position).collect();
    let ready = |x: &[f32], gain: &[f32]| {
        let n = x.len() / rows as usize;
        let depth = head_dim.div_ceil(LOCAL_SIZE) + 7;
        let normed = form.norm.then(|| reference::rms_norm(x, gain, EPS, depth));
        let rounded = normed.as_ref().map(|n| n.values.iter().map(|v| *v as f32).collect::<Vec<_>>());
        let widths = (n, head_dim as usize, n_rot as usize);
        let mut out =
            reference::rope(rounded.as_deref().unwrap_or(x), &angles, &positions, widths, form.halves);
        // An angle does not lengthen a pair: what both of its elements were off, at most.
        if let Some(normed) = normed {
            for (out, off) in
                out.bounds.chunks_mut(head_dim as usize).zip(normed.bounds.chunks(head_dim as usize))
            {
                let most = off.iter().fold(0.0f64, |most, off| most.max(*off));
                out.iter_mut().for_each(|bound| *bound += 2.0 * most);
            }
        }
        out
    };
    let (queries, keys) = (ready(&q, &q_gain), ready(&k, &k_gain));
    let line_words = ty.line_words(head_dim);
    let words = (n_pages * n_head_kv * PAGE * line_words) as usize;
    let at = |row: &StepRow, head: u32| {
        let page = table[(row.slot * max_pages + row.position / PAGE) as usize];
        (((page * n_head_kv + head) * PAGE + row.position % PAGE) * line_words) as usize
    };
    let heads = || lines.iter().flat_map(|row| (0..n_head_kv).map(move |head| at(row, head)));
    let mut v_words = vec![SENTINEL.to_bits(); words];
    for (at, line) in heads().zip(v.chunks_exact(head_dim as usize)) {
        v_words[at..at + line_words as usize].copy_from_slice(&reference::kv::encode(line, ty));
    }
    let places = heads().collect();
    let bounds = reference::kv::rounded(&keys, head_dim as usize, ty);
    let kept = Content::Lines { places, head_dim: head_dim as usize, ty, values: keys.values, bounds };
    let mut buffers = [&q, &k, &v].map(|x| Buffer::Input(f32_bytes(x))).to_vec();
    if form.norm {
        buffers.extend([&q_gain, &k_gain].map(|x| Buffer::Input(f32_bytes(x))));
    }
    buffers.extend([
        Buffer::Input(f32_bytes(&angles)),
        Buffer::Input(u32_bytes(&step_block(&lines, &[], rows))),
        Buffer::Input(u32_bytes(&table)),
    ]);
    let first = buffers.len();
    buffers.extend([4 * q.len(), 4 * words, 4 * words].map(Buffer::Output));
    Case {
        name: format!("rows = {rows}, n_head = {n_head}, n_head_kv = {n_head_kv}, n_rot = {n_rot}"),
        buffers,
        expected: vec![
            queries.at(first),
            Expected { binding: first + 1, content: kept },
            Expected { binding: first + 2, content: Content::Words(v_words) },
        ],
        bind: Box::new(move |r| {
            let gains = if form.norm { 2 } else { 0 };
            let late = |i: usize| r[3 + gains + i];
            Heads::new(form, head_dim, ty, subgroup).bind(&HeadsArgs {
                q: r[0].into(),
                k: r[1].into(),
                v: r[2].into(),
                q_gain: form.norm.then(|| r[3].into()),
                k_gain: form.norm.then(|| r[4].into()),
                angles: late(0).into(),
                step: late(1).into(),
                table: late(2).into(),
                q_out: late(3).into(),
                k_pages: late(4).into(),
                v_pages: late(5).into(),
                p: HeadsPush {
                    rows,
                    n_head,
                    n_head_kv,
                    n_rot,
                    n_ctx: N_CTX,
                    max_pages,
                    n_slots,
                    n_pages,
                    eps: EPS,
                },
            })
        }),
    }
}
