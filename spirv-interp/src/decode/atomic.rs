//! Atomic instructions: one scalar of a buffer or of workgroup memory, read and written as one step.

use kiln_abi::spirv::{MemorySemantics, Op, Scope};

use super::{
    error::{DecodeError, Decoded},
    lower::Lower,
    memory::Root,
    reader::Raw,
    types::Type,
};
use crate::{
    number::Number,
    program::{Atomic, Bin, Inst, Kind},
};

impl Lower<'_> {
    pub(super) fn atomic(&mut self, raw: &Raw) -> Decoded<()> {
        let (word, ops) = (raw.word, self.g.words.operands(raw));
        let wrong = |what| DecodeError::Type { word, op: raw.op.name(), what };
        let p = self.pointer(word, ops[0])?;
        let ty = match self.g.types.get(word, p.ty)? {
            Type::Scalar(d @ (Number::U32 | Number::I32)) => *d,
            _ => return Err(wrong("needs a 32-bit integer")),
        };
        if raw.op != Op::AtomicStore && raw.ty != p.ty {
            return Err(wrong("gives another type than is there"));
        }
        self.order(word, &ops[1..], raw.op == Op::AtomicCompareExchange, p.root)?;
        let (what, operands) = match raw.op {
            Op::AtomicLoad => (Atomic::Load, &ops[3..]),
            Op::AtomicStore => (Atomic::Store, &ops[3..]),
            Op::AtomicExchange => (Atomic::Exchange, &ops[3..]),
            Op::AtomicCompareExchange => (Atomic::CompareExchange, &ops[4..]),
            Op::AtomicIAdd => (Atomic::Combine(Bin::IAdd), &ops[3..]),
            Op::AtomicSMin => (Atomic::Combine(Bin::SMin), &ops[3..]),
            Op::AtomicUMin => (Atomic::Combine(Bin::UMin), &ops[3..]),
            Op::AtomicSMax => (Atomic::Combine(Bin::SMax), &ops[3..]),
            Op::AtomicUMax => (Atomic::Combine(Bin::UMax), &ops[3..]),
            Op::AtomicAnd => (Atomic::Combine(Bin::And), &ops[3..]),
            Op::AtomicOr => (Atomic::Combine(Bin::Or), &ops[3..]),
            Op::AtomicXor => (Atomic::Combine(Bin::Xor), &ops[3..]),
            _ => return Err(wrong("is no atomic instruction")),
        };
        let mut slots = [0; 2];
        for (slot, &id) in slots.iter_mut().zip(operands) {
            if self.g.type_of(word, id)? != p.ty {
                return Err(wrong("takes another type than is there"));
            }
            *slot = self.slots(word, id)?[0];
        }
        let kind = match p.root {
            Root::Buffer(binding) => {
                self.program.bindings[binding as usize].stored |= what != Atomic::Load;
                Kind::AtomicBuffer(what)
            }
            Root::Workgroup => Kind::AtomicWorkgroup(what),
            Root::Push | Root::Local { .. } | Root::Matrices | Root::Element { .. } => {
                return Err(wrong("reaches memory that nobody shares"));
            }
        };
        let c = self.access(raw, &p, 0, ty, &[])?;
        // An atomic access takes part in ordering whatever it says.
        let access = &mut self.program.accesses[c as usize];
        (access.private, access.available, access.visible) = (false, true, true);
        let dst = self.alloc(1)?;
        let [a, b] = slots;
        self.emit(Inst { kind, ty, dst, a, b, c, word })?;
        if raw.op != Op::AtomicStore {
            self.define(raw, vec![dst]);
        }
        Ok(())
    }

    /// The scope holds every invocation that can reach the memory; the order is relaxed, the only one that is checked.
    fn order(&self, word: u32, ops: &[u32], twice: bool, root: Root) -> Decoded<()> {
        let scope = self.g.scalar(ops[0]).and_then(Scope::from_number);
        let wide = match scope {
            Some(Scope::QueueFamily | Scope::Device) => true,
            Some(Scope::Workgroup) => matches!(root, Root::Workgroup),
            Some(_) => false,
            None => return Err(DecodeError::WrongId { word, id: ops[0], expected: "a constant scope" }),
        };
        if !wide {
            return Err(DecodeError::Malformed {
                word,
                what: "an atomic's scope is smaller than its memory's",
            });
        }
        for &id in &ops[1..if twice { 3 } else { 2 }] {
            match self.g.scalar(id).map(MemorySemantics) {
                Some(MemorySemantics(0)) => {}
                Some(_) => {
                    return Err(DecodeError::Malformed {
                        word,
                        what: "an atomic orders more than itself: not run here",
                    });
                }
                None => return Err(DecodeError::WrongId { word, id, expected: "constant semantics" }),
            }
        }
        Ok(())
    }
}
