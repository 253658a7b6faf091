//! What a debugger reads: source lines and lines to print. A kernel has them where staging asks for them, else no word
//! of it is written.

use std::collections::BTreeMap;

use kiln_abi::{Location, spirv::Op};

use super::{
    Writer,
    section::{Section, id, string, word},
};
use crate::ir::ValueId;

/// The instruction set of lines to print; a driver that does not know it passes over it.
pub(super) const PRINTF: &str = "NonSemantic.DebugPrintf";

/// Strings, and what was written last.
#[derive(Default)]
pub(super) struct Debug {
    pub(super) strings: Section,
    ids: BTreeMap<String, u32>,
    /// Id of the instruction set, 0 until a line is printed.
    pub(super) printf: u32,
    /// The line that the instructions of this block are at.
    line: Option<Location>,
}

impl Writer<'_> {
    fn text(&mut self, text: &str) -> u32 {
        if let Some(&known) = self.debug.ids.get(text) {
            return known;
        }
        let result = self.fresh();
        self.debug.strings.push(Op::String, 0, result, vec![string(text)], None);
        self.debug.ids.insert(text.to_owned(), result);
        result
    }

    /// Names the source line of the next instruction, where it is another one.
    pub(super) fn line(&mut self, at: Location) {
        if !self.module.lines || self.debug.line == Some(at) {
            return;
        }
        let file = self.text(at.file);
        self.code.push(Op::Line, 0, 0, vec![id(file), word(at.line), word(at.column)], Some(at));
        self.debug.line = Some(at);
    }

    /// A line holds to the end of its block.
    pub(super) fn no_line(&mut self) {
        self.debug.line = None;
    }

    pub(super) fn print(&mut self, text: &str, values: &[ValueId], at: Location) {
        if self.debug.printf == 0 {
            self.debug.printf = self.fresh();
        }
        self.line(at);
        let (void, text, result) = (self.void(), self.text(text), self.fresh());
        let mut operands = vec![id(self.debug.printf), word(1), id(text)];
        operands.extend(values.iter().map(|&v| id(self.value(v))));
        self.code.push(Op::ExtInst, void, result, operands, Some(at));
    }
}
