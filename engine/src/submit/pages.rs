//! Which page holds which positions of which sequence.

use kiln_kernels::kv_store::PAGE;

use crate::plan::PageGroup;

/// Positions that a slot may go back from where it was last fed, whatever its layers still see.
pub(super) const SLACK: usize = PAGE as usize;

/// Pages of every group of layers, handed out to slots as their sequences grow.
#[derive(Debug, Clone)]
pub(super) struct Pages {
    groups: Vec<GroupPages>,
}

/// What a reservation did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Reserved {
    /// The slot has other pages than before.
    pub(super) changed: bool,
    /// In stores of a group, the content of the first page has to be copied to the second, which took its place.
    pub(super) copies: Vec<(usize, (u32, u32))>,
}

/// Pages that are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Missing {
    /// How many are needed.
    pub(super) needed: usize,
    /// How many are free.
    pub(super) free: usize,
}

impl Pages {
    /// Free pages for `n_slots` slots.
    pub(super) fn new(n_slots: u32, groups: &[PageGroup], positions_per_page: u32) -> Self {
        let of = |group: &PageGroup| GroupPages::new(n_slots, group, positions_per_page as usize);
        Self { groups: groups.iter().map(of).collect() }
    }

    /// Lets a slot write positions `from..to`, all before `from` being there. What no row from `from` on sees is given
    /// back, but for [`SLACK`] positions.
    pub(super) fn reserve(&mut self, slot: usize, from: usize, to: usize) -> Result<Reserved, Missing> {
        self.groups.iter_mut().for_each(|group| group.recycle(slot, from));
        if let Some(missing) = self.groups.iter().find_map(|group| group.missing(slot, from, to)) {
            return Err(missing);
        }
        let mut reserved = Reserved::default();
        for (index, group) in self.groups.iter_mut().enumerate() {
            let (changed, copy) = group.reserve(slot, from, to);
            reserved.changed |= changed;
            reserved.copies.extend(copy.map(|copy| (index, copy)));
        }
        Ok(reserved)
    }

    /// Gives back the pages of a slot that hold no position below `n`.
    pub(super) fn rewind(&mut self, slot: usize, n: usize) {
        self.groups.iter_mut().for_each(|group| group.rewind(slot, n));
    }

    /// The fewest positions, other than none, that a slot can be taken back to.
    pub(super) fn least(&self, slot: usize) -> usize {
        self.groups.iter().map(|group| group.least(slot)).max().unwrap_or(0)
    }

    /// Gives `to`, which has none, the pages of `from`.
    pub(super) fn share(&mut self, from: usize, to: usize) {
        self.groups.iter_mut().for_each(|group| group.share(from, to));
    }

    /// Lets a slot that has no pages begin with the page of each group that `first` says.
    pub(super) fn start_at(&mut self, slot: usize, first: &[usize]) {
        for (group, first) in self.groups.iter_mut().zip(first) {
            group.slots[slot].first = *first;
        }
    }

    /// The first page that a slot still has in each group, counted by position.
    pub(super) fn first(&self, slot: usize) -> Vec<usize> {
        self.groups.iter().map(|group| group.slots[slot].first).collect()
    }

    /// The pages of a slot in a group, from the first that it still has on.
    pub(super) fn of(&self, group: usize, slot: usize) -> &[u32] {
        &self.groups[group].slots[slot].pages
    }

    /// Whether a slot has pages.
    pub(super) fn has_any(&self, slot: usize) -> bool {
        self.groups.iter().any(|group| !group.slots[slot].pages.is_empty())
    }

    /// The page table of each group, `[n_slots, max_pages]`.
    pub(super) fn tables(&self, max_pages: u32) -> Vec<Vec<u32>> {
        self.groups.iter().map(|group| group.table(max_pages as usize)).collect()
    }
}

/// Pages of one group's stores; all its layers use the same pages.
///
/// A page may belong to several slots, which then only read it.
#[derive(Debug, Clone)]
struct GroupPages {
    positions_per_page: usize,
    window: Option<usize>,
    slots: Vec<SlotPages>,
    /// How many slots each page belongs to.
    owners: Vec<u32>,
    free: Vec<u32>,
}

/// Pages of a slot, in the order of their positions.
#[derive(Debug, Clone, Default)]
struct SlotPages {
    /// Pages before these that were given back.
    first: usize,
    pages: Vec<u32>,
}

impl GroupPages {
    fn new(n_slots: u32, group: &PageGroup, positions_per_page: usize) -> Self {
        Self {
            positions_per_page,
            window: group.window,
            slots: vec![SlotPages::default(); n_slots as usize],
            owners: vec![0; group.n_pages as usize],
            free: (0..group.n_pages).rev().collect(),
        }
    }

    /// Gives back the pages that rows from `from` on and [`SLACK`] rows before do not see.
    fn recycle(&mut self, slot: usize, from: usize) {
        let Some(window) = self.window else { return };
        let unseen = (from + 1).saturating_sub(window + SLACK) / self.positions_per_page;
        let line = &mut self.slots[slot];
        let n = unseen.saturating_sub(line.first).min(line.pages.len());
        line.first += n;
        let recycled: Vec<u32> = line.pages.drain(..n).collect();
        recycled.into_iter().for_each(|page| self.release(page));
    }

    fn release(&mut self, page: u32) {
        self.owners[page as usize] -= 1;
        if self.owners[page as usize] == 0 {
            self.free.push(page);
        }
    }

    /// Pages that positions `from..to` need and a slot lacks: new ones, and whether the one that `from` lies in has to
    /// take the place of a shared one. Only that one can be shared: a clone or a rewind leaves no later one.
    fn needs(&self, slot: usize, from: usize, to: usize) -> (usize, Option<usize>) {
        let SlotPages { first, pages } = &self.slots[slot];
        let new = to.div_ceil(self.positions_per_page).saturating_sub(first + pages.len());
        let at = (from / self.positions_per_page).checked_sub(*first).filter(|_| to > from);
        (new, at.filter(|at| pages.get(*at).is_some_and(|page| self.owners[*page as usize] > 1)))
    }

    fn missing(&self, slot: usize, from: usize, to: usize) -> Option<Missing> {
        let (new, shared) = self.needs(slot, from, to);
        let needed = new + usize::from(shared.is_some());
        (needed > self.free.len()).then_some(Missing { needed, free: self.free.len() })
    }

    /// Where nothing is missing: whether pages changed, and what has to be copied.
    fn reserve(&mut self, slot: usize, from: usize, to: usize) -> (bool, Option<(u32, u32)>) {
        let (new, shared) = self.needs(slot, from, to);
        let mut copy = None;
        if let (Some(at), Some(page)) = (shared, shared.and_then(|_| self.free.pop())) {
            let old = std::mem::replace(&mut self.slots[slot].pages[at], page);
            self.owners[old as usize] -= 1;
            self.owners[page as usize] = 1;
            // At the first position of a page there is nothing to keep.
            copy = (!from.is_multiple_of(self.positions_per_page)).then_some((old, page));
        }
        for page in (0..new).filter_map(|_| self.free.pop()) {
            self.owners[page as usize] = 1;
            self.slots[slot].pages.push(page);
        }
        (new > 0 || shared.is_some(), copy)
    }

    fn rewind(&mut self, slot: usize, n: usize) {
        let line = &mut self.slots[slot];
        let kept = n.div_ceil(self.positions_per_page).saturating_sub(line.first).min(line.pages.len());
        let dropped = line.pages.split_off(kept);
        if line.pages.is_empty() {
            line.first = 0;
        }
        dropped.into_iter().rev().for_each(|page| self.release(page));
    }

    fn least(&self, slot: usize) -> usize {
        match (self.window, self.slots[slot].first) {
            (Some(window), first) if first > 0 => first * self.positions_per_page + window - 1,
            _ => 0,
        }
    }

    fn share(&mut self, from: usize, to: usize) {
        let line = self.slots[from].clone();
        line.pages.iter().for_each(|page| self.owners[*page as usize] += 1);
        self.slots[to] = line;
    }

    fn table(&self, max_pages: usize) -> Vec<u32> {
        let line = |line: &SlotPages| {
            let mut entries = vec![0; line.first];
            entries.extend(&line.pages);
            entries.resize(max_pages, 0);
            entries
        };
        self.slots.iter().flat_map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Missing, Pages, Reserved};
    use crate::plan::PageGroup;

    fn new() -> Reserved {
        Reserved { changed: true, copies: Vec::new() }
    }

    fn old() -> Reserved {
        Reserved::default()
    }

    fn pages(n_slots: u32, groups: &[(Option<usize>, u32)]) -> Pages {
        let groups: Vec<_> = groups.iter().map(|&(window, n_pages)| PageGroup { window, n_pages }).collect();
        Pages::new(n_slots, &groups, 256)
    }

    fn n_free(pages: &Pages) -> Vec<usize> {
        pages.groups.iter().map(|group| group.free.len()).collect()
    }

    #[test]
    fn pages_go_to_slots_and_come_back() {
        let mut pages = pages(2, &[(None, 3)]);
        assert_eq!(pages.reserve(0, 0, 256), Ok(new()));
        assert_eq!(pages.reserve(0, 100, 256), Ok(old()), "the page is there already");
        assert_eq!(pages.reserve(1, 0, 257), Ok(new()));
        assert_eq!(pages.tables(3), [[0, 0, 0, 1, 2, 0]]);
        assert_eq!(pages.reserve(0, 256, 257), Err(Missing { needed: 1, free: 0 }));
        assert_eq!(pages.tables(3), [[0, 0, 0, 1, 2, 0]], "a refusal changes nothing");
        pages.rewind(1, 256);
        assert_eq!(pages.reserve(0, 256, 257), Ok(new()));
        assert_eq!(pages.tables(3), [[0, 2, 0, 1, 0, 0]]);
    }

    #[test]
    fn a_shared_page_is_copied_by_whoever_writes_first() {
        let copied = |from, to| Ok(Reserved { changed: true, copies: vec![(0, (from, to))] });
        let mut pages = pages(2, &[(None, 4)]);
        pages.reserve(0, 0, 300).unwrap();
        pages.share(0, 1);
        assert_eq!((pages.of(0, 1), n_free(&pages)), (&[0, 1][..], vec![2]));
        assert_eq!(pages.reserve(1, 300, 301), copied(1, 2));
        assert_eq!(pages.reserve(0, 300, 301), Ok(old()), "the other one has the page for itself now");
        assert_eq!((pages.of(0, 0), pages.of(0, 1)), (&[0, 1][..], &[0, 2][..]));
        // At a page's start nothing is copied, whoever owns the page.
        pages.rewind(1, 256);
        assert_eq!(pages.reserve(1, 256, 257), Ok(new()));
        pages.rewind(1, 0);
        pages.share(0, 1);
        pages.rewind(1, 200);
        assert_eq!(pages.reserve(1, 200, 256), copied(0, 2));
        assert_eq!(n_free(&pages), [1]);
        pages.rewind(0, 0);
        pages.rewind(1, 0);
        assert_eq!(n_free(&pages), [4], "every page comes back once");
    }

    #[test]
    fn a_window_keeps_few_pages_whatever_the_position() {
        const WINDOW: usize = 300;
        // Both layers' pages would do for two slots; the window's do for one alone and what a fork writes.
        let mut pages = pages(2, &[(None, 80), (Some(WINDOW), 5)]);
        let mut most = 0;
        for from in (0..10_000).step_by(128) {
            pages.reserve(0, from, from + 128).unwrap();
            most = most.max(pages.of(1, 0).len());
            let first = pages.first(0);
            assert_eq!(first[0], 0, "a layer that sees all keeps all");
            assert!(first[1] * 256 <= (from + 1).saturating_sub(WINDOW), "what a row sees is there");
        }
        assert_eq!((pages.of(0, 0).len(), most), (40, 4));
        let held = pages.of(1, 0).to_vec();
        let table = pages.tables(40).swap_remove(1);
        assert_eq!(table[36..40], held, "by position, as if nothing were recycled");
        assert_eq!(pages.least(0), 36 * 256 + WINDOW - 1);
        // A fork shares what is left, and keeps it when the other goes on.
        pages.share(0, 1);
        pages.reserve(0, 9_984, 10_112).unwrap();
        assert_eq!(pages.of(1, 1), held);
        pages.rewind(0, 0);
        pages.rewind(1, 0);
        assert_eq!((n_free(&pages), pages.least(0)), (vec![80, 5], 0));
        // What one group lacks, no group takes.
        pages.reserve(0, 0, 1_000).unwrap();
        assert_eq!(pages.reserve(1, 0, 500), Err(Missing { needed: 2, free: 1 }));
        assert_eq!(n_free(&pages), [76, 1]);
    }
}
