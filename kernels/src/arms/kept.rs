//! Units of weights that a lane asks for before it multiplies others: what came of them is kept as words meanwhile.

use std::ops::Range;

use kiln_dsl::prelude::*;

/// Unit `i` of each row, by the rows' first units, its words asked for.
#[track_caller]
pub(super) fn asked(w: &Tensor, starts: &[Ex<u32>], i: Ex<u32>) -> Vec<Unit> {
    starts.iter().map(|start| w.unit_of_row(*start, i).load()).collect()
}

/// The same of some of the rows, whose words came, as many each.
#[track_caller]
pub(super) fn arrived(
    w: &Tensor,
    starts: &[Ex<u32>],
    i: Ex<u32>,
    words: &[Ex<u32>],
    rows: Range<usize>,
) -> Vec<Unit> {
    let each = words.len() / starts.len();
    let came = |row: usize| words[row * each..][..each].iter().copied();
    rows.map(|row| w.unit_of_row(starts[row], i).with_loaded(came(row))).collect()
}

/// The words of units.
pub(super) struct Words(Vec<Ex<u32>>);

impl Words {
    pub(super) fn of(units: &[Unit]) -> Self {
        Words(units.iter().flat_map(Unit::loaded).collect())
    }
}

impl<'a> Read for &'a Words {
    type Out = &'a Words;
    fn read(&self) -> &'a Words {
        self
    }
}

/// The words that are kept, as they are now.
#[track_caller]
pub(super) fn words_of(kept: &PlaceArray<u32, Local>, n: u32) -> Vec<Ex<u32>> {
    (0..n).map(|i| word_of(kept, i)).collect()
}

#[device]
fn word_of(kept: &PlaceArray<u32, Local>, #[comptime] i: u32) -> u32 {
    kept[i]
}

/// Keeps words in the `q`-th of as many places.
#[device]
pub(super) fn keep(kept: &PlaceArray<u32, Local>, words: &Words, #[comptime] q: u32) {
    let n = comptime!(words.0.len() as u32);
    for i in comptime!(0..n) {
        let word = comptime!(words.0[i as usize]);
        kept[q * n + i] = word;
    }
}
