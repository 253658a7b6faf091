//! Blocks of keys and values on their way from the pages into workgroup memory.

use kiln_dsl::prelude::*;

use super::AttentionShape;
use crate::kv_store::kv_line;

/// Keys and values of a sequence, of which the tile's rows see the positions `low` to `high`.
pub(super) struct Lines<'a> {
    pub(super) k_pages: &'a Buf<Vec4<u32>>,
    pub(super) v_pages: &'a Buf<Vec4<u32>>,
    pub(super) table: &'a Buf<u32>,
    pub(super) slot: Ex<u32>,
    pub(super) head_kv: Ex<u32>,
    pub(super) n_head_kv: Ex<u32>,
    pub(super) max_pages: Ex<u32>,
    pub(super) low: Ex<u32>,
    pub(super) high: Ex<u32>,
    pub(super) t: AttentionShape,
}

impl Lines<'_> {
    /// An invocation's words of a block into registers, keys before values.
    #[track_caller]
    pub(super) fn fetch(&self, next: &PlaceArray<Vec4<u32>, Local>, key0: Ex<u32>) {
        let Lines { table, slot, max_pages, n_head_kv, head_kv, t, .. } = *self;
        let start = block_start(table, slot, max_pages, key0, n_head_kv, head_kv, t);
        for (pages, first) in [(self.k_pages, 0), (self.v_pages, t.each())] {
            for j in 0..t.each() {
                fetch(pages, next, start, j, first + j, t);
            }
        }
    }

    /// Those words into workgroup memory.
    #[track_caller]
    pub(super) fn put(&self, next: &PlaceArray<Vec4<u32>, Local>, memory: &Shared<Vec4<u32>>, key0: Ex<u32>) {
        for j in 0..self.t.each() {
            put(next, memory, key0, self.low, self.high, j, self.t);
        }
    }
}

/// The first word of the block of keys from `key0` on, which lies within a page.
#[device]
fn block_start(
    table: &Buf<u32>,
    slot: u32,
    max_pages: u32,
    key0: u32,
    n_head_kv: u32,
    head_kv: u32,
    #[comptime] t: AttentionShape,
) -> u32 {
    kv_line(&table, slot, max_pages, key0, n_head_kv, head_kv) * comptime!(t.line())
}

/// Word `j` of an invocation's; where there is none for it, the block's last.
#[device]
fn fetch(
    pages: &Buf<Vec4<u32>>,
    next: &PlaceArray<Vec4<u32>, Local>,
    start: u32,
    #[comptime] j: u32,
    #[comptime] to: u32,
    #[comptime] t: AttentionShape,
) {
    let i = local_id() + comptime!(j * t.invocations());
    let last = comptime!(t.block() - 1);
    next[to] = pages[start + min(i, last)];
}

#[device]
fn put(
    next: &PlaceArray<Vec4<u32>, Local>,
    memory: &Shared<Vec4<u32>>,
    key0: u32,
    low: u32,
    high: u32,
    #[comptime] j: u32,
    #[comptime] t: AttentionShape,
) {
    let i = local_id() + comptime!(j * t.invocations());
    if comptime!(t.block().is_multiple_of(t.invocations())) {
        put_at(&next, &memory, key0, low, high, i, comptime!(j), comptime!(t));
    } else if i < comptime!(t.block()) {
        put_at(&next, &memory, key0, low, high, i, comptime!(j), comptime!(t));
    }
}

#[device]
fn put_at(
    next: &PlaceArray<Vec4<u32>, Local>,
    memory: &Shared<Vec4<u32>>,
    key0: u32,
    low: u32,
    high: u32,
    i: u32,
    #[comptime] j: u32,
    #[comptime] t: AttentionShape,
) {
    let (row, word) = (i / comptime!(t.line()), i % comptime!(t.line()));
    let at = row * comptime!(t.pitch()) + word;
    memory[at] = next[j];
    // What nobody has stored yet may be no number, which a weight of zero would not hide.
    let stored = key0 + row >= low && key0 + row <= high;
    memory[at + comptime!(t.keys * t.pitch())] =
        select(stored, next[comptime!(t.each() + j)], splat::<Vec4<u32>>(0));
}
