//! What a lane multiplies. Columns of x that a step has no rows for are left out: a workgroup that owns several asks before
//! the later ones.

use std::{cell::RefCell, ops::Range};

use kiln_dsl::prelude::*;

/// Columns whose products are added without asking whether the step has rows for them; then as many again each time, for a
/// driver does not mix the work before a branch with that behind it.
const FEWEST: u32 = 2;

/// What a lane works on: the first unit of each row of W, or of the first alone where rounds are known, the rows of x, the
/// units of a row, and its number.
pub(super) struct Rows {
    pub(super) starts: Vec<Ex<u32>>,
    pub(super) x: Vec<Ex<u32>>,
    pub(super) per_row: Ex<u32>,
    pub(super) lane: Ex<u32>,
    /// Rows of the step from the workgroup's first on, where it has several columns.
    pub(super) left: Option<Ex<u32>>,
}

impl Read for &Rows {
    type Out = Self;
    fn read(&self) -> Self {
        self
    }
}

/// Has `add` add the products of `cols` columns, run after run, as long as so many rows are `left` for them; of all where
/// that is not known.
#[track_caller]
pub(super) fn in_runs(cols: u32, left: Option<Ex<u32>>, add: &mut dyn FnMut(Range<u32>)) {
    Runs { cols, left, add: RefCell::new(add) }.from(0);
}

/// What adds runs of columns.
struct Runs<'a> {
    cols: u32,
    left: Option<Ex<u32>>,
    add: RefCell<&'a mut dyn FnMut(Range<u32>)>,
}

impl Runs<'_> {
    /// Adds those from `first` on.
    #[track_caller]
    fn from(&self, first: u32) {
        let end = self.left.map_or(self.cols, |_| self.cols.min((2 * first).max(FEWEST)));
        (self.add.borrow_mut())(first..end);
        if let (true, Some(left)) = (end < self.cols, self.left) {
            beyond(self, left, end);
        }
    }
}

impl Read for &Runs<'_> {
    type Out = Self;
    fn read(&self) -> Self {
        self
    }
}

#[device]
fn beyond(runs: &Runs<'_>, left: u32, #[comptime] first: u32) {
    if left > first {
        comptime!(runs.from(first));
    }
}

/// Rows of a step of `n` from a workgroup's first result on.
#[device]
pub(super) fn rows_left(n: u32, r0: u32) -> u32 {
    n - r0
}
