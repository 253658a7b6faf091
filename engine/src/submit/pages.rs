//! Which page holds which positions of which sequence.

/// Pages of one layer's store, handed out to slots as their sequences grow; all layers use the same pages.
///
/// A page may belong to several slots, which then only read it.
#[derive(Debug, Clone)]
pub(super) struct Pages {
    positions_per_page: usize,
    /// Pages of each slot, in the order of their positions.
    slots: Vec<Vec<u32>>,
    /// How many slots each page belongs to.
    owners: Vec<u32>,
    free: Vec<u32>,
}

/// What a reservation did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Reserved {
    /// The slot has other pages than before.
    pub(super) changed: bool,
    /// The content of the first page has to be copied to the second, which took its place.
    pub(super) copy: Option<(u32, u32)>,
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
    /// `n_pages` free pages for `n_slots` slots.
    pub(super) fn new(n_slots: u32, n_pages: u32, positions_per_page: u32) -> Self {
        Self {
            positions_per_page: positions_per_page as usize,
            slots: vec![Vec::new(); n_slots as usize],
            owners: vec![0; n_pages as usize],
            free: (0..n_pages).rev().collect(),
        }
    }

    /// Lets a slot write positions `from..to`, all before `from` being there.
    pub(super) fn reserve(&mut self, slot: usize, from: usize, to: usize) -> Result<Reserved, Missing> {
        let pages = &self.slots[slot];
        let missing = to.div_ceil(self.positions_per_page).saturating_sub(pages.len());
        // Only the page that `from` lies in can be shared: a clone or a rewind leaves no later one.
        let at = from / self.positions_per_page;
        let shared = pages.get(at).copied().filter(|page| to > from && self.owners[*page as usize] > 1);
        let needed = missing + usize::from(shared.is_some());
        if needed > self.n_free() {
            return Err(Missing { needed, free: self.n_free() });
        }
        let mut taken = self.free.split_off(self.free.len() - needed).into_iter().rev();
        let mut reserved = Reserved { changed: needed > 0, copy: None };
        if let (Some(old), Some(new)) = (shared, shared.and_then(|_| taken.next())) {
            self.owners[old as usize] -= 1;
            self.owners[new as usize] = 1;
            self.slots[slot][at] = new;
            // At the first position of a page there is nothing to keep.
            reserved.copy = (!from.is_multiple_of(self.positions_per_page)).then_some((old, new));
        }
        for page in taken {
            self.owners[page as usize] = 1;
            self.slots[slot].push(page);
        }
        Ok(reserved)
    }

    /// Gives back the pages of a slot that hold no position below `n`.
    pub(super) fn rewind(&mut self, slot: usize, n: usize) {
        let kept = n.div_ceil(self.positions_per_page).min(self.slots[slot].len());
        for page in self.slots[slot].split_off(kept).into_iter().rev() {
            self.owners[page as usize] -= 1;
            if self.owners[page as usize] == 0 {
                self.free.push(page);
            }
        }
    }

    /// Gives `to`, which has none, the pages of `from`.
    pub(super) fn share(&mut self, from: usize, to: usize) {
        let pages = self.slots[from].clone();
        pages.iter().for_each(|page| self.owners[*page as usize] += 1);
        self.slots[to] = pages;
    }

    /// The pages of a slot.
    pub(super) fn of(&self, slot: usize) -> &[u32] {
        &self.slots[slot]
    }

    /// Pages that belong to nobody.
    pub(super) fn n_free(&self) -> usize {
        self.free.len()
    }

    /// The page table, `[n_slots, max_pages]`.
    pub(super) fn table(&self, max_pages: u32) -> Vec<u32> {
        let line = |pages: &Vec<u32>| {
            let mut line = pages.clone();
            line.resize(max_pages as usize, 0);
            line
        };
        self.slots.iter().flat_map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Missing, Pages, Reserved};

    const NEW: Reserved = Reserved { changed: true, copy: None };
    const OLD: Reserved = Reserved { changed: false, copy: None };

    #[test]
    fn pages_go_to_slots_and_come_back() {
        let mut pages = Pages::new(2, 3, 256);
        assert_eq!(pages.reserve(0, 0, 256), Ok(NEW));
        assert_eq!(pages.reserve(0, 100, 256), Ok(OLD), "the page is there already");
        assert_eq!(pages.reserve(1, 0, 257), Ok(NEW));
        assert_eq!(pages.table(3), [0, 0, 0, 1, 2, 0]);
        assert_eq!(pages.reserve(0, 256, 257), Err(Missing { needed: 1, free: 0 }));
        assert_eq!(pages.table(3), [0, 0, 0, 1, 2, 0], "a refusal changes nothing");
        pages.rewind(1, 256);
        assert_eq!(pages.reserve(0, 256, 257), Ok(NEW));
        assert_eq!(pages.table(3), [0, 2, 0, 1, 0, 0]);
    }

    #[test]
    fn a_shared_page_is_copied_by_whoever_writes_first() {
        let mut pages = Pages::new(2, 4, 256);
        pages.reserve(0, 0, 300).unwrap();
        pages.share(0, 1);
        assert_eq!((pages.of(1), pages.n_free()), (&[0, 1][..], 2));
        assert_eq!(pages.reserve(1, 300, 301), Ok(Reserved { changed: true, copy: Some((1, 2)) }));
        assert_eq!(pages.reserve(0, 300, 301), Ok(OLD), "the other one has the page for itself now");
        assert_eq!((pages.of(0), pages.of(1)), (&[0, 1][..], &[0, 2][..]));
        // At a page's start nothing is copied, whoever owns the page.
        pages.rewind(1, 256);
        assert_eq!(pages.reserve(1, 256, 257), Ok(NEW));
        pages.rewind(1, 0);
        pages.share(0, 1);
        pages.rewind(1, 200);
        assert_eq!(pages.reserve(1, 200, 256), Ok(Reserved { changed: true, copy: Some((0, 2)) }));
        assert_eq!(pages.n_free(), 1);
        pages.rewind(0, 0);
        pages.rewind(1, 0);
        assert_eq!(pages.n_free(), 4, "every page comes back once");
    }
}
