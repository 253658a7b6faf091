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
        let orders = self.orders(raw, p.root)?;
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
        access.orders = orders;
        let dst = self.alloc(1)?;
        let [a, b] = slots;
        self.emit(Inst { kind, ty, dst, a, b, c, word })?;
        if raw.op != Op::AtomicStore {
            self.define(raw, vec![dst]);
        }
        Ok(())
    }

    /// The scope holds every invocation that can reach the memory; a load releases nothing, a store acquires nothing.
    fn orders(&self, raw: &Raw, root: Root) -> Decoded<[MemorySemantics; 2]> {
        let (word, ops) = (raw.word, self.g.words.operands(raw));
        let malformed = |what| Err(DecodeError::Malformed { word, what });
        let scope = self.g.scalar(ops[1]).and_then(Scope::from_number);
        let wide = match scope {
            Some(Scope::QueueFamily | Scope::Device) => true,
            Some(Scope::Workgroup) => matches!(root, Root::Workgroup),
            Some(_) => false,
            None => return Err(DecodeError::WrongId { word, id: ops[1], expected: "a constant scope" }),
        };
        if !wide {
            return malformed("an atomic's scope is smaller than its memory's");
        }
        let semantics = |id| {
            let missing = DecodeError::WrongId { word, id, expected: "constant semantics" };
            self.g.scalar(id).map(MemorySemantics).ok_or(missing)
        };
        let orders = match raw.op {
            Op::AtomicCompareExchange => [semantics(ops[2])?, semantics(ops[3])?],
            _ => [semantics(ops[2])?; 2],
        };
        let [stored, left] = orders;
        let (releases, acquires) = (MemorySemantics::RELEASE, MemorySemantics::ACQUIRE);
        let (both, all) =
            (MemorySemantics::ACQUIRE_RELEASE, releases | acquires | MemorySemantics::ACQUIRE_RELEASE);
        let wrong = match raw.op {
            Op::AtomicLoad => stored.0 & (releases | both) != 0,
            Op::AtomicStore => stored.0 & (acquires | both) != 0,
            Op::AtomicCompareExchange => left.0 & (releases | both) != 0,
            _ => false,
        };
        if wrong {
            return malformed("a load releases, or a store acquires");
        }
        if orders.iter().any(|s| (s.0 & all).count_ones() > 1) {
            return malformed("an atomic has more than one of Acquire, Release and AcquireRelease");
        }
        Ok(orders)
    }
}
