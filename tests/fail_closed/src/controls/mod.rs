//! The control twins by topic, under the names of their fixtures.

pub mod choices;
pub mod expressions;
pub mod functions;
pub mod memory;
pub mod signatures;
pub mod statements;
pub mod structs;
pub mod tiles;
pub mod types;

use crate::Control;

/// Every control twin.
pub fn all() -> Vec<Control> {
    [
        choices::all(),
        memory::all(),
        expressions::all(),
        functions::all(),
        signatures::all(),
        statements::all(),
        structs::all(),
        tiles::all(),
        types::all(),
    ]
    .concat()
}
