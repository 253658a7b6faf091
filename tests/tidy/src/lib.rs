//! Repository rules, each a pure function from what it reads to the faults it finds.
//!
//! `tests/repository.rs` holds this repository to them. Every rule's own tests plant a fault and see it found.

#![forbid(unsafe_code)]

use std::fmt;

pub mod crates;
pub mod files;
pub mod formats;
pub mod panics;
pub mod repo;
pub mod source;
pub mod stage_order;
pub mod texts;
pub mod unsafety;
pub mod vulkan;

/// One violation, printed as `path:line: what`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Relative to the repository's root.
    pub path: String,
    /// Counted from 1; 0 speaks of the whole file.
    pub line: usize,
    /// What is wrong and what to do.
    pub what: String,
}

impl Fault {
    /// A fault at a line.
    pub fn new(path: &str, line: usize, what: impl Into<String>) -> Fault {
        Fault { path: path.to_string(), line, what: what.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}
