//! What a step is while it is planned.

use std::collections::BTreeMap;

use kiln_kernels::Call;

use crate::graph::ValueId;
use crate::plan::{Kept, PlannedLaunch, PlannedWord, StepClass, scratch::Scratch};

/// Where a value is as an arm takes it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packed {
    pub(super) buffer: usize,
    pub(super) width: usize,
}

/// A step being planned.
pub(super) struct Step {
    pub(super) class: StepClass,
    /// Live values in blocks; none for the outputs' hidden rows.
    pub(super) packed: BTreeMap<Option<ValueId>, Packed>,
    /// The same as f16.
    pub(super) halves: BTreeMap<Option<ValueId>, Packed>,
    /// Live values as f32.
    pub(super) values: BTreeMap<ValueId, usize>,
    pub(super) launches: Vec<PlannedLaunch>,
    pub(super) words: Vec<PlannedWord>,
}

impl Step {
    pub(super) fn new(class: StepClass) -> Self {
        let (packed, halves, values) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Step { class, packed, halves, values, launches: Vec::new(), words: Vec::new() }
    }

    /// Gives the buffers of a value's blocks and halves back.
    pub(super) fn forget_packed(&mut self, value: Option<ValueId>, scratch: &mut Scratch) {
        for packed in [self.packed.remove(&value), self.halves.remove(&value)].into_iter().flatten() {
            scratch.give(packed.buffer, packed.width);
        }
    }

    /// Where a value is: as f32, in blocks.
    pub(super) fn kept(&self, value: ValueId) -> Vec<Kept> {
        let rows = self.values.get(&value).map(|buffer| Kept::Rows(*buffer));
        let blocks = self.packed.get(&Some(value)).map(|blocks| Kept::Blocks(blocks.buffer));
        rows.into_iter().chain(blocks).collect()
    }

    pub(super) fn launch(&mut self, label: &str, call: Call) {
        self.launches.push(PlannedLaunch { label: label.to_owned(), call, reason: None });
    }

    pub(super) fn launch_because(&mut self, label: &str, call: Call, reason: String) {
        self.launches.push(PlannedLaunch { label: label.to_owned(), call, reason: Some(reason) });
    }
}
