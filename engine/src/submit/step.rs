//! One step: what is fed, of which sequences, and whose logits are asked for; in parts of feeds that are multiplied alike.

use kiln_kernels::step::{DONE_WORD, StepRow, step_block};

use crate::plan::Width;

/// Parts of a step, at most: one of each width.
pub(super) const MAX_PARTS: usize = 3;

/// Rows of one sequence that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    /// The sequence's line of the page table.
    pub(super) slot: u32,
    /// Position of the first row.
    pub(super) pos0: u32,
    /// Rows.
    pub(super) n_rows: u32,
}

/// The feeds of one width: decode of n sequences is n spans of one row, a prefill window one span of many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    /// How they are multiplied.
    pub(super) width: Width,
    /// In the order of their rows.
    pub(super) spans: Vec<Span>,
    /// A token id for each row.
    pub(super) ids: Vec<u32>,
    /// Rows whose logits are computed, rising.
    pub(super) outputs: Vec<u32>,
}

impl Part {
    pub(super) const fn new(width: Width) -> Self {
        Self { width, spans: Vec::new(), ids: Vec::new(), outputs: Vec::new() }
    }

    /// The rows of all spans.
    pub(super) fn rows(&self) -> impl Iterator<Item = StepRow> {
        let places = self.spans.iter().flat_map(|s| (0..s.n_rows).map(|i| (s.slot, s.pos0 + i)));
        places.zip(&self.ids).map(|((slot, position), &token)| StepRow { token, position, slot })
    }

    /// The step block for a command with room for `capacity` rows, after `done` steps.
    pub(super) fn block(&self, capacity: u32, done: u32) -> Vec<u32> {
        let mut block = step_block(&self.rows().collect::<Vec<_>>(), &self.outputs, capacity);
        block[DONE_WORD as usize] = done;
        block
    }
}

#[cfg(test)]
mod tests {
    use super::{Part, Span};
    use crate::plan::Width;

    #[test]
    fn short_feeds_of_several_sequences_are_one_part() {
        let spans = vec![
            Span { slot: 2, pos0: 9, n_rows: 1 },
            Span { slot: 0, pos0: 255, n_rows: 2 },
            Span { slot: 1, pos0: 0, n_rows: 1 },
        ];
        let step = Part { width: Width::Narrow, spans, ids: vec![50, 60, 61, 70], outputs: vec![0, 2, 3] };
        let places: Vec<_> = step.rows().map(|r| (r.token, r.position, r.slot)).collect();
        assert_eq!(places, [(50, 9, 2), (60, 255, 0), (61, 256, 0), (70, 0, 1)]);
        let block = step.block(5, 9);
        assert_eq!(block.len(), 4 + 4 * 5);
        assert_eq!(block[..8], [4, 3, 9, 0, 50, 9, 2, 0]);
        assert_eq!(block[8..12], [60, 255, 0, 2], "the second output takes row 2");
    }
}
