//! Where in the kernel's Rust source an instruction comes from.

use std::{fmt, panic};

/// A place in a kernel's source: file, line and column (both from 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// Path as the compiler was given it.
    pub file: &'static str,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
}

impl Location {
    /// The caller's place: in a staged kernel, the user's token.
    #[track_caller]
    pub fn caller() -> Self {
        panic::Location::caller().into()
    }
}

impl From<&'static panic::Location<'static>> for Location {
    fn from(l: &'static panic::Location<'static>) -> Self {
        Location { file: l.file(), line: l.line(), column: l.column() }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// Word offset → source place, for a module's instructions.
///
/// The words are the same with and without it; words from elsewhere run without a map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceMap {
    /// `(offset of an instruction's first word in the module, place)`, ascending by offset.
    pub entries: Vec<(u32, Location)>,
}

impl SourceMap {
    /// The place of the instruction that starts at `word`, if the writer recorded one.
    pub fn at(&self, word: u32) -> Option<Location> {
        self.entries.binary_search_by_key(&word, |e| e.0).ok().map(|i| self.entries[i].1)
    }
}
