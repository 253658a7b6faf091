//! Appends the rows' keys and values to their sequences' pages.
//!
//! Shapes: k, v `[rows, n_head_kv, head_dim]` f32; pages of k and of v `[n_pages, n_head_kv, 256, line]`, a line being
//! `head_dim` elements as [`KvType`] lays them out; page table `[n_slots, max_pages]`. Position i of a slot lies in page
//! `table[slot, i / 256]` at line i mod 256. A workgroup owns a head of k and
//! of v, an invocation what shares a word of the page.
//! Traffic: 4 bytes read per element and those of the type written, memory-bound.
//! Numerics: one rounding to f16; q8_0 is off by at most half its scale, once mixed.

use kiln_abi::Kernel;
use kiln_dsl::prelude::*;

use crate::{
    Variant,
    conformance::{Buffer, Case, Content, Expected, Random, SENTINEL, f32_bytes, u32_bytes},
    kv_type::{KvType, kv_put},
    reference,
    step::{StepRow, n_rows, row_position, row_slot, step_block},
};

/// Positions of a page.
pub const PAGE: u32 = 256;

/// Push constants of `kv_store`.
#[derive(Clone, Copy, Debug, Push)]
pub struct KvStorePush {
    /// Rows that the command has room for.
    pub rows: u32,
    /// Heads of keys and values.
    pub n_head_kv: u32,
    /// Pages of a slot, at most.
    pub max_pages: u32,
    /// Slots.
    pub n_slots: u32,
    /// Pages of the layer.
    pub n_pages: u32,
}

const LOCAL_SIZE: u32 = 64;

/// The line of a page that holds `position` of `slot` for key head `head`.
#[device]
pub fn kv_line(table: &Buf<u32>, slot: u32, max_pages: u32, position: u32, n_head_kv: u32, head: u32) -> u32 {
    let page = table[slot * max_pages + position / PAGE];
    (page * n_head_kv + head) * PAGE + position % PAGE
}

/// The kernel.
#[kernel(local_size = LOCAL_SIZE, grid = [p.n_head_kv, p.rows])]
pub fn kv_store(
    #[len(p.rows * p.n_head_kv * head_dim)] k: &Buf<f32>,
    #[len(p.rows * p.n_head_kv * head_dim)] v: &Buf<f32>,
    #[len(4 + 4 * p.rows)] step: &Buf<u32>,
    #[len(p.n_slots * p.max_pages)] table: &Buf<u32>,
    #[len(p.n_pages * p.n_head_kv * PAGE * ty.line_words(head_dim))] k_pages: &BufMut<u32>,
    #[len(p.n_pages * p.n_head_kv * PAGE * ty.line_words(head_dim))] v_pages: &BufMut<u32>,
    #[push] p: KvStorePush,
    #[comptime] head_dim: u32,
    #[comptime] ty: KvType,
) {
    let (head, r) = (workgroup_id_x(), workgroup_id_y());
    if r >= n_rows(&step) {
        return;
    }
    let t = local_id();
    let key = Shared::<f32>::new(head_dim);
    let value = Shared::<f32>::new(head_dim);
    let from = (r * p.n_head_kv + head) * head_dim;
    for d in (t..head_dim).step_by(LOCAL_SIZE) {
        key[d] = k[from + d];
        value[d] = v[from + d];
    }
    barrier();
    let line = kv_line(&table, row_slot(&step, r), p.max_pages, row_position(&step, r), p.n_head_kv, head);
    let to = line * comptime!(ty.line_words(head_dim));
    kv_put(&key, &k_pages, to, t, comptime!(LOCAL_SIZE), comptime!(ty), comptime!(head_dim));
    kv_put(&value, &v_pages, to, t, comptime!(LOCAL_SIZE), comptime!(ty), comptime!(head_dim));
}

/// One variant for each type and width of a head.
pub fn variants() -> Vec<Variant> {
    let variant = |(head_dim, ty): (u32, KvType)| {
        let cases = move || vec![case(head_dim, ty, 1, 1), case(head_dim, ty, 3, 2)];
        Variant::new("kv_store", KvStore::new(head_dim, ty), cases)
            .cut(vec![head_dim.to_string(), ty.name().into()])
    };
    crate::attention::layouts().map(variant).collect()
}

fn case(head_dim: u32, ty: KvType, rows: u32, n_head_kv: u32) -> Case {
    let mut random = Random::new(head_dim.into());
    let n = n_head_kv * head_dim;
    let mut values = || -> Vec<f32> {
        let x = random.units((rows * n) as usize);
        x.chunks_exact(head_dim as usize).flat_map(|line| reference::kv::decided(line, ty)).collect()
    };
    let (k, v) = (values(), values());
    // Two slots of two pages each, in an order of their own; rows at the seam of a page.
    let (table, n_slots, max_pages, n_pages) = ([2u32, 0, 3, 1], 2, 2, 4);
    let lines: Vec<_> =
        (0..rows).map(|r| StepRow { token: 0, position: PAGE - 1 + r % 2, slot: r.min(1) }).collect();
    let line_words = ty.line_words(head_dim);
    let words = (n_pages * n_head_kv * PAGE * line_words) as usize;
    let expected = |binding, x: &[f32]| {
        let mut pages = vec![SENTINEL.to_bits(); words];
        for (row, x) in lines.iter().zip(x.chunks_exact(n as usize)) {
            let page = table[(row.slot * max_pages + row.position / PAGE) as usize];
            for (head, x) in (0..).zip(x.chunks_exact(head_dim as usize)) {
                let at = ((page * n_head_kv + head) * PAGE + row.position % PAGE) * line_words;
                pages[at as usize..(at + line_words) as usize].copy_from_slice(&reference::kv::encode(x, ty));
            }
        }
        Expected { binding, content: Content::Words(pages) }
    };
    Case {
        name: format!("rows = {rows}, n_head_kv = {n_head_kv}"),
        buffers: vec![
            Buffer::Input(f32_bytes(&k)),
            Buffer::Input(f32_bytes(&v)),
            Buffer::Input(u32_bytes(&step_block(&lines, &[], rows))),
            Buffer::Input(u32_bytes(&table)),
            Buffer::Output(4 * words),
            Buffer::Output(4 * words),
        ],
        expected: vec![expected(4, &k), expected(5, &v)],
        bind: Box::new(move |r| {
            let p = KvStorePush { rows, n_head_kv, max_pages, n_slots, n_pages };
            let (k, v, step, table) = (r[0].into(), r[1].into(), r[2].into(), r[3].into());
            let (k_pages, v_pages) = (r[4].into(), r[5].into());
            KvStore::new(head_dim, ty).bind(&KvStoreArgs { k, v, step, table, k_pages, v_pages, p })
        }),
    }
}
