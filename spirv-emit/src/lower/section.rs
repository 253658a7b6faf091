//! One section of a SPIR-V module: words that rspirv encodes, with the place of each instruction that has one.

use kiln_abi::{Location, SourceMap, spirv::Op};
use rspirv::{
    binary::Assemble,
    dr::{Instruction, Operand},
};

/// A run of encoded instructions.
#[derive(Debug, Default)]
pub(super) struct Section {
    words: Vec<u32>,
    /// `(offset within the section, place)`.
    places: Vec<(u32, Location)>,
}

/// An id as an operand.
pub(super) fn id(id: u32) -> Operand {
    Operand::IdRef(id)
}

/// A literal or enumerant as an operand; both are one word.
pub(super) fn word(word: u32) -> Operand {
    Operand::LiteralBit32(word)
}

/// A string as an operand.
pub(super) fn string(s: &str) -> Operand {
    Operand::LiteralString(s.to_owned())
}

impl Section {
    /// Appends an instruction. A missing type or result is 0.
    ///
    /// # Panics
    /// Never: rspirv's grammar has every row of the op table, which a test holds.
    #[expect(clippy::expect_used, reason = "rspirv's grammar covers the op table, and a test says so")]
    pub(super) fn push(
        &mut self,
        op: Op,
        ty: u32,
        result: u32,
        operands: Vec<Operand>,
        at: Option<Location>,
    ) {
        let present = |id: u32| (id != 0).then_some(id);
        let opcode =
            rspirv::spirv::Op::from_u32(u32::from(op.number())).expect("the op table's rows are known");
        if let Some(at) = at {
            self.places.push((offset(self.words.len()), at));
        }
        Instruction::new(opcode, present(ty), present(result), operands).assemble_into(&mut self.words);
    }

    /// Moves the section's words to the end of a module.
    pub(super) fn append_to(self, words: &mut Vec<u32>, source: &mut SourceMap) {
        let base = offset(words.len());
        source.entries.extend(self.places.iter().map(|&(o, at)| (base + o, at)));
        words.extend(self.words);
    }
}

fn offset(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rspirv_knows_every_row_of_the_op_table_by_the_same_name() {
        for &op in Op::ALL {
            let theirs = rspirv::spirv::Op::from_u32(u32::from(op.number())).map(|o| format!("{o:?}"));
            assert_eq!(theirs.as_deref(), Some(op.name()));
        }
    }
}
