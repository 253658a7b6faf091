//! Reads SPIR-V words back through the op table; the disassembly and the census are made of it.

use kiln_abi::spirv::{MAGIC, MemoryOperands, Op, OpResult, OperandKind, TensorOperands};
use thiserror::Error;

/// Why words are no module we can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The header is short or is not SPIR-V's.
    #[error("expected the five header words of a SPIR-V module; found something else")]
    Header,
    /// An opcode that the op table does not have.
    #[error("expected an opcode of the op table at word {at}; found {number}")]
    UnknownOp {
        /// Word offset.
        at: usize,
        /// The opcode.
        number: u16,
    },
    /// An instruction with more or fewer words than its operands take.
    #[error("expected the operands of {op:?} at word {at}; found another number of words")]
    Length {
        /// Word offset.
        at: usize,
        /// The instruction.
        op: Op,
    },
}

/// One operand with its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<'w> {
    /// How it is read. A repeated kind is given once per word; memory operands are one part.
    pub kind: OperandKind,
    /// Its words.
    pub words: &'w [u32],
}

/// One instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction<'w> {
    /// Offset of its first word.
    pub at: usize,
    /// Operation.
    pub op: Op,
    /// Type id, 0 without one.
    pub ty: u32,
    /// Result id, 0 without one.
    pub result: u32,
    /// Operands in order.
    pub parts: Vec<Part<'w>>,
}

impl Instruction<'_> {
    /// The first word of an operand; 0 when it is not there.
    pub fn word(&self, part: usize) -> u32 {
        self.parts.get(part).and_then(|p| p.words.first()).copied().unwrap_or(0)
    }
}

/// Reads every instruction of a module.
///
/// # Errors
/// What the op table cannot read.
pub fn decode(words: &[u32]) -> Result<Vec<Instruction<'_>>, DecodeError> {
    if words.len() < 5 || words[0] != MAGIC {
        return Err(DecodeError::Header);
    }
    let mut instructions = Vec::new();
    let mut at = 5;
    while at < words.len() {
        let [number, len] = [words[at] & 0xffff, words[at] >> 16];
        let number = u16::try_from(number).unwrap_or(u16::MAX);
        let op = Op::from_number(number).ok_or(DecodeError::UnknownOp { at, number })?;
        let wrong = DecodeError::Length { at, op };
        let mut rest = words.get(at + 1..at + len as usize).ok_or(wrong)?;
        let mut next = || {
            let (&first, others) = rest.split_first()?;
            rest = others;
            Some(first)
        };
        let (ty, result) = match op.result() {
            OpResult::None => (0, 0),
            OpResult::Id => (0, next().ok_or(wrong)?),
            OpResult::Typed => (next().ok_or(wrong)?, next().ok_or(wrong)?),
        };
        let parts = parts(op, rest).ok_or(wrong)?;
        instructions.push(Instruction { at, op, ty, result, parts });
        at += len as usize;
    }
    Ok(instructions)
}

fn parts(op: Op, mut rest: &[u32]) -> Option<Vec<Part<'_>>> {
    let mut parts = Vec::new();
    for &kind in op.operands() {
        let n = match kind {
            OperandKind::Ids | OperandKind::Literals => {
                parts.extend(rest.chunks(1).map(|words| Part { kind, words }));
                rest = &[];
                continue;
            }
            OperandKind::OptMemory | OperandKind::OptFloatEncoding | OperandKind::OptMatrixOperands
                if rest.is_empty() =>
            {
                continue;
            }
            OperandKind::TensorOperands => tensor_words(*rest.first()?),
            OperandKind::OptMemory => memory_words(rest[0]),
            OperandKind::String => string_words(rest)?,
            _ => 1,
        };
        let (words, others) = rest.split_at_checked(n)?;
        parts.push(Part { kind, words });
        rest = others;
    }
    rest.is_empty().then_some(parts)
}

/// The mask, and a word for each of its flags that calls for one.
fn memory_words(mask: u32) -> usize {
    let flags = [MemoryOperands::ALIGNED, MemoryOperands::MAKE_AVAILABLE, MemoryOperands::MAKE_VISIBLE];
    1 + flags.iter().filter(|&&flag| mask & flag != 0).count()
}

/// The mask, and an id for each of its flags.
fn tensor_words(mask: u32) -> usize {
    let flags = [TensorOperands::VIEW, TensorOperands::DECODE, TensorOperands::DECODE_VECTOR];
    1 + flags.iter().filter(|&&flag| mask & flag != 0).count()
}

fn string_words(words: &[u32]) -> Option<usize> {
    words.iter().position(|w| w.to_le_bytes().contains(&0)).map(|last| last + 1)
}

/// The text of a string operand.
pub fn text(words: &[u32]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).take_while(|&b| b != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: [u32; 5] = [MAGIC, 0x0001_0600, 0, 1, 0];

    #[test]
    fn string_operands_end_at_their_nul() {
        let words = [HEADER.as_slice(), &[(4 << 16) | 5, 7, u32::from_le_bytes(*b"main"), 0]].concat();
        let decoded = decode(&words).unwrap();
        assert_eq!((decoded[0].op, decoded[0].word(0)), (Op::Name, 7));
        assert_eq!(text(decoded[0].parts[1].words), "main");
    }

    #[test]
    fn short_and_unknown_instructions_are_refused() {
        let decode = |tail: &[u32]| decode(&[HEADER.as_slice(), tail].concat()).err();
        assert_eq!(super::decode(&[]), Err(DecodeError::Header));
        assert_eq!(decode(&[(1 << 16) | 0xfff]), Some(DecodeError::UnknownOp { at: 5, number: 0xfff }));
        let length = |op| Some(DecodeError::Length { at: 5, op });
        assert_eq!(decode(&[(3 << 16) | 253, 0, 0]), length(Op::Return));
        assert_eq!(decode(&[(2 << 16) | 61, 0]), length(Op::Load));
        assert_eq!(decode(&[253]), length(Op::Return));
        assert_eq!(decode(&[(9 << 16) | 5, 7]), length(Op::Name));
    }
}
