//! Words → [`Program`], or the reason why not; never a panic.
//!
//! `words → reader (instructions) → globals (declarations) → flow (block order) → lower (scalar code)`

mod alu;
mod atomic;
mod callbacks;
mod composites;
mod error;
mod flow;
mod globals;
mod groups;
mod lower;
mod matrices;
mod memory;
mod phi;
mod print;
mod products;
mod reader;
mod tensors;
mod types;
mod values;

pub use error::DecodeError;
pub(crate) use globals::width_mask;

use crate::program::Program;

/// Decodes the compute entry point named `entry`.
pub(crate) fn decode(words: &[u32], entry: &str) -> Result<Program, DecodeError> {
    let words = reader::read(words)?;
    let globals = globals::Globals::collect(&words, entry)?;
    lower::lower(&globals)
}
