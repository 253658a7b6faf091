//! Functions → one line of scalar code: slots, calls inlined, jumps resolved.

use std::{collections::HashMap, rc::Rc};

use kiln_abi::spirv::{Decoration, MemorySemantics, Op, Scope, StorageClass};

use super::{
    error::{DecodeError, Decoded},
    flow::{self, Block, Function},
    globals::Globals,
    memory::{Pointer, Root},
    phi::Phis,
    reader::Raw,
    types::Type,
};
use crate::{
    matrix::Reg,
    number::Number,
    program::{Barrier, Binding, Inst, Kind, Program, Slot},
};

const MAX_CODE: usize = 1 << 20;
const MAX_CALLS: usize = 64;
const MAX_SLOTS: u32 = 1 << 20;
const MAX_WORKGROUP_BYTES: u64 = 48 << 10;

/// What an id stands for.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// A value, one slot per scalar.
    Slots(Rc<[Slot]>),
    /// A value of matrices, one register each.
    Matrices(Rc<[Reg]>),
    Pointer(Pointer),
}

/// The code being laid out.
pub(super) struct Lower<'a> {
    pub(super) g: &'a Globals<'a>,
    pub(super) program: Program,
    pub(super) values: HashMap<u32, Value>,
    next: Slot,
    /// Slots of constant scalars by their bits; `None` is the undefined one.
    pub(super) known: HashMap<Option<u32>, Slot>,
    pub(super) phis: Phis,
    /// The scalars of each variable in workgroup memory.
    pub(super) workgroup_extents: Vec<std::ops::Range<u32>>,
    /// The function being laid out is one that a matrix instruction calls.
    pub(super) in_callback: bool,
    /// Functions being inlined, outermost first.
    calls: Vec<u32>,
}

/// Lays out the entry point.
pub(super) fn lower(g: &Globals<'_>) -> Decoded<Program> {
    let program = Program { local_size: g.local_size, vulkan_model: g.vulkan_model, ..Program::default() };
    let mut l = Lower {
        g,
        program,
        values: HashMap::new(),
        next: 0,
        known: HashMap::new(),
        phis: Phis::collect(g.words)?,
        workgroup_extents: Vec::new(),
        in_callback: false,
        calls: Vec::new(),
    };
    l.constants()?;
    l.variables()?;
    l.function(0, g.entry, &[], None)?;
    Ok(l.program)
}

impl<'a> Lower<'a> {
    /// `n` slots one after another.
    pub(super) fn alloc(&mut self, n: u32) -> Decoded<Slot> {
        let first = self.next;
        self.next = first.saturating_add(n);
        if self.next > MAX_SLOTS {
            let (found, allowed) = (self.next.into(), MAX_SLOTS.into());
            return Err(DecodeError::TooLarge { what: "scalar values live at once", found, allowed });
        }
        self.program.slots = self.program.slots.max(self.next);
        Ok(first)
    }

    /// The slots in use, for [`Self::release`].
    pub(super) const fn mark(&self) -> Slot {
        self.next
    }

    /// Gives back the slots taken since `mark`: nothing that follows reads them.
    pub(super) const fn release(&mut self, mark: Slot) {
        self.next = mark;
    }

    pub(super) fn emit(&mut self, inst: Inst) -> Decoded<()> {
        if self.program.code.len() >= MAX_CODE {
            let (found, allowed) = (MAX_CODE as u64 + 1, MAX_CODE as u64);
            return Err(DecodeError::TooLarge { what: "scalar instructions", found, allowed });
        }
        self.program.code.push(inst);
        Ok(())
    }

    /// Defines the result of `raw`.
    pub(super) fn define(&mut self, raw: &Raw, slots: impl Into<Rc<[Slot]>>) {
        self.values.insert(raw.id, Value::Slots(slots.into()));
    }

    /// The slots of value `id`.
    pub(super) fn slots(&self, word: u32, id: u32) -> Decoded<Rc<[Slot]>> {
        match self.values.get(&id) {
            Some(Value::Slots(s)) => Ok(Rc::clone(s)),
            _ => Err(DecodeError::WrongId { word, id, expected: "a value" }),
        }
    }

    /// The slot of scalar `id` of a type that `fits`.
    pub(super) fn scalar(&self, word: u32, id: u32, fits: fn(Number) -> bool) -> Decoded<(Slot, Number)> {
        let dtype = match self.g.types.get(word, self.g.type_of(word, id)?)? {
            Type::Scalar(d) if fits(*d) => *d,
            _ => return Err(DecodeError::WrongId { word, id, expected: "a scalar of the right type" }),
        };
        Ok((self.slots(word, id)?[0], dtype))
    }

    fn constants(&mut self) -> Decoded<()> {
        if self.g.words.list.iter().any(|r| matches!(r.op, Op::CreateTensorLayoutNV | Op::CreateTensorViewNV))
        {
            for bits in [0, 1, u32::MAX] {
                self.constant(Some(bits))?;
            }
        }
        // In module order, so that equal words give equal slots.
        for raw in &self.g.words.list {
            let Some(scalars) = self.g.constants.get(&raw.id).filter(|_| raw.id != 0) else { continue };
            if self.g.types.is_matrix(raw.ty) {
                self.matrix_constant(raw, scalars)?;
                continue;
            }
            let slots = scalars.iter().map(|&bits| self.constant(bits)).collect::<Decoded<Vec<_>>>()?;
            self.define(raw, slots);
        }
        Ok(())
    }

    /// The slot that holds `bits` in every lane, always.
    fn constant(&mut self, bits: Option<u32>) -> Decoded<Slot> {
        if let Some(&slot) = self.known.get(&bits) {
            return Ok(slot);
        }
        let slot = self.alloc(1)?;
        self.known.insert(bits, slot);
        // An undefined scalar's slot is never written, so every lane of it stays undefined.
        self.program.constants.extend(bits.map(|b| (slot, b)));
        Ok(slot)
    }

    fn variables(&mut self) -> Decoded<()> {
        let mut workgroup_bytes = 0u64;
        for v in self.g.variables.iter().filter(|v| v.class != StorageClass::Private) {
            let (root, offset) = match v.class {
                StorageClass::StorageBuffer => (Root::Buffer(self.binding(v.id, v.word)?), 0),
                StorageClass::PushConstant => (Root::Push, 0),
                StorageClass::Input => {
                    (Root::Local { stored: false }, self.builtin(v.id, v.word, v.pointee)?)
                }
                _ if self.g.types.is_matrix(v.pointee) => {
                    let what = "a matrix stands in memory that is neither Function nor Private";
                    return Err(DecodeError::Malformed { word: v.word, what });
                }
                _ => {
                    workgroup_bytes += self.g.types.packed_bytes(v.pointee);
                    let at = self.program.workgroup_scalars;
                    self.program.workgroup_scalars += self.g.types.scalars(v.pointee);
                    self.workgroup_extents.push(at..self.program.workgroup_scalars);
                    (Root::Workgroup, at)
                }
            };
            let p = Pointer { root, ty: v.pointee, offset, dynamic: None, chain: None };
            self.values.insert(v.id, Value::Pointer(p));
        }
        if workgroup_bytes > MAX_WORKGROUP_BYTES {
            let (found, allowed) = (workgroup_bytes, MAX_WORKGROUP_BYTES);
            return Err(DecodeError::TooLarge { what: "bytes of workgroup memory", found, allowed });
        }
        let first = self.next;
        for v in self.g.variables.iter().filter(|v| v.class == StorageClass::Private) {
            let p = if self.g.types.is_matrix(v.pointee) {
                self.matrix_variable(v.word, v.pointee, true)?
            } else {
                self.local(v.word, v.pointee)?
            };
            self.values.insert(v.id, Value::Pointer(p));
        }
        self.program.private = (first, self.next - first);
        Ok(())
    }

    fn binding(&mut self, id: u32, word: u32) -> Decoded<u32> {
        let missing = DecodeError::Malformed { word, what: "a storage buffer has no Binding in set 0" };
        let number = match self.g.decoration(id, None, Decoration::DescriptorSet) {
            Some(0) => self.g.decoration(id, None, Decoration::Binding).ok_or(missing)?,
            _ => return Err(missing),
        };
        let known = self.program.bindings.iter().position(|b| b.number == number);
        let at = known.unwrap_or_else(|| {
            self.program.bindings.push(Binding { number, stored: false, smallest: 4 });
            self.program.bindings.len() - 1
        });
        Ok(at as u32)
    }

    fn builtin(&mut self, id: u32, word: u32, pointee: u32) -> Decoded<Slot> {
        let missing =
            DecodeError::Malformed { word, what: "an input is no known BuiltIn of 32-bit integers" };
        let builtin = match (self.g.builtin(id), self.g.types.element(pointee)) {
            (Some(b), Some(Number::U32 | Number::I32)) => b,
            _ => return Err(missing),
        };
        let slot = self.alloc(self.g.types.scalars(pointee).max(3))?;
        self.program.builtins.push((builtin, slot));
        Ok(slot)
    }

    /// Inlines function `id`; its result goes to `result`.
    pub(super) fn function(
        &mut self,
        word: u32,
        id: u32,
        args: &[Value],
        result: Option<&[Slot]>,
    ) -> Decoded<()> {
        let missing = DecodeError::WrongId { word, id, expected: "a function" };
        let f: &'a Function = self.g.functions.get(&id).ok_or(missing)?;
        if self.calls.contains(&id) {
            return Err(DecodeError::Malformed { word, what: "a function calls itself" });
        }
        match self.g.types.get(word, f.ty)? {
            Type::Function { result, params }
                if *result == f.result && f.params.iter().map(|p| p.1).eq(params.iter().copied()) => {}
            _ => return Err(DecodeError::Malformed { word, what: "a function differs from its type" }),
        }
        if args.len() != f.params.len() {
            return Err(DecodeError::Malformed { word, what: "a call has another number of arguments" });
        }
        for (&(param, _), arg) in f.params.iter().zip(args) {
            self.values.insert(param, arg.clone());
        }
        if self.calls.len() == MAX_CALLS {
            let (found, allowed) = (MAX_CALLS as u64 + 1, MAX_CALLS as u64);
            return Err(DecodeError::TooLarge { what: "calls inside one another", found, allowed });
        }
        self.calls.push(id);
        let order = flow::order(f, word)?;
        for raw in f.blocks.iter().flat_map(|b| &self.g.words.list[b.first..b.last]) {
            if raw.op == Op::Phi {
                self.reserve_phi(raw)?;
            }
        }
        let (mut start, mut jumps) = (HashMap::new(), Vec::new());
        for b in order {
            let (block, at) = (&f.blocks[b], self.program.code.len() as u32);
            start.insert(block.label, at);
            if let Some(word) = block.loop_word {
                self.program.loops.insert(at, word);
            }
            self.block(block, result, &mut jumps)?;
        }
        self.calls.pop();
        let end = self.program.code.len() as u32;
        for (at, labels) in jumps {
            let target = |l: Option<u32>| l.map_or(end, |l| start.get(&l).copied().unwrap_or(end));
            let inst = &mut self.program.code[at];
            match (inst.kind, labels) {
                (Kind::Branch, [t, f]) => (inst.b, inst.c) = (target(t), target(f)),
                (_, [t, _]) => inst.a = target(t),
            }
        }
        Ok(())
    }

    /// Lowers a block; a jump is noted with its labels, `None` being the function's end.
    fn block(
        &mut self,
        block: &Block,
        result: Option<&[Slot]>,
        jumps: &mut Vec<(usize, [Option<u32>; 2])>,
    ) -> Decoded<()> {
        for raw in &self.g.words.list[block.first..block.last] {
            let (word, ops) = (raw.word, self.g.words.operands(raw));
            let jump = Inst { kind: Kind::Jump, ty: Number::U32, dst: 0, a: 0, b: 0, c: 0, word };
            if matches!(raw.op, Op::Branch | Op::BranchConditional) {
                self.leave(block.label, word)?;
            }
            let inst = match raw.op {
                Op::Branch => {
                    jumps.push((self.program.code.len(), [Some(ops[0]), None]));
                    jump
                }
                Op::BranchConditional => {
                    let a = self.scalar(word, ops[0], |d| d == Number::Bool)?.0;
                    jumps.push((self.program.code.len(), [Some(ops[1]), Some(ops[2])]));
                    Inst { kind: Kind::Branch, ty: Number::Bool, a, ..jump }
                }
                Op::Return | Op::ReturnValue if self.calls.len() == 1 => Inst { kind: Kind::Return, ..jump },
                Op::Return | Op::ReturnValue => {
                    if raw.op == Op::ReturnValue {
                        self.return_value(raw, ops[0], result)?;
                    }
                    jumps.push((self.program.code.len(), [None, None]));
                    jump
                }
                Op::Unreachable => Inst { kind: Kind::Unreachable, ..jump },
                _ => {
                    self.instruction(raw)?;
                    continue;
                }
            };
            self.emit(inst)?;
        }
        Ok(())
    }

    fn return_value(&mut self, raw: &Raw, id: u32, result: Option<&[Slot]>) -> Decoded<()> {
        let ty = self.g.type_of(raw.word, id)?;
        if let (Some(regs), true) = (result, self.g.types.is_matrix(ty)) {
            return self.copy_matrices(raw.word, ty, regs, id);
        }
        let (word, value) = (raw.word, self.slots(raw.word, id)?);
        match result {
            Some(slots) if slots.len() == value.len() => {
                for (&dst, &a) in slots.iter().zip(value.iter()) {
                    self.emit(Inst { kind: Kind::Mov, ty: Number::U32, dst, a, b: 0, c: 0, word })?;
                }
                Ok(())
            }
            _ => {
                Err(DecodeError::Malformed { word, what: "a function returns another type than it declares" })
            }
        }
    }

    pub(super) fn call(&mut self, raw: &Raw) -> Decoded<()> {
        let (word, ops) = (raw.word, self.g.words.operands(raw));
        let missing = |id| DecodeError::WrongId { word, id, expected: "an argument" };
        let mut args = Vec::new();
        let f = self.g.functions.get(&ops[0]).ok_or(missing(ops[0]))?;
        if f.result != raw.ty || f.params.len() != ops.len() - 1 {
            return Err(DecodeError::Malformed { word, what: "a call differs from its function" });
        }
        for (&id, &(_, ty)) in ops[1..].iter().zip(&f.params) {
            if self.g.type_of(word, id)? != ty {
                return Err(DecodeError::WrongId {
                    word,
                    id,
                    expected: "an argument of the parameter's type",
                });
            }
            args.push(self.values.get(&id).cloned().ok_or(missing(id))?);
        }
        let n = self.g.types.scalars(raw.ty);
        if self.g.types.is_matrix(raw.ty) {
            let result = self.undefined_matrices(word, raw.ty)?;
            let kept = self.next;
            self.function(word, ops[0], &args, Some(&result))?;
            self.next = kept;
            self.values.insert(raw.id, Value::Matrices(result));
            return Ok(());
        }
        let first = self.alloc(n)?;
        let result: Rc<[Slot]> = (first..first + n).collect();
        let kept = self.next;
        self.function(word, ops[0], &args, Some(&result))?;
        // The callee's slots are dead from here on: what it left is reachable through `result` only.
        self.next = kept;
        if n > 0 {
            self.define(raw, result);
        }
        Ok(())
    }

    pub(super) fn barrier(&mut self, raw: &Raw) -> Decoded<()> {
        let (word, ops) = (raw.word, self.g.words.operands(raw));
        self.outside_callbacks(word)?;
        let scope = |id| {
            let found = self.g.scalar(id).and_then(Scope::from_number);
            found.ok_or(DecodeError::WrongId { word, id, expected: "a constant scope" })
        };
        let mask = |id| {
            let missing = DecodeError::WrongId { word, id, expected: "constant semantics" };
            self.g.scalar(id).map(MemorySemantics).ok_or(missing)
        };
        let (kind, execution, memory, semantics) = match *ops {
            [e, m, s] => (Kind::ControlBarrier, scope(e)?, scope(m)?, mask(s)?),
            [m, s] => (Kind::MemoryBarrier, Scope::Invocation, scope(m)?, mask(s)?),
            _ => return Err(DecodeError::Malformed { word, what: "a barrier without operands" }),
        };
        if kind == Kind::ControlBarrier && !matches!(execution, Scope::Workgroup | Scope::Subgroup) {
            let what = "a control barrier's execution scope is neither Workgroup nor Subgroup";
            return Err(DecodeError::Malformed { word, what });
        }
        let a = self.program.barriers.len() as u32;
        self.program.barriers.push(Barrier { execution, memory, semantics });
        self.emit(Inst { kind, ty: Number::U32, dst: 0, a, b: 0, c: 0, word })
    }
}
