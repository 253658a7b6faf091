//! Tables of a tensor format in workgroup memory: how often each stands there, how it gets there, where an entry is.

use std::cmp::Ordering;

use kiln_spirv_emit::ir::ValueId;

use crate::{
    block::{Buf, Elem, Shared},
    builtin::{local_id, workgroup_invocations},
    control::{Cond, Hint, end_loop, for_loop},
    math::min,
    ops::{add, bitand, bitor, bitxor, eq, lt, mul, select, shl, shr, sub},
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

/// Entries on their way to workgroup memory, with their numbers; none where one invocation would have too many.
pub(crate) enum Asked {
    Words(Vec<(Ex<u32>, Ex<u32>)>),
    Pairs(Vec<(Ex<u32>, Ex<Vec2<u32>>)>),
}

/// Entries that an invocation has asked for at once, at most.
const AT_ONCE: u32 = 8;

/// Banks of workgroup memory, a word wide, that many GPUs have.
const BANKS: u32 = 32;

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

    /// Asks for the entries, which lie in `from` from byte `first` on, where no invocation has more than a few to bring.
    #[track_caller]
    pub(crate) fn ask(&self, from: &Buf<u32>, first: Ex<u32>) -> Asked {
        match &self.entries {
            Entries::Words(_) => Asked::Words(self.ask_of(from, first)),
            Entries::Pairs(_) => Asked::Pairs(self.ask_of(&from.view(), first)),
        }
    }

    /// Brings the entries to workgroup memory, those asked for and what is left of them; a barrier has to follow.
    #[track_caller]
    pub(crate) fn fill(&self, asked: &Asked, from: &Buf<u32>, first: Ex<u32>) {
        match (&self.entries, asked) {
            (Entries::Words(to), Asked::Words(asked)) => self.fill_with(to, asked, from, first),
            (Entries::Pairs(to), Asked::Pairs(asked)) => self.fill_with(to, asked, &from.view(), first),
            _ => {}
        }
    }

    /// Entries.
    fn n(&self) -> u32 {
        self.plane.bytes / (4 * self.plane.entry)
    }

    #[track_caller]
    fn entry<T: Elem + Held>(&self, from: &Buf<T>, first: Ex<u32>, i: Ex<u32>) -> Ex<T> {
        from.at(add(shr(first, number((4 * self.plane.entry).ilog2())), i)).read()
    }

    /// The entries that each invocation brings at most, where all can be on their way at once: their number, and the
    /// invocations that share one, each with copies of its own.
    fn shares(&self) -> Option<(u32, u32)> {
        let (n, local) = (self.n(), known(workgroup_invocations())? as u32);
        if local <= n {
            let each = n.div_ceil(local);
            return (each <= AT_ONCE).then_some((each, 1));
        }
        let sharers = 1 << (local / n).min(self.copies).ilog2();
        n.is_power_of_two().then_some((1, sharers))
    }

    #[track_caller]
    fn ask_of<T: Elem + Held>(&self, from: &Buf<T>, first: Ex<u32>) -> Vec<(Ex<u32>, Ex<T>)> {
        let (each, _) = self.shares().unwrap_or((0, 1));
        let (local, n) = (workgroup_invocations(), number(self.n()));
        let entry = |q: u32| match each {
            1 => bitand(local_id(), sub(n, number(1))),
            // The last ones may be the last entry again.
            _ if q + 1 == each => min(add(local_id(), mul(local, number(q))), sub(n, number(1))),
            _ => add(local_id(), mul(local, number(q))),
        };
        (0..each).map(entry).map(|i| (i, self.entry(from, first, i))).collect()
    }

    #[track_caller]
    fn fill_with<T: Elem + Held>(
        &self,
        to: &Shared<T>,
        asked: &[(Ex<u32>, Ex<T>)],
        from: &Buf<T>,
        first: Ex<u32>,
    ) {
        let (local, t, n) = (workgroup_invocations(), local_id(), self.n());
        let Some((_, sharers)) = self.shares() else {
            let (counted, i) = for_loop(t, number(n), local, Hint::None);
            self.write_copies(to, (i, self.entry(from, first, i)), number(0), 1);
            end_loop(counted);
            return;
        };
        // Where invocations are more than what is to be written, entries or those of a last share.
        let last = asked.len() - 1;
        let left = sharers * n - known(local).map_or(0, |local| last as u32 * local as u32);
        let some = known(local).is_some_and(|local| local as u32 > left);
        for (q, (i, entry)) in asked.iter().enumerate() {
            let mut fork = (some && q == last).then(|| lt(t, number(left)).fork());
            if fork.as_mut().is_none_or(|fork| fork.then()) {
                self.write_copies(to, (*i, *entry), shr(t, number(n.ilog2())), sharers);
            }
            if let Some(mut fork) = fork {
                let otherwise = fork.otherwise().then_some(());
                fork.join(Some(()), otherwise);
            }
        }
    }

    /// Writes the copies of an entry that the `of`-th of so many sharers brings.
    #[track_caller]
    fn write_copies<T: Elem + Held>(
        &self,
        to: &Shared<T>,
        (i, entry): (Ex<u32>, Ex<T>),
        of: Ex<u32>,
        sharers: u32,
    ) {
        let (copies, each) = (self.copies, self.copies / sharers);
        // Neighbors write to different banks: entries that begin in one begin with another copy.
        let apart = (BANKS / self.plane.entry / copies).max(1);
        let own = bitand(shr(i, number(apart.ilog2())), number(copies - 1));
        let own = if sharers > 1 { bitxor(own, mul(of, number(each))) } else { own };
        let start = add(mul(i, number(copies)), own);
        for copy in 0..each {
            write(&to.at(bitxor(start, number(copy))), entry);
        }
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
