//! A hash index over things that are kept elsewhere: it holds their numbers alone.

use std::hash::{BuildHasher, Hash, RandomState};

/// Open addressing over numbers: an entry costs a few bytes and no allocation, which bounds what a file's lists can
/// make us allocate. The hash is keyed because the lists come from a file.
pub(super) struct Index {
    slots: Vec<u32>,
    hasher: RandomState,
}

const FREE: u32 = u32::MAX;

impl Index {
    /// For at most `n` entries; a third of the slots stay free.
    pub(super) fn with_capacity(n: usize) -> Self {
        Self { slots: vec![FREE; (n + n / 2 + 1).next_power_of_two()], hasher: RandomState::new() }
    }

    /// The slots of this key, in the order to look at them. There is always a free one.
    fn probe<K: Hash>(&self, key: K) -> impl Iterator<Item = usize> + use<K> {
        let mask = self.slots.len() - 1;
        let start = self.hasher.hash_one(key) as usize & mask;
        (start..=mask).chain(0..start)
    }

    /// Adds thing number `at` under a key that is not in the index.
    pub(super) fn insert(&mut self, at: u32, key: impl Hash) {
        if let Some(slot) = self.probe(key).find(|&slot| self.slots[slot] == FREE) {
            self.slots[slot] = at;
        }
    }

    /// The number added under this key, by `is`, which says whether a number's thing has it.
    pub(super) fn find(&self, key: impl Hash, is: impl Fn(u32) -> bool) -> Option<u32> {
        self.probe(key).map(|slot| self.slots[slot]).take_while(|&at| at != FREE).find(|&at| is(at))
    }
}
