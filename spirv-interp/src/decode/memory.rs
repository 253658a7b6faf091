//! Pointers and the instructions that go through them.

use kiln_abi::spirv::{MemoryOperands, Op, Scope, StorageClass};

use super::{
    error::{DecodeError, Decoded},
    globals::width_mask,
    lower::{Lower, Value},
    reader::Raw,
    types::{Type, add},
};
use crate::{
    number::Number,
    program::{Access, Chain, Dim, Inst, Kind, Len, Slot},
};

/// What a pointer points into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Root {
    /// Index into the program's bindings; offsets are bytes.
    Buffer(u32),
    /// Offsets are bytes.
    Push,
    /// Offsets are scalars of workgroup memory.
    Workgroup,
    /// Offsets are slots: a function or private variable, or an input.
    Local { stored: bool },
    /// Offsets are matrix registers.
    Matrices,
    /// The invocation's own element, by the slot of its index, of a matrix; offsets are matrix registers.
    Element { index: Slot },
}

/// A pointer whose variable is known: a constant offset, and a slot with the per-lane rest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pointer {
    pub(super) root: Root,
    pub(super) ty: u32,
    pub(super) offset: u32,
    pub(super) dynamic: Option<Slot>,
    pub(super) chain: Option<u32>,
}

impl Pointer {
    const fn in_bytes(&self) -> bool {
        matches!(self.root, Root::Buffer(_) | Root::Push)
    }
}

impl Lower<'_> {
    /// A function or private variable of type `ty`.
    pub(super) fn local(&mut self, word: u32, ty: u32) -> Decoded<Pointer> {
        let n = self.g.types.scalars(ty);
        if n == 0 {
            return Err(DecodeError::Malformed { word, what: "a variable's type has no fixed size" });
        }
        let offset = self.alloc(n)?;
        Ok(Pointer { root: Root::Local { stored: true }, ty, offset, dynamic: None, chain: None })
    }

    pub(super) fn variable(&mut self, raw: &Raw) -> Decoded<()> {
        let word = raw.word;
        let Type::Pointer { class: StorageClass::Function, pointee } = *self.g.types.get(word, raw.ty)?
        else {
            return Err(DecodeError::Malformed {
                word,
                what: "a variable in a function is not of class Function",
            });
        };
        if self.g.types.is_matrix(pointee) {
            let p = self.matrix_variable(word, pointee, false)?;
            self.values.insert(raw.id, Value::Pointer(p));
            return Ok(());
        }
        let p = self.local(word, pointee)?;
        let a = self.g.types.scalars(pointee);
        self.emit(Inst { kind: Kind::Undefine, ty: Number::U32, dst: p.offset, a, b: 0, c: 0, word })?;
        self.values.insert(raw.id, Value::Pointer(p));
        Ok(())
    }

    pub(super) fn pointer(&self, word: u32, id: u32) -> Decoded<Pointer> {
        match self.values.get(&id) {
            Some(Value::Pointer(p)) => Ok(*p),
            _ => Err(DecodeError::WrongId { word, id, expected: "a pointer" }),
        }
    }

    pub(super) fn access_chain(&mut self, raw: &Raw) -> Decoded<()> {
        let (word, ops) = (raw.word, self.g.words.operands(raw));
        let mut p = self.pointer(word, ops[0])?;
        let mut dims = Vec::new();
        for &id in &ops[1..] {
            let (index, dtype) = self.scalar(word, id, Number::is_int)?;
            let sign_shift = if dtype.is_signed() { 32 - 8 * dtype.bytes() } else { 0 };
            let constant = self.g.scalar(id).map(|v| (((v << sign_shift) as i32) >> sign_shift) as u32);
            let (elem, stride, len) = match self.g.types.get(word, p.ty)? {
                Type::Struct(members) => {
                    let i = constant.map_or(usize::MAX, |i| i as usize);
                    let missing =
                        DecodeError::WrongId { word, id, expected: "the constant index of a member" };
                    let ty = members.get(i).ok_or(missing)?.ty;
                    let place = self.g.types.member(word, members, i, p.in_bytes())?;
                    (p.offset, p.ty) = (add(word, p.offset, 1, place)?, ty);
                    continue;
                }
                Type::Matrix { elem, .. } if p.root == Root::Matrices && dtype.bytes() == 4 => {
                    (p.root, p.ty) = (Root::Element { index }, *elem);
                    continue;
                }
                Type::Vector { elem, dtype, n } => {
                    (*elem, if p.in_bytes() { dtype.bytes() } else { 1 }, Len::Fixed(*n))
                }
                Type::Array { elem, len, stride } => {
                    (*elem, self.g.types.stride(word, *elem, *stride, p.in_bytes())?, Len::Fixed(*len))
                }
                Type::RuntimeArray { elem, stride } => match p.root {
                    Root::Buffer(binding) if p.dynamic.is_none() && dims.is_empty() => {
                        let stride = self.g.types.stride(word, *elem, *stride, true)?;
                        (*elem, stride, Len::Runtime { binding, offset: p.offset })
                    }
                    _ => {
                        return Err(DecodeError::Malformed {
                            word,
                            what: "a runtime array is no buffer's last member",
                        });
                    }
                },
                _ => {
                    return Err(DecodeError::Malformed {
                        word,
                        what: "an index goes into a type without parts",
                    });
                }
            };
            let fixed = constant.filter(|&i| match len {
                Len::Fixed(n) => i < n,
                Len::Runtime { .. } => i.checked_mul(stride).is_some_and(|o| o < 1 << 30),
            });
            match fixed {
                Some(i) => p.offset = add(word, p.offset, i, stride)?,
                None => dims.push(Dim { index, sign_shift, stride, len }),
            }
            p.ty = elem;
        }
        if !dims.is_empty() {
            let a = self.program.chains.len() as u32;
            self.program.chains.push(Chain { base: p.dynamic, dims });
            let dst = self.alloc(1)?;
            self.emit(Inst { kind: Kind::Chain, ty: Number::U32, dst, a, b: 0, c: 0, word })?;
            (p.dynamic, p.chain) = (Some(dst), Some(a));
        }
        self.values.insert(raw.id, Value::Pointer(p));
        Ok(())
    }

    pub(super) fn load(&mut self, raw: &Raw) -> Decoded<()> {
        let (word, ops) = (raw.word, self.g.words.operands(raw));
        let p = self.pointer(word, ops[0])?;
        if p.ty != raw.ty {
            return Err(DecodeError::Type {
                word,
                op: raw.op.name(),
                what: "loads another type than is there",
            });
        }
        match p.root {
            Root::Matrices => return self.load_matrices(raw, &p),
            Root::Element { index } => return self.load_element(raw, &p, index),
            _ => {}
        }
        let leaves = self.g.types.leaves(word, p.ty, p.in_bytes())?;
        let first = self.alloc(leaves.len() as u32)?;
        for (&(at, ty), dst) in leaves.iter().zip(first..) {
            let inst = Inst { kind: Kind::LoadSlot, ty, dst, a: 0, b: 0, c: 0, word };
            let inst = match (p.root, p.dynamic) {
                (Root::Local { .. }, None) => Inst { a: p.offset + at, ..inst },
                (Root::Local { .. }, Some(b)) => {
                    Inst { kind: Kind::LoadIndexed, a: p.offset + at, b, c: p.chain.unwrap_or(0), ..inst }
                }
                (root, _) => {
                    let kind = match root {
                        Root::Buffer(_) => Kind::LoadBuffer,
                        Root::Push => Kind::LoadPush,
                        _ => Kind::LoadWorkgroup,
                    };
                    Inst { kind, c: self.access(raw, &p, at, ty, &ops[1..])?, ..inst }
                }
            };
            self.emit(inst)?;
        }
        self.define(raw, (first..first + leaves.len() as u32).collect::<Vec<_>>());
        Ok(())
    }

    pub(super) fn store(&mut self, raw: &Raw) -> Decoded<()> {
        let (word, ops) = (raw.word, self.g.words.operands(raw));
        let p = self.pointer(word, ops[0])?;
        match p.root {
            Root::Matrices => return self.store_matrices(raw, &p, ops[1]),
            Root::Element { index } => return self.store_element(raw, &p, index, ops[1]),
            _ => {}
        }
        let value = self.slots(word, ops[1])?;
        let leaves = self.g.types.leaves(word, p.ty, p.in_bytes())?;
        if self.g.type_of(word, ops[1])? != p.ty || leaves.len() != value.len() {
            return Err(DecodeError::Type {
                word,
                op: raw.op.name(),
                what: "stores another type than is there",
            });
        }
        for (&(at, ty), &a) in leaves.iter().zip(value.iter()) {
            let inst = Inst { kind: Kind::StoreSlot, ty, dst: 0, a, b: 0, c: 0, word };
            let inst = match (p.root, p.dynamic) {
                (Root::Local { stored: true }, None) => Inst { dst: p.offset + at, ..inst },
                (Root::Local { stored: true }, Some(b)) => {
                    Inst { kind: Kind::StoreIndexed, dst: p.offset + at, b, c: p.chain.unwrap_or(0), ..inst }
                }
                (Root::Buffer(binding), _) => {
                    self.program.bindings[binding as usize].stored = true;
                    Inst { kind: Kind::StoreBuffer, c: self.access(raw, &p, at, ty, &ops[2..])?, ..inst }
                }
                (Root::Workgroup, _) => {
                    Inst { kind: Kind::StoreWorkgroup, c: self.access(raw, &p, at, ty, &ops[2..])?, ..inst }
                }
                _ => {
                    return Err(DecodeError::Malformed {
                        word,
                        what: "a store goes to memory that cannot be written",
                    });
                }
            };
            self.emit(inst)?;
        }
        Ok(())
    }

    pub(super) fn access(
        &mut self,
        raw: &Raw,
        p: &Pointer,
        at: u32,
        ty: Number,
        memory: &[u32],
    ) -> Decoded<u32> {
        let word = raw.word;
        let mask = memory.first().copied().unwrap_or(0);
        let mut next = 1 + usize::from(mask & MemoryOperands::ALIGNED != 0);
        let mut shared = |flag: u32| {
            if mask & flag == 0 {
                return Ok(false);
            }
            let id = memory.get(next).copied().unwrap_or(0);
            next += 1;
            match self.g.scalar(id).and_then(Scope::from_number) {
                Some(scope) => Ok(matches!(scope, Scope::Workgroup | Scope::QueueFamily | Scope::Device)),
                None => Err(DecodeError::WrongId { word, id, expected: "a constant scope" }),
            }
        };
        let available = shared(MemoryOperands::MAKE_AVAILABLE)?;
        let visible = shared(MemoryOperands::MAKE_VISIBLE)?;
        let relaxed = !self.g.vulkan_model;
        let binding = match p.root {
            Root::Buffer(b) => {
                let known = &mut self.program.bindings[b as usize];
                known.smallest = known.smallest.min(ty.bytes());
                b
            }
            _ => 0,
        };
        self.program.accesses.push(Access {
            binding,
            pointer: p.dynamic,
            chain: p.chain,
            offset: add(word, p.offset, 1, at)?,
            bytes: ty.bytes().max(1),
            private: mask & MemoryOperands::NON_PRIVATE == 0 && !relaxed,
            available: available || relaxed,
            visible: visible || relaxed,
            orders: Default::default(),
        });
        Ok(self.program.accesses.len() as u32 - 1)
    }

    pub(super) fn array_length(&mut self, raw: &Raw) -> Decoded<()> {
        let (word, ops) = (raw.word, self.g.words.operands(raw));
        let p = self.pointer(word, ops[0])?;
        let wrong = DecodeError::Malformed {
            word,
            what: "ArrayLength of something other than a buffer's runtime array",
        };
        let (Root::Buffer(c), None, Type::Struct(members)) =
            (p.root, p.dynamic, self.g.types.get(word, p.ty)?)
        else {
            return Err(wrong);
        };
        let i = ops[1] as usize;
        let Some(Type::RuntimeArray { elem, stride }) =
            members.get(i).map(|m| self.g.types.get(word, m.ty)).transpose()?
        else {
            return Err(wrong);
        };
        let a = self.g.types.stride(word, *elem, *stride, true)?;
        let b = add(word, p.offset, 1, self.g.types.member(word, members, i, true)?)?;
        let dst = self.alloc(1)?;
        self.emit(Inst { kind: Kind::ArrayLength, ty: Number::U32, dst, a, b, c, word })?;
        self.define(raw, vec![dst]);
        Ok(())
    }

    /// A cast between types of the same total size: the same slots, or bits taken apart or put together.
    pub(super) fn bitcast(&mut self, raw: &Raw) -> Decoded<()> {
        if self.g.types.is_matrix(raw.ty) {
            return self.cast_matrix(raw);
        }
        let (word, id) = (raw.word, self.g.words.operand(raw, 0)?);
        let wrong = DecodeError::Type { word, op: Op::Bitcast.name(), what: "needs numbers of equal size" };
        let source = self.slots(word, id)?;
        let types = &self.g.types;
        let pair = (types.element(self.g.type_of(word, id)?), types.element(raw.ty));
        let (Some(from), Some(to)) = pair else { return Err(wrong) };
        let (s, t, n) = (from.bytes(), to.bytes(), types.scalars(raw.ty));
        if s == 0 || t == 0 || source.len() as u32 * s != n * t {
            return Err(wrong);
        }
        let mut slots = source.to_vec();
        if s > t {
            slots.clear();
            for at in (0..n).map(|j| j * t) {
                let (dst, a, b) = (self.alloc(1)?, source[(at / s) as usize], at % s * 8);
                self.emit(Inst { kind: Kind::Field, ty: to, dst, a, b, c: width_mask(to), word })?;
                slots.push(dst);
            }
        } else if s < t {
            slots.clear();
            for group in source.chunks((t / s) as usize) {
                let mut whole = group[0];
                for (&b, i) in group[1..].iter().zip(1..) {
                    let dst = self.alloc(1)?;
                    self.emit(Inst { kind: Kind::Join, ty: to, dst, a: whole, b, c: i * s * 8, word })?;
                    whole = dst;
                }
                slots.push(whole);
            }
        }
        self.define(raw, slots);
        Ok(())
    }
}
