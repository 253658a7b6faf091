//! What releases and acquires order: which earlier accesses an invocation knows to have happened before.
//!
//! A release leaves at its atomic's place what happened before it; whoever acquires there, also by way of other
//! atomics that read and write, knows it from then on, and a barrier tells the workgroup. Workgroups run one after
//! another, so a stretch of time belongs to one of them.

use std::collections::BTreeMap;

/// The place of an atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Spot {
    /// A byte of a buffer.
    Buffer(usize, usize),
    /// A scalar of workgroup memory.
    Workgroup(usize),
}

/// How far back accesses of one workgroup are known, from its start on; each is a time before which they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reach {
    /// Of all its invocations.
    pub(crate) all: u32,
    /// Of the releasing invocation's subgroup.
    pub(crate) subgroup: u32,
    /// Of the releasing invocation.
    pub(crate) own: u32,
}

/// Reaches by the start of the workgroup and the invocation that released.
type Spans = BTreeMap<(u32, u32), Reach>;

/// Who knows something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Holder {
    Workgroup,
    Subgroup(u32),
    Invocation(u32),
}

fn merge(into: &mut Spans, from: &Spans) {
    for (&whose, reach) in from {
        let known = into.entry(whose).or_default();
        known.all = known.all.max(reach.all);
        known.subgroup = known.subgroup.max(reach.subgroup);
        known.own = known.own.max(reach.own);
    }
}

/// What was released where, and who has acquired it; of accesses to one kind of memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    released: BTreeMap<Spot, Spans>,
    held: BTreeMap<Holder, Spans>,
    /// Subgroup size as a shift.
    shift: u32,
}

impl Known {
    pub(crate) fn new(shift: u32) -> Self {
        Known { shift, ..Known::default() }
    }

    /// A workgroup begins: it knows nothing, and its memory is its own.
    pub(crate) fn begin(&mut self) {
        self.held.clear();
        self.released.retain(|spot, _| matches!(spot, Spot::Buffer(..)));
    }

    /// A barrier tells what its invocations know to all of them, or of one subgroup.
    pub(crate) fn share(&mut self, subgroup: Option<usize>) {
        if self.held.is_empty() {
            return;
        }
        let (shift, among) = (self.shift, subgroup.map(|s| s as u32));
        let told = |holder: &Holder| match (holder, among) {
            (_, None) => true,
            (Holder::Invocation(i), Some(s)) => i >> shift == s,
            (Holder::Subgroup(h), Some(s)) => *h == s,
            (Holder::Workgroup, Some(_)) => false,
        };
        let mut all = Spans::new();
        self.held.retain(|holder, spans| {
            let told = told(holder);
            if told {
                merge(&mut all, spans);
            }
            !told
        });
        self.held.insert(among.map_or(Holder::Workgroup, Holder::Subgroup), all);
    }

    fn holders(&self, invocation: u32) -> [Holder; 3] {
        let subgroup = invocation >> self.shift;
        [Holder::Workgroup, Holder::Subgroup(subgroup), Holder::Invocation(invocation)]
    }

    /// An atomic store without a release: what was released there is no longer read.
    pub(crate) fn overwrite(&mut self, spot: Spot) {
        self.released.remove(&spot);
    }

    /// `invocation` of the workgroup that began at `start` releases what it knows, and its own.
    pub(crate) fn release(&mut self, spot: Spot, start: u32, invocation: u32, reach: Reach) {
        let mut spans = Spans::from([((start, invocation), reach)]);
        for holder in self.holders(invocation) {
            self.held.get(&holder).into_iter().for_each(|known| merge(&mut spans, known));
        }
        merge(self.released.entry(spot).or_default(), &spans);
    }

    /// `invocation` acquires what was released there.
    pub(crate) fn acquire(&mut self, spot: Spot, invocation: u32) {
        if let Some(spans) = self.released.get(&spot) {
            merge(self.held.entry(Holder::Invocation(invocation)).or_default(), spans);
        }
    }

    /// Whether `invocation` knows of an access by `other` at `time`; of one by several of its workgroup, if `several`.
    pub(crate) fn knows(&self, invocation: u32, time: u32, other: u32, several: bool) -> bool {
        if self.held.is_empty() {
            return false;
        }
        let known = self.holders(invocation);
        let spans = known.iter().filter_map(|holder| self.held.get(holder)).flatten();
        spans.into_iter().any(|(&(start, who), reach)| {
            let near = who >> self.shift == other >> self.shift && time < reach.subgroup;
            let own = who == other && time < reach.own;
            time >= start && (time < reach.all || !several && (near || own))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Known, Reach, Spot};

    #[test]
    fn knowledge_goes_with_releases_acquires_and_barriers() {
        let (spot, reach) = (Spot::Buffer(0, 4), Reach { all: 3, subgroup: 4, own: 6 });
        let mut known = Known::new(2);
        known.release(spot, 1, 5, reach);
        known.begin();
        assert!(!known.knows(0, 2, 9, false), "nothing is acquired");
        known.acquire(spot, 0);
        assert!(known.knows(0, 2, 9, true) && !known.knows(0, 3, 9, false), "others before their barrier");
        assert!(known.knows(0, 3, 6, false) && !known.knows(0, 4, 6, false), "its subgroup");
        assert!(known.knows(0, 5, 5, false) && !known.knows(0, 6, 5, false), "itself until the release");
        assert!(!known.knows(0, 5, 5, true) && !known.knows(0, 0, 5, false), "several, or earlier ones");
        assert!(!known.knows(1, 2, 9, false), "another invocation");
        known.share(Some(0));
        assert!(known.knows(1, 2, 9, false) && !known.knows(4, 2, 9, false), "a subgroup's barrier");
        known.share(None);
        assert!(known.knows(4, 2, 9, false), "a workgroup's barrier");
        // On by way of another place, until that is overwritten.
        known.release(Spot::Buffer(0, 8), 7, 4, Reach { all: 7, subgroup: 7, own: 9 });
        known.begin();
        known.acquire(Spot::Buffer(0, 8), 1);
        assert!(known.knows(1, 2, 9, false) && known.knows(1, 8, 4, false));
        known.overwrite(Spot::Buffer(0, 8));
        known.begin();
        known.acquire(Spot::Buffer(0, 8), 1);
        assert!(!known.knows(1, 8, 4, false));
    }
}
