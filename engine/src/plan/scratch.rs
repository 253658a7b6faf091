//! Buffers for values between words, given back after their last use.

use std::collections::BTreeMap;

use super::{Holds, PlannedBuffer};

/// Hands out scratch buffers of `rows` rows.
pub(super) struct Scratch {
    rows: u64,
    /// Width in elements → free buffers of it.
    free: BTreeMap<usize, Vec<usize>>,
    made: usize,
}

impl Scratch {
    /// For activations of `rows` rows.
    pub(super) fn new(rows: u32) -> Self {
        Self { rows: rows.into(), free: BTreeMap::new(), made: 0 }
    }

    /// A buffer for rows of `width` f32, free or new.
    pub(super) fn take(&mut self, width: usize, buffers: &mut Vec<PlannedBuffer>) -> usize {
        if let Some(index) = self.free.get_mut(&width).and_then(Vec::pop) {
            return index;
        }
        let name = format!("scratch {}", self.made);
        self.made += 1;
        let bytes = self.rows * 4 * width as u64;
        buffers.push(PlannedBuffer { name, bytes, holds: Holds::Scratch });
        buffers.len() - 1
    }

    /// Gives a buffer back.
    pub(super) fn give(&mut self, index: usize, width: usize) {
        self.free.entry(width).or_default().push(index);
    }
}
