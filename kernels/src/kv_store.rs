//! Appends the rows' keys and values to their sequences' pages, as f16.
//!
//! Shapes: k, v `[rows, n_head_kv, head_dim]` f32; pages of k and of v `[n_pages, n_head_kv, 256, head_dim]` f16; page
//! table `[n_slots, max_pages]`. Position i of a slot lies in page `table[slot, i / 256]` at line i mod 256.
//! An invocation owns one element of k and of v. Traffic: 12 bytes per element, memory-bound.
//! Numerics: one rounding to f16.

use half::f16;
use kiln_abi::Kernel;
use kiln_dsl::prelude::*;

use crate::{
    Variant,
    conformance::{Buffer, Case, Content, Expected, Random, SENTINEL, f32_bytes, u32_bytes},
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
    /// Width of a head.
    pub head_dim: u32,
    /// Pages of a slot, at most.
    pub max_pages: u32,
    /// Slots.
    pub n_slots: u32,
    /// Pages of the layer.
    pub n_pages: u32,
}

const LOCAL_SIZE: u32 = 64;

/// The line of a page that holds `position` of `slot` for key head `head`, counted in lines of `head_dim` elements.
#[device]
pub fn kv_line(table: &Buf<u32>, slot: u32, max_pages: u32, position: u32, n_head_kv: u32, head: u32) -> u32 {
    let page = table[slot * max_pages + position / PAGE];
    (page * n_head_kv + head) * PAGE + position % PAGE
}

/// The kernel.
#[kernel(local_size = LOCAL_SIZE, grid = [(p.n_head_kv * p.head_dim).div_ceil(LOCAL_SIZE), p.rows])]
pub fn kv_store(
    #[len(p.rows * p.n_head_kv * p.head_dim)] k: &Buf<f32>,
    #[len(p.rows * p.n_head_kv * p.head_dim)] v: &Buf<f32>,
    #[len(4 + 4 * p.rows)] step: &Buf<u32>,
    #[len(p.n_slots * p.max_pages)] table: &Buf<u32>,
    #[len(p.n_pages * p.n_head_kv * PAGE * p.head_dim)] k_pages: &BufMut<f16>,
    #[len(p.n_pages * p.n_head_kv * PAGE * p.head_dim)] v_pages: &BufMut<f16>,
    #[push] p: KvStorePush,
) {
    let r = workgroup_id_y();
    let i = global_id_x();
    let n = p.n_head_kv * p.head_dim;
    if r < n_rows(&step) && i < n {
        let (position, slot) = (row_position(&step, r), row_slot(&step, r));
        let line = kv_line(&table, slot, p.max_pages, position, p.n_head_kv, i / p.head_dim);
        let at = line * p.head_dim + i % p.head_dim;
        k_pages[at] = k[r * n + i] as f16;
        v_pages[at] = v[r * n + i] as f16;
    }
}

/// The kernel's one variant.
pub fn variants() -> Vec<Variant> {
    vec![Variant::new("kv_store", KvStore::new(), || vec![case(1, 1, 8), case(3, 2, 40)])]
}

fn case(rows: u32, n_head_kv: u32, head_dim: u32) -> Case {
    let mut random = Random::new(head_dim.into());
    let n = n_head_kv * head_dim;
    let (k, v) = (random.units((rows * n) as usize), random.units((rows * n) as usize));
    // Two slots of two pages each, in an order of their own; rows at the seam of a page.
    let (table, n_slots, max_pages, n_pages) = ([2u32, 0, 3, 1], 2, 2, 4);
    let lines: Vec<_> =
        (0..rows).map(|r| StepRow { token: 0, position: PAGE - 1 + r % 2, slot: r.min(1) }).collect();
    let elems = (n_pages * n_head_kv * PAGE * head_dim) as usize;
    let pages = |x: &[f32]| {
        let sentinel = SENTINEL.to_bits();
        let mut pages = [sentinel as u16, (sentinel >> 16) as u16].repeat(elems / 2);
        for (row, x) in lines.iter().zip(x.chunks_exact(n as usize)) {
            let page = table[(row.slot * max_pages + row.position / PAGE) as usize];
            for (i, x) in x.iter().enumerate() {
                let (head, d) = (i as u32 / head_dim, i as u32 % head_dim);
                let line = (page * n_head_kv + head) * PAGE + row.position % PAGE;
                pages[(line * head_dim + d) as usize] = f16::from_f32(*x).to_bits();
            }
        }
        pages
    };
    let expected = |binding, x: &[f32]| {
        let words = pages(x).chunks_exact(2).map(|p| u32::from(p[0]) | u32::from(p[1]) << 16).collect();
        Expected { binding, content: Content::Words(words) }
    };
    Case {
        name: format!("rows = {rows}, n_head_kv = {n_head_kv}, head_dim = {head_dim}"),
        buffers: vec![
            Buffer::Input(f32_bytes(&k)),
            Buffer::Input(f32_bytes(&v)),
            Buffer::Input(u32_bytes(&step_block(&lines, &[], rows))),
            Buffer::Input(u32_bytes(&table)),
            Buffer::Output(2 * elems),
            Buffer::Output(2 * elems),
        ],
        expected: vec![expected(4, &k), expected(5, &v)],
        bind: Box::new(move |r| {
            let p = KvStorePush { rows, n_head_kv, head_dim, max_pages, n_slots, n_pages };
            let (k, v, step, table) = (r[0].into(), r[1].into(), r[2].into(), r[3].into());
            let (k_pages, v_pages) = (r[4].into(), r[5].into());
            KvStore::new().bind(&KvStoreArgs { k, v, step, table, k_pages, v_pages, p })
        }),
    }
}
