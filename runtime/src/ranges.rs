//! Free ranges of one slab: best fit, neighbors joined when given back.

use std::collections::BTreeMap;

/// The free ranges of `0..total` bytes.
#[derive(Debug)]
pub(crate) struct Ranges {
    total: u64,
    /// Offset → length; no two touch.
    free: BTreeMap<u64, u64>,
}

impl Ranges {
    pub(crate) fn new(total: u64) -> Self {
        Self { total, free: BTreeMap::from([(0, total)]) }
    }

    /// Takes `bytes` from the smallest range that holds them. Sizes are multiples of the alignment, so offsets are.
    pub(crate) fn take(&mut self, bytes: u64) -> Option<u64> {
        let (&offset, &length) =
            self.free.iter().filter(|&(_, &length)| length >= bytes).min_by_key(|&(_, &length)| length)?;
        self.free.remove(&offset);
        if length > bytes {
            self.free.insert(offset + bytes, length - bytes);
        }
        Some(offset)
    }

    /// Gives back what [`Ranges::take`] returned.
    pub(crate) fn give(&mut self, mut offset: u64, mut bytes: u64) {
        if let Some(after) = self.free.remove(&(offset + bytes)) {
            bytes += after;
        }
        if let Some((&before, &length)) = self.free.range(..offset).next_back()
            && before + length == offset
        {
            offset = before;
            bytes += length;
        }
        self.free.insert(offset, bytes);
    }

    pub(crate) fn is_unused(&self) -> bool {
        self.free.get(&0) == Some(&self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::Ranges;

    #[test]
    fn given_back_neighbors_join() {
        let mut ranges = Ranges::new(1024);
        let taken: Vec<_> = (0..4).map(|_| ranges.take(256).unwrap()).collect();
        assert_eq!(taken, [0, 256, 512, 768]);
        assert_eq!(ranges.take(256), None, "nothing is left");
        ranges.give(256, 256);
        ranges.give(768, 256);
        assert_eq!(ranges.take(512), None, "512 bytes are free, not in one piece");
        ranges.give(512, 256);
        assert_eq!(ranges.take(768), Some(256), "three neighbors became one");
        ranges.give(256, 768);
        ranges.give(0, 256);
        assert!(ranges.is_unused());
    }

    #[test]
    fn the_smallest_range_that_fits_is_taken() {
        let mut ranges = Ranges::new(1000);
        for bytes in [300, 10, 100, 10] {
            ranges.take(bytes);
        }
        ranges.give(0, 300);
        ranges.give(310, 100);
        assert_eq!(ranges.take(90), Some(310));
    }

    #[test]
    fn random_use_never_overlaps_and_ends_empty() {
        let mut ranges = Ranges::new(1 << 16);
        let mut live: Vec<(u64, u64)> = Vec::new();
        let mut seed = 12345u64;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let bytes = (1 + (seed >> 33) % 16) * 256;
            if seed & (1 << 60) == 0
                && let Some(offset) = ranges.take(bytes)
            {
                assert!(offset + bytes <= 1 << 16);
                assert!(live.iter().all(|&(o, b)| o + b <= offset || offset + bytes <= o));
                live.push((offset, bytes));
            } else if !live.is_empty() {
                let (offset, bytes) = live.swap_remove((seed >> 20) as usize % live.len());
                ranges.give(offset, bytes);
            }
        }
        for (offset, bytes) in live {
            ranges.give(offset, bytes);
        }
        assert!(ranges.is_unused());
    }
}
