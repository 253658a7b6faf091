//! `words → text` for people: one line per instruction, ids renumbered in order of appearance.
//!
//! Scalar, vector, array and pointer types and constants stand where they are used instead of on lines of their own;
//! names and decorations stand on the line of what they belong to. The last line has a hash of the raw words, so a
//! change that the text does not show is seen all the same.

mod facts;
mod values;

use std::{collections::BTreeMap, fmt::Write};

use kiln_abi::spirv::{
    BuiltIn, Capability, Decoration, ExecutionMode, FloatEncoding, GlslOp, GroupOperation, MatrixOperands,
    MatrixReduce, MemoryOperands, MemorySemantics, Op, OperandKind, Scope, StorageClass, TensorOperands,
};

use self::facts::Facts;
use crate::words::{DecodeError, Instruction, Part, decode, text};

/// FNV-1a of the words' bytes, little-endian: the same on every machine.
pub fn hash(words: &[u32]) -> u64 {
    let bytes = words.iter().flat_map(|w| w.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// The text of a module.
///
/// # Errors
/// What the op table cannot read.
pub fn disassemble(words: &[u32]) -> Result<String, DecodeError> {
    let instructions = decode(words)?;
    let mut printer =
        Printer { facts: Facts::new(&instructions), numbers: BTreeMap::new(), out: String::new() };
    let version = words[1];
    let _ = writeln!(printer.out, "; SPIR-V {}.{}", (version >> 16) & 0xff, (version >> 8) & 0xff);
    for instruction in &instructions {
        printer.line(instruction);
    }
    let _ = writeln!(printer.out, "; {} words, hash {:016x}", words.len(), hash(words));
    Ok(printer.out)
}

struct Printer {
    facts: Facts,
    numbers: BTreeMap<u32, usize>,
    out: String,
}

impl Printer {
    fn line(&mut self, i: &Instruction<'_>) {
        if self.facts.stands_where_used(i.result) || matches!(i.op, Op::Name | Op::MemberName) {
            return;
        }
        if matches!(i.op, Op::Decorate | Op::MemberDecorate) {
            return;
        }
        let line = match i.op {
            Op::TypeStruct => self.facts.struct_line(i),
            Op::Label => format!("{}:", self.id(i.result)),
            _ => {
                let mut line = String::new();
                if self.facts.in_function(i.at) {
                    line.push_str("  ");
                }
                if i.result != 0 {
                    let _ = write!(line, "{} = ", self.id(i.result));
                }
                line.push_str(i.op.name());
                if i.ty != 0 {
                    let _ = write!(line, " {}", self.id(i.ty));
                }
                for (position, part) in i.parts.iter().enumerate() {
                    let part = self.part(i, position, part);
                    let _ = write!(line, " {part}");
                }
                line
            }
        };
        self.out.push_str(&line);
        let decorations = self.facts.decorations(i.result).map(decoration_text).collect::<Vec<_>>();
        if !decorations.is_empty() {
            let _ = write!(self.out, " [{}]", decorations.join(", "));
        }
        self.out.push('\n');
    }

    /// A type or constant in words, a name, or `%` and a number in order of appearance.
    fn id(&mut self, id: u32) -> String {
        if let Some(text) = self.facts.text(id) {
            return text.to_owned();
        }
        let next = self.numbers.len();
        let number = *self.numbers.entry(id).or_insert(next);
        format!("%{number}")
    }

    fn part(&mut self, i: &Instruction<'_>, position: usize, part: &Part<'_>) -> String {
        let word = part.words.first().copied().unwrap_or(0);
        let named = |name: Option<&'static str>| name.map_or_else(|| word.to_string(), str::to_owned);
        match part.kind {
            OperandKind::Id | OperandKind::Ids => self.id(word),
            OperandKind::Literal => match (i.op, position, word) {
                (Op::EntryPoint, 0, 5) => "GLCompute".to_owned(),
                (Op::MemoryModel, 0, 0) => "Logical".to_owned(),
                (Op::MemoryModel, 1, 3) => "Vulkan".to_owned(),
                _ => word.to_string(),
            },
            OperandKind::Literals | OperandKind::ContextLiteral => word.to_string(),
            OperandKind::String => format!("{:?}", text(part.words)),
            OperandKind::OptMemory => self.memory(part.words),
            OperandKind::OptFloatEncoding => named(FloatEncoding::from_number(word).map(FloatEncoding::name)),
            OperandKind::OptMatrixOperands => flags(word, MATRIX),
            OperandKind::MatrixReduce => flags(word, REDUCE),
            OperandKind::TensorOperands => {
                let mut text = flags(word, TENSOR);
                for &id in &part.words[1..] {
                    let _ = write!(text, " {}", self.id(id));
                }
                text
            }
            OperandKind::StorageClass => named(StorageClass::from_number(word).map(StorageClass::name)),
            OperandKind::Decoration => named(Decoration::from_number(word).map(Decoration::name)),
            OperandKind::Capability => named(Capability::from_number(word).map(Capability::name)),
            OperandKind::ExecutionMode => named(ExecutionMode::from_number(word).map(ExecutionMode::name)),
            OperandKind::GroupOperation => named(GroupOperation::from_number(word).map(GroupOperation::name)),
            OperandKind::GlslOp => named(GlslOp::from_number(word).map(GlslOp::name)),
            OperandKind::LoopControl => named(["None", "Unroll", "DontUnroll"].get(word as usize).copied()),
            OperandKind::SelectionControl => named((word == 0).then_some("None")),
            OperandKind::PackedFormat => named((word == 0).then_some("4x8Bit")),
            OperandKind::Scope => {
                let scope = self.facts.constant(word).and_then(Scope::from_number);
                scope.map_or_else(|| self.id(word), |s| s.name().to_owned())
            }
            OperandKind::Semantics => {
                let mask = self.facts.constant(word);
                mask.map_or_else(|| self.id(word), |m| flags(m, SEMANTICS))
            }
        }
    }

    fn memory(&mut self, words: &[u32]) -> String {
        let Some((&mask, extra)) = words.split_first() else { return String::new() };
        let mut text = flags(mask, MEMORY);
        let mut extra = extra.iter();
        if mask & MemoryOperands::ALIGNED != 0 {
            let _ = write!(text, " {}", extra.next().copied().unwrap_or(0));
        }
        for &scope in extra {
            let _ = write!(text, " {}", self.id(scope));
        }
        text
    }
}

const SEMANTICS: &[(u32, &str)] = &[
    (MemorySemantics::ACQUIRE, "Acquire"),
    (MemorySemantics::RELEASE, "Release"),
    (MemorySemantics::ACQUIRE_RELEASE, "AcquireRelease"),
    (MemorySemantics::UNIFORM_MEMORY, "UniformMemory"),
    (MemorySemantics::WORKGROUP_MEMORY, "WorkgroupMemory"),
    (MemorySemantics::MAKE_AVAILABLE, "MakeAvailable"),
    (MemorySemantics::MAKE_VISIBLE, "MakeVisible"),
];

const MEMORY: &[(u32, &str)] = &[
    (MemoryOperands::ALIGNED, "Aligned"),
    (MemoryOperands::MAKE_AVAILABLE, "MakePointerAvailable"),
    (MemoryOperands::MAKE_VISIBLE, "MakePointerVisible"),
    (MemoryOperands::NON_PRIVATE, "NonPrivatePointer"),
];

const MATRIX: &[(u32, &str)] = &[
    (MatrixOperands::A_SIGNED, "ASigned"),
    (MatrixOperands::B_SIGNED, "BSigned"),
    (MatrixOperands::C_SIGNED, "CSigned"),
    (MatrixOperands::RESULT_SIGNED, "ResultSigned"),
    (MatrixOperands::SATURATING, "Saturating"),
];

const REDUCE: &[(u32, &str)] =
    &[(MatrixReduce::ROW, "Row"), (MatrixReduce::COLUMN, "Column"), (MatrixReduce::SQUARE, "2x2")];

const TENSOR: &[(u32, &str)] = &[
    (TensorOperands::VIEW, "TensorView"),
    (TensorOperands::DECODE, "DecodeFunc"),
    (TensorOperands::DECODE_VECTOR, "DecodeVectorFunc"),
];

/// The names of a mask's flags; flags without a name as a number.
fn flags(mask: u32, names: &[(u32, &str)]) -> String {
    let mut texts: Vec<String> =
        names.iter().filter(|(flag, _)| mask & flag != 0).map(|(_, name)| (*name).to_owned()).collect();
    let rest = names.iter().fold(mask, |rest, (flag, _)| rest & !flag);
    if rest != 0 || texts.is_empty() {
        texts.push(format!("{rest:#x}"));
    }
    texts.join("|")
}

fn decoration_text((decoration, literals): (u32, &[u32])) -> String {
    let name = Decoration::from_number(decoration);
    let mut text = name.map_or_else(|| format!("Decoration{decoration}"), |d| d.name().to_owned());
    for &literal in literals {
        let builtin = (name == Some(Decoration::BuiltIn)).then(|| BuiltIn::from_number(literal)).flatten();
        let _ = match builtin {
            Some(builtin) => write!(text, " {}", builtin.name()),
            None => write!(text, " {literal}"),
        };
    }
    text
}
