//! Tables of a tensor format in workgroup memory: how often each stands there, how it gets there, where an entry is.

use std::cmp::Ordering;

use kiln_spirv_emit::ir::ValueId;

use crate::{
    block::{Buf, Elem, Shared},
    builtin::{local_id, workgroup_invocations},
    control::{Hint, end_loop, for_loop},
    ops::{add, bitand, bitor, eq, mul, select, shl, shr, sub},
    place::{At, write},
    tensor::{Plane, known, number},
    value::{Ex, Held, Read, Vec2},
};

/// Bytes of workgroup memory that tables with copies take, so that beside a fold's 8 KiB they fit the 32 KiB of most
/// devices.
pub const TABLES: u32 = 24 << 10;

/// Copies of a further table, at most.
pub const MOST_COPIES: u32 = 16;

/// How often each table of these planes stands in workgroup memory where the first stands there `copies` times: further
/// ones as often as there is room for, up to [`MOST_COPIES`], if the first does so more than once.
pub fn table_copies(planes: &[Plane], copies: u32) -> Vec<u32> {
    let mut room = TABLES;
    let mut all = Vec::new();
    for plane in planes.iter().filter(|plane| plane.is_table()) {
        let most = room / plane.bytes;
        let own = match all.len() {
            0 => copies,
            _ if copies == 1 || most < 2 => 1,
            _ => 1 << most.min(MOST_COPIES).ilog2(),
        };
        room = room.saturating_sub(own * plane.bytes);
        all.push(own);
    }
    all
}

/// Bytes of workgroup memory that they take.
pub fn table_bytes(planes: &[Plane], copies: u32) -> u32 {
    let tables = planes.iter().filter(|plane| plane.is_table());
    tables.zip(table_copies(planes, copies)).map(|(plane, copies)| plane.bytes * copies).sum()
}

/// A format's table in workgroup memory: each entry `copies` times, one after another.
pub(crate) struct Table {
    plane: Plane,
    pub(crate) entries: Entries,
    copies: u32,
    /// Bytes from an entry's first copy to the one that an invocation reads.
    own: Ex<u32>,
}

/// Room for the entries of a table.
pub(crate) enum Entries {
    Words(Shared<u32>),
    Pairs(Shared<Vec2<u32>>),
}

impl Table {
    #[track_caller]
    pub(crate) fn new(plane: Plane, copies: u32, n_units: Ex<u32>) -> Self {
        let size = 4 * plane.entry;
        let n = number(plane.bytes / size * copies);
        let entries = match plane.entry {
            2 => Entries::Pairs(Shared::new(n)),
            _ => Entries::Words(Shared::new(n)),
        };
        // What a compiler cannot see through: a mask it would apply at every lookup again, and without anything to add
        // it would take the place in words for the plainer one. A tensor without units has no lookups.
        let (copy, other) = match copies {
            1 => (number(0), number(1)),
            _ => (bitand(local_id(), number(copies - 1)), number(0)),
        };
        let own = shl(select(eq(n_units, number(0)), other, copy), number(size.ilog2()));
        Table { plane, entries, copies, own }
    }

    /// Brings the entries, which lie in `from` from byte `first` on, to workgroup memory; a barrier has to follow.
    #[track_caller]
    pub(crate) fn fill(&self, from: &Buf<u32>, first: Ex<u32>) {
        match &self.entries {
            Entries::Words(entries) => self.fill_with(entries, from, first),
            Entries::Pairs(entries) => self.fill_with(entries, &from.view::<Vec2<u32>>(), first),
        }
    }

    #[track_caller]
    fn fill_with<T: Elem + Held>(&self, to: &Shared<T>, from: &Buf<T>, first: Ex<u32>) {
        let (copies, size) = (self.copies, 4 * self.plane.entry);
        let (first, t, n) = (shr(first, number(size.ilog2())), local_id(), self.plane.bytes / size);
        let local = workgroup_invocations();
        let each = known(local).map_or(1, |local| entries_on_their_way(n, local as u32));
        let (counted, i) = for_loop(t, number(n), mul(local, number(each)), Hint::None);
        let places: Vec<_> = (0..each).map(|q| add(i, mul(local, number(q)))).collect();
        let entries: Vec<_> = places.iter().map(|i| from.at(add(first, *i)).read()).collect();
        for (i, entry) in places.into_iter().zip(entries) {
            for copy in 0..copies {
                // Neighbors write to different banks.
                let own = bitand(add(t, number(copy)), number(copies - 1));
                write(&to.at(add(mul(i, number(copies)), own)), entry);
            }
        }
        end_loop(counted);
    }

    pub(crate) fn base(&self) -> ValueId {
        match &self.entries {
            Entries::Words(words) => words.base(),
            Entries::Pairs(pairs) => pairs.base(),
        }
    }

    /// Where an invocation finds the entry that `bits` bits of `word` from bit `from` on name: in its own copy.
    #[track_caller]
    pub(crate) fn place(&self, word: Ex<u32>, from: Ex<u32>, bits: Ex<u32>) -> Ex<u32> {
        let size = 4 * self.plane.entry;
        let to = (self.copies * size).ilog2();
        // In bytes first, for that is what becomes of it: the shift back and the address's own cancel out.
        let bytes = match (known(from), known(bits)) {
            (Some(from), Some(bits)) => {
                let from = from as u32;
                let moved = match from.cmp(&to) {
                    Ordering::Less => shl(word, number(to - from)),
                    Ordering::Equal => word,
                    Ordering::Greater => shr(word, number(from - to)),
                };
                bitand(moved, number(((1u32 << bits) - 1) << to))
            }
            _ => shl(field(word, from, bits), number(to)),
        };
        shr(bitor(bytes, self.own), number(size.ilog2()))
    }
}

/// `bits` bits of `word` from bit `from` on.
#[track_caller]
pub(crate) fn field(word: Ex<u32>, from: Ex<u32>, bits: Ex<u32>) -> Ex<u32> {
    match (known(from), known(bits)) {
        (Some(from), Some(bits)) => {
            let low = if from == 0 { word } else { shr(word, number(from as u32)) };
            if from + bits == 32 { low } else { bitand(low, number((1u32 << bits) - 1)) }
        }
        _ => bitand(shr(word, from), sub(shl(number(1), bits), number(1))),
    }
}

/// Entries of a table of `n` that each of `local` invocations asks for before it stores the first: all, or as many as
/// registers are spent on, where they are the same for every invocation.
fn entries_on_their_way(n: u32, local: u32) -> u32 {
    let rounds = if n.is_multiple_of(local) { n / local } else { 1 };
    (1..=8).rev().find(|each| rounds.is_multiple_of(*each)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLANES: &[Plane] = &[Plane::unit(8), Plane::pairs(512), Plane::pairs(256)];

    #[test]
    fn further_tables_take_the_room_that_the_first_leaves() {
        assert_eq!(table_copies(PLANES, 1), [1, 1]);
        assert_eq!(table_copies(PLANES, 4), [4, 16]);
        assert_eq!(table_copies(PLANES, 8), [8, 8]);
        assert_eq!(table_copies(PLANES, 16), [16, 1]);
        assert_eq!(table_copies(PLANES, 32), [32, 1]);
        assert_eq!(table_bytes(PLANES, 8), TABLES);
        assert_eq!(table_copies(&PLANES[..1], 16), [0u32; 0]);
    }
}
