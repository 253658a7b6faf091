//! What a step is while it is planned.

use std::collections::BTreeMap;

use kiln_kernels::{Call, activations::FIELDS};

use crate::graph::ValueId;
use crate::plan::{Kept, Late, PlannedLaunch, PlannedWord, StepClass, scratch::Scratch};

/// Where a value is as an arm takes it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packed {
    pub(super) buffer: usize,
    pub(super) width: usize,
    /// Whether it is the value: blocks of one plane, and halves, are made of its rows for a product alone.
    pub(super) whole: bool,
    /// What the scale of its rows is made of, where that comes late.
    pub(super) late: Option<Late>,
}

/// Words of a row's sums of squares, beside blocks of two planes of so many words.
pub(super) const fn squares_width(packed_width: usize) -> usize {
    packed_width / (4 * FIELDS as usize)
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
            if let Some(late) = packed.late {
                scratch.give(late.squares, squares_width(packed.width));
            }
        }
    }

    /// What the scale of a value's rows is made of, where that comes late.
    pub(super) fn late(&self, value: Option<ValueId>) -> Option<Late> {
        self.packed.get(&value).and_then(|packed| packed.late)
    }

    /// Where a value is: as f32, in blocks.
    pub(super) fn kept(&self, value: ValueId) -> Vec<Kept> {
        let rows = self.values.get(&value).map(|buffer| Kept::Rows(*buffer));
        let blocks =
            self.packed.get(&Some(value)).filter(|packed| packed.whole).map(|packed| match packed.late {
                None => Kept::Blocks(packed.buffer),
                Some(late) => Kept::Late { blocks: packed.buffer, late },
            });
        rows.into_iter().chain(blocks).collect()
    }

    pub(super) fn launch(&mut self, label: &str, call: Call) {
        self.launches.push(PlannedLaunch { label: label.to_owned(), call, reason: None });
    }

    pub(super) fn launch_because(&mut self, label: &str, call: Call, reason: String) {
        self.launches.push(PlannedLaunch { label: label.to_owned(), call, reason: Some(reason) });
    }
}
