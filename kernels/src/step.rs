//! The step block: what changes from one step of a recorded command to the next, as 32-bit words on the device.
//!
//! | word | meaning |
//! |---|---|
//! | 0 | n_rows: rows of this step, at most the command's capacity |
//! | 1 | n_outputs: rows whose logits are asked for |
//! | 2 | steps done so far |
//! | 3 | unused |
//! | 4 + 4r | token id of row r |
//! | 5 + 4r | position of row r in its sequence |
//! | 6 + 4r | slot of row r: its line of the page table |
//! | 7 + 4o | the row that output o takes |

use kiln_dsl::prelude::*;

/// Words before the rows.
pub const HEADER_WORDS: u32 = 4;
/// Where the number of steps done so far is.
pub const DONE_WORD: u32 = 2;
/// Words of a row.
pub const ROW_WORDS: u32 = 4;

/// Words of a block for up to `rows` rows.
pub const fn step_words(rows: u32) -> u32 {
    HEADER_WORDS + ROW_WORDS * rows
}

/// A row of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepRow {
    /// Token id.
    pub token: u32,
    /// Position in the sequence.
    pub position: u32,
    /// Line of the page table.
    pub slot: u32,
}

/// The block's words for `rows` of a command with room for `capacity`; `outputs` are indices into `rows`.
pub fn step_block(rows: &[StepRow], outputs: &[u32], capacity: u32) -> Vec<u32> {
    let mut words = vec![0; step_words(capacity) as usize];
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    (words[0], words[1]) = (count(rows.len()), count(outputs.len()));
    for (line, row) in words[HEADER_WORDS as usize..].chunks_exact_mut(ROW_WORDS as usize).zip(rows) {
        line[..3].copy_from_slice(&[row.token, row.position, row.slot]);
    }
    for (line, output) in words[HEADER_WORDS as usize..].chunks_exact_mut(ROW_WORDS as usize).zip(outputs) {
        line[3] = *output;
    }
    words
}

/// Rows of this step.
#[device]
pub fn n_rows(step: &Buf<u32>) -> u32 {
    step[0]
}

/// Whether a command with room for `rows` rows has no row `r` in this step. A single row is there in every step: nobody
/// waits for the count.
#[device]
pub fn is_beyond(step: &Buf<u32>, r: u32, rows: u32) -> bool {
    rows > 1 && r >= n_rows(&step)
}

/// Outputs of this step.
#[device]
pub fn n_outputs(step: &Buf<u32>) -> u32 {
    step[1]
}

/// Token id of row `r`.
#[device]
pub fn row_token(step: &Buf<u32>, r: u32) -> u32 {
    step[HEADER_WORDS + ROW_WORDS * r]
}

/// Position of row `r`.
#[device]
pub fn row_position(step: &Buf<u32>, r: u32) -> u32 {
    step[HEADER_WORDS + ROW_WORDS * r + 1]
}

/// Slot of row `r`.
#[device]
pub fn row_slot(step: &Buf<u32>, r: u32) -> u32 {
    step[HEADER_WORDS + ROW_WORDS * r + 2]
}

/// The row that output `o` takes.
#[device]
pub fn output_row(step: &Buf<u32>, o: u32) -> u32 {
    step[HEADER_WORDS + ROW_WORDS * o + 3]
}
