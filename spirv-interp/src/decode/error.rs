//! Why words are refused.

use thiserror::Error;

/// Words that are not a module the interpreter can run; `word` is the offset of the instruction.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The header is not that of a SPIR-V 1.x module.
    #[error("not a SPIR-V module: {what} is {found:#x}")]
    Header {
        /// The header field.
        what: &'static str,
        /// Its value.
        found: u32,
    },
    /// An instruction reaches past the end of the words.
    #[error("word {word}: the module ends inside the instruction")]
    Truncated {
        /// The instruction.
        word: u32,
    },
    /// An opcode the op table does not have.
    #[error("word {word}: opcode {opcode} is not in the op table")]
    UnknownOpcode {
        /// The instruction.
        word: u32,
        /// The opcode.
        opcode: u16,
    },
    /// An enumerant or mask the op table does not have.
    #[error("word {word}: Op{op} with {what} {value}, which the op table does not have")]
    UnknownEnumerant {
        /// The instruction.
        word: u32,
        /// Its name.
        op: &'static str,
        /// What kind of enumerant.
        what: &'static str,
        /// Its number.
        value: u32,
    },
    /// Too few or too many words for the instruction.
    #[error("word {word}: Op{op} cannot have {words} words")]
    WrongLength {
        /// The instruction.
        word: u32,
        /// Its name.
        op: &'static str,
        /// Its word count.
        words: u32,
    },
    /// An id of 0, or at or past the header's bound.
    #[error("word {word}: id {id} is outside 1..{bound}")]
    IdOutOfBound {
        /// The instruction.
        word: u32,
        /// The id.
        id: u32,
        /// The header's bound.
        bound: u32,
    },
    /// An id defined twice.
    #[error("word {word}: id {id} is defined a second time")]
    DuplicateId {
        /// The instruction.
        word: u32,
        /// The id.
        id: u32,
    },
    /// An id used where no definition reaches it, or one that is something else.
    #[error("word {word}: id {id} is not {expected} defined before")]
    WrongId {
        /// The instruction.
        word: u32,
        /// The id.
        id: u32,
        /// What the place asks for.
        expected: &'static str,
    },
    /// Operand types that do not fit the instruction.
    #[error("word {word}: Op{op} {what}")]
    Type {
        /// The instruction.
        word: u32,
        /// Its name.
        op: &'static str,
        /// What does not fit.
        what: &'static str,
    },
    /// A form of module that the rules of the language exclude.
    #[error("word {word}: {what}")]
    Malformed {
        /// The instruction.
        word: u32,
        /// What is wrong.
        what: &'static str,
    },
    /// No compute entry point of that name.
    #[error("no compute entry point {name:?} in the module")]
    NoEntry {
        /// The name asked for.
        name: String,
    },
    /// More of something than the interpreter takes on.
    #[error("{found} {what}; the interpreter allows {allowed}")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How much the module has, at least.
        found: u64,
        /// The limit.
        allowed: u64,
    },
}

pub(crate) type Decoded<T> = Result<T, DecodeError>;
