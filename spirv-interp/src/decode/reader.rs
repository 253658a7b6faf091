//! Words → instructions, each checked against its row of the op table.

use std::{collections::HashSet, ops::Range};

use kiln_abi::spirv::{
    Capability, Decoration, ExecutionMode, FloatEncoding, GroupOperation, MAGIC, MemoryOperands, Op,
    OpResult, OperandKind, StorageClass, TensorOperands, VERSION_1_6,
};

use super::error::{DecodeError, Decoded};

/// One instruction; `ty` and `id` are 0 where it has none.
#[derive(Clone, Debug)]
pub(crate) struct Raw {
    pub(crate) op: Op,
    pub(crate) word: u32,
    pub(crate) ty: u32,
    pub(crate) id: u32,
    operands: Range<usize>,
}

/// A module's instructions over its words.
pub(crate) struct Words<'a> {
    words: &'a [u32],
    pub(crate) list: Vec<Raw>,
}

impl Words<'_> {
    /// The words after type and result.
    pub(crate) fn operands(&self, raw: &Raw) -> &[u32] {
        &self.words[raw.operands.clone()]
    }

    /// Operand `i`; the reader has checked that the table's single operands are there.
    pub(crate) fn operand(&self, raw: &Raw, i: usize) -> Decoded<u32> {
        let found = self.operands(raw).get(i).copied();
        found.ok_or(DecodeError::WrongLength { word: raw.word, op: raw.op.name(), words: 0 })
    }
}

/// Splits `words` into instructions.
pub(crate) fn read(words: &[u32]) -> Decoded<Words<'_>> {
    let field = |i: usize| words.get(i).copied().ok_or(DecodeError::Truncated { word: i as u32 });
    let header = |what, found| Err(DecodeError::Header { what, found });
    if field(0)? != MAGIC {
        return header("the magic number", field(0)?);
    }
    let (version, bound, schema) = (field(1)?, field(3)?, field(4)?);
    if !(0x0001_0000..=VERSION_1_6).contains(&version) || version & 0xff != 0 {
        return header("the version", version);
    }
    if schema != 0 {
        return header("the schema", schema);
    }
    let (mut list, mut defined, mut at) = (Vec::new(), HashSet::new(), 5);
    while at < words.len() {
        let (word, opcode, count) = (at as u32, words[at] as u16, (words[at] >> 16) as usize);
        let end = at + count.max(1);
        let body = words.get(at..end).ok_or(DecodeError::Truncated { word })?;
        let op = Op::from_number(opcode).ok_or(DecodeError::UnknownOpcode { word, opcode })?;
        let mut cursor = Cursor { body, next: 1, word, op, bound };
        let (ty, id) = match op.result() {
            OpResult::None => (0, 0),
            OpResult::Id => (0, cursor.id()?),
            OpResult::Typed => (cursor.id()?, cursor.id()?),
        };
        if id != 0 && !defined.insert(id) {
            return Err(DecodeError::DuplicateId { word, id });
        }
        let first = at + cursor.next;
        for kind in op.operands() {
            cursor.operand(*kind)?;
        }
        if cursor.next != body.len() || count == 0 {
            return Err(cursor.wrong_length());
        }
        list.push(Raw { op, word, ty, id, operands: first..end });
        at = end;
    }
    Ok(Words { words, list })
}

/// The text that starts `words`, and the number of words it takes.
pub(crate) fn text(words: &[u32]) -> Option<(String, usize)> {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let len = bytes.iter().position(|&b| b == 0)?;
    Some((String::from_utf8_lossy(&bytes[..len]).into_owned(), len / 4 + 1))
}

struct Cursor<'a> {
    body: &'a [u32],
    next: usize,
    word: u32,
    op: Op,
    bound: u32,
}

impl Cursor<'_> {
    fn wrong_length(&self) -> DecodeError {
        let words = self.body.len() as u32;
        DecodeError::WrongLength { word: self.word, op: self.op.name(), words }
    }

    fn word(&mut self) -> Decoded<u32> {
        let found = self.body.get(self.next).copied().ok_or_else(|| self.wrong_length())?;
        self.next += 1;
        Ok(found)
    }

    fn id(&mut self) -> Decoded<u32> {
        let id = self.word()?;
        if id == 0 || id >= self.bound {
            return Err(DecodeError::IdOutOfBound { word: self.word, id, bound: self.bound });
        }
        Ok(id)
    }

    fn known<T>(&mut self, what: &'static str, find: fn(u32) -> Option<T>) -> Decoded<()> {
        let value = self.word()?;
        match find(value) {
            Some(_) => Ok(()),
            None => Err(DecodeError::UnknownEnumerant { word: self.word, op: self.op.name(), what, value }),
        }
    }

    fn rest(&mut self) {
        self.next = self.body.len();
    }

    fn operand(&mut self, kind: OperandKind) -> Decoded<()> {
        match kind {
            OperandKind::Id | OperandKind::Scope | OperandKind::Semantics => self.id().map(drop),
            OperandKind::Ids => {
                while self.next < self.body.len() {
                    self.id()?;
                }
                Ok(())
            }
            OperandKind::Literal | OperandKind::ContextLiteral | OperandKind::SelectionControl => {
                self.word().map(drop)
            }
            OperandKind::Literals => {
                self.rest();
                Ok(())
            }
            OperandKind::LoopControl => {
                let mask = self.word()?;
                if mask & !0x3 != 0 {
                    self.rest();
                }
                Ok(())
            }
            OperandKind::String => {
                let (_, words) = text(&self.body[self.next..]).ok_or_else(|| self.wrong_length())?;
                self.next += words;
                Ok(())
            }
            OperandKind::OptMemory => self.memory(),
            OperandKind::OptFloatEncoding | OperandKind::OptMatrixOperands
                if self.next == self.body.len() =>
            {
                Ok(())
            }
            OperandKind::OptFloatEncoding => self.known("float encoding", FloatEncoding::from_number),
            OperandKind::OptMatrixOperands => self.known("matrix operands", |n| (n < 0x20).then_some(())),
            OperandKind::MatrixReduce => self.known("matrix reduction", |n| (n < 8).then_some(())),
            OperandKind::TensorOperands => {
                let mask = self.word()?;
                for flag in [TensorOperands::VIEW, TensorOperands::DECODE, TensorOperands::DECODE_VECTOR] {
                    if mask & flag != 0 {
                        self.id()?;
                    }
                }
                Ok(())
            }
            OperandKind::StorageClass => self.known("storage class", StorageClass::from_number),
            OperandKind::Decoration => self.known("decoration", Decoration::from_number),
            OperandKind::Capability => self.known("capability", Capability::from_number),
            OperandKind::ExecutionMode => self.known("execution mode", ExecutionMode::from_number),
            OperandKind::GroupOperation => self.known("group operation", GroupOperation::from_number),
            // Which set it is of is known where it runs.
            OperandKind::GlslOp => self.word().map(drop),
            OperandKind::PackedFormat => self.known("packed format", |n| (n == 0).then_some(())),
        }
    }

    fn memory(&mut self) -> Decoded<()> {
        if self.next == self.body.len() {
            return Ok(());
        }
        let mask = self.word()?;
        if mask & MemoryOperands::ALIGNED != 0 {
            self.word()?;
        }
        for scope in [MemoryOperands::MAKE_AVAILABLE, MemoryOperands::MAKE_VISIBLE] {
            if mask & scope != 0 {
                self.id()?;
            }
        }
        Ok(())
    }
}
