//! Which page holds which positions of which sequence.

/// Pages of one layer's store, handed out to slots as their sequences grow; all layers use the same pages.
#[derive(Debug, Clone)]
pub(super) struct Pages {
    positions_per_page: usize,
    /// Pages of each slot, in the order of their positions.
    slots: Vec<Vec<u32>>,
    free: Vec<u32>,
}

impl Pages {
    /// `n_pages` free pages for `n_slots` slots.
    pub(super) fn new(n_slots: u32, n_pages: u32, positions_per_page: u32) -> Self {
        Self {
            positions_per_page: positions_per_page as usize,
            slots: vec![Vec::new(); n_slots as usize],
            free: (0..n_pages).rev().collect(),
        }
    }

    /// Makes room for `n` positions of a slot; says whether its pages changed, none if there are too few.
    pub(super) fn reserve(&mut self, slot: usize, n: usize) -> Option<bool> {
        let missing = n.div_ceil(self.positions_per_page).saturating_sub(self.slots[slot].len());
        if missing > self.free.len() {
            return None;
        }
        let taken = self.free.split_off(self.free.len() - missing);
        self.slots[slot].extend(taken.into_iter().rev());
        Some(missing > 0)
    }

    /// Gives back the pages of a slot that hold no position below `n`.
    pub(super) fn rewind(&mut self, slot: usize, n: usize) {
        let kept = n.div_ceil(self.positions_per_page).min(self.slots[slot].len());
        let given = self.slots[slot].split_off(kept);
        self.free.extend(given.into_iter().rev());
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
    use super::Pages;

    #[test]
    fn pages_go_to_slots_and_come_back() {
        let mut pages = Pages::new(2, 3, 256);
        assert_eq!(pages.reserve(0, 256), Some(true));
        assert_eq!(pages.reserve(0, 256), Some(false), "the page is there already");
        assert_eq!(pages.reserve(1, 257), Some(true));
        assert_eq!(pages.table(3), [0, 0, 0, 1, 2, 0]);
        assert_eq!(pages.reserve(0, 257), None, "no page is left");
        assert_eq!(pages.table(3), [0, 0, 0, 1, 2, 0], "a refusal changes nothing");
        pages.rewind(1, 256);
        assert_eq!(pages.reserve(0, 257), Some(true));
        assert_eq!(pages.table(3), [0, 2, 0, 1, 0, 0]);
    }
}
