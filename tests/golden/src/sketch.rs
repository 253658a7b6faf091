//! Kernels written straight on the builder, in as few words as it allows.

use kiln_abi::{
    DType, Location, StageErrors, StagedKernel,
    spirv::{BuiltIn, GlslOp, GroupOperation, MemorySemantics, Op, Scope},
};
use kiln_spirv_emit::{
    Builder, compile,
    ir::{Const, GlobalKind, LoopControl, Member, Module, Operand, Type, TypeId, ValueId},
};

/// A kernel under construction.
pub struct Sketch {
    /// The builder, for what has no shorthand here.
    pub b: Builder,
    next_binding: u32,
}

impl Sketch {
    /// A kernel of 64 invocations.
    pub fn new(name: &str) -> Self {
        Sketch { b: Builder::new(name, [64, 1, 1], None), next_binding: 0 }
    }

    /// A buffer of scalars; returns the pointer to its block.
    #[track_caller]
    pub fn buf(&mut self, name: &str, elem: DType, writable: bool) -> ValueId {
        let ty = self.b.scalar(elem);
        self.buf_of(name, ty, elem.bytes(), elem.name(), writable)
    }

    /// A buffer of any element type.
    #[track_caller]
    pub fn buf_of(
        &mut self,
        name: &str,
        elem: TypeId,
        stride: u32,
        elem_name: &str,
        writable: bool,
    ) -> ValueId {
        let binding = self.next_binding;
        self.next_binding += 1;
        let kind =
            GlobalKind::Buffer { binding, elem, elem_name: elem_name.to_owned(), writable, view: false };
        self.b.buffer(name, elem, stride, kind, Location::caller())
    }

    /// A `u32` constant.
    pub fn u(&mut self, value: u32) -> ValueId {
        self.b.scalar_const(DType::U32, value)
    }

    /// An `f32` constant.
    pub fn f(&mut self, value: f32) -> ValueId {
        self.b.scalar_const(DType::F32, value.to_bits())
    }

    /// A truth value.
    pub fn bool(&mut self, value: bool) -> ValueId {
        self.b.constant(Const::Bool(value))
    }

    /// The invocation's index along x.
    #[track_caller]
    pub fn gid(&mut self) -> ValueId {
        let at = Location::caller();
        let id = self.b.builtin(BuiltIn::GlobalInvocationId, at);
        let ty = self.b.scalar(DType::U32);
        self.b.inst(Op::CompositeExtract, ty, vec![Operand::Value(id), Operand::Lit(0)], at)
    }

    /// A scalar builtin.
    #[track_caller]
    pub fn builtin(&mut self, builtin: BuiltIn) -> ValueId {
        self.b.builtin(builtin, Location::caller())
    }

    /// Pointer to a buffer's element.
    #[track_caller]
    pub fn elem(&mut self, buf: ValueId, index: ValueId) -> ValueId {
        let zero = self.u(0);
        self.b.access_chain(buf, &[zero, index], Location::caller())
    }

    /// Loads a buffer's element.
    #[track_caller]
    pub fn get(&mut self, buf: ValueId, index: ValueId) -> ValueId {
        let pointer = self.elem(buf, index);
        self.b.load(pointer, Location::caller())
    }

    /// Stores to a buffer's element.
    #[track_caller]
    pub fn set(&mut self, buf: ValueId, index: ValueId, value: ValueId) {
        let pointer = self.elem(buf, index);
        self.b.store(pointer, value, Location::caller());
    }

    /// An instruction over values with a scalar result.
    #[track_caller]
    pub fn op(&mut self, op: Op, result: DType, values: &[ValueId]) -> ValueId {
        let ty = self.b.scalar(result);
        self.op_ty(op, ty, values)
    }

    /// An instruction over values.
    #[track_caller]
    pub fn op_ty(&mut self, op: Op, ty: TypeId, values: &[ValueId]) -> ValueId {
        let operands = values.iter().copied().map(Operand::Value).collect();
        self.b.inst(op, ty, operands, Location::caller())
    }

    /// An extended instruction.
    #[track_caller]
    pub fn glsl(&mut self, op: GlslOp, ty: TypeId, values: &[ValueId]) -> ValueId {
        let values = values.iter().copied().map(Operand::Value);
        let operands = std::iter::once(Operand::Glsl(op)).chain(values).collect();
        self.b.inst(Op::ExtInst, ty, operands, Location::caller())
    }

    /// A vector type.
    pub fn vec(&mut self, elem: DType, n: u8) -> TypeId {
        self.b.ty(Type::Vector { elem, n })
    }

    /// A fixed array type outside buffers.
    pub fn array(&mut self, elem: DType, len: u32) -> TypeId {
        let elem = self.b.scalar(elem);
        self.b.ty(Type::Array { elem, len, stride: None })
    }

    /// A struct of two words.
    pub fn pair(&mut self) -> TypeId {
        let ty = self.b.scalar(DType::U32);
        let member = |name: &str| Member { name: name.to_owned(), ty, offset: None };
        self.b.ty(Type::Struct {
            name: "pair".to_owned(),
            members: vec![member("low"), member("high")],
            block: false,
        })
    }

    /// The push-constant block; returns its pointer.
    #[track_caller]
    pub fn push(&mut self, fields: &[(&str, DType)]) -> ValueId {
        let at = Location::caller();
        let fields: Vec<_> = fields.iter().map(|&(name, dtype)| (name, self.b.scalar(dtype))).collect();
        let block = self.b.push_struct("args", &fields, at);
        self.b.push_block("args", block, at)
    }

    /// Loads a field of the push-constant block.
    #[track_caller]
    pub fn field(&mut self, block: ValueId, field: u32) -> ValueId {
        let at = Location::caller();
        let field = self.u(field);
        let pointer = self.b.access_chain(block, &[field], at);
        self.b.load(pointer, at)
    }

    /// A local variable.
    #[track_caller]
    pub fn var(&mut self, dtype: DType) -> ValueId {
        let ty = self.b.scalar(dtype);
        self.b.local(ty, Location::caller())
    }

    /// A scalar part of a composite.
    #[track_caller]
    pub fn extract(&mut self, from: ValueId, dtype: DType, index: u32) -> ValueId {
        let ty = self.b.scalar(dtype);
        let operands = vec![Operand::Value(from), Operand::Lit(index)];
        self.b.inst(Op::CompositeExtract, ty, operands, Location::caller())
    }

    /// A composite with one part replaced.
    #[track_caller]
    pub fn insert(&mut self, ty: TypeId, part: ValueId, whole: ValueId, index: u32) -> ValueId {
        let operands = vec![Operand::Value(part), Operand::Value(whole), Operand::Lit(index)];
        self.b.inst(Op::CompositeInsert, ty, operands, Location::caller())
    }

    /// Components of two vectors.
    #[track_caller]
    pub fn shuffle(&mut self, ty: TypeId, a: ValueId, b: ValueId, picks: &[u32]) -> ValueId {
        let mut operands = vec![Operand::Value(a), Operand::Value(b)];
        operands.extend(picks.iter().copied().map(Operand::Lit));
        self.b.inst(Op::VectorShuffle, ty, operands, Location::caller())
    }

    /// A subgroup operation with a scalar result.
    #[track_caller]
    pub fn subgroup(
        &mut self,
        op: Op,
        result: DType,
        group: Option<GroupOperation>,
        values: &[ValueId],
    ) -> ValueId {
        let ty = self.b.scalar(result);
        self.subgroup_ty(op, ty, group, values)
    }

    /// A subgroup operation.
    #[track_caller]
    pub fn subgroup_ty(
        &mut self,
        op: Op,
        ty: TypeId,
        group: Option<GroupOperation>,
        values: &[ValueId],
    ) -> ValueId {
        let mut operands = vec![Operand::Scope(Scope::Subgroup)];
        operands.extend(group.map(Operand::Group));
        operands.extend(values.iter().copied().map(Operand::Value));
        self.b.inst(op, ty, operands, Location::caller())
    }

    /// A workgroup barrier that orders workgroup memory and, if asked, storage buffers.
    #[track_caller]
    pub fn barrier(&mut self, buffers: bool) {
        let mut mask = MemorySemantics::ACQUIRE_RELEASE
            | MemorySemantics::MAKE_AVAILABLE
            | MemorySemantics::MAKE_VISIBLE
            | MemorySemantics::WORKGROUP_MEMORY;
        if buffers {
            mask |= MemorySemantics::UNIFORM_MEMORY;
        }
        let operands = vec![
            Operand::Scope(Scope::Workgroup),
            Operand::Scope(Scope::Workgroup),
            Operand::Semantics(MemorySemantics(mask)),
        ];
        self.b.effect(Op::ControlBarrier, operands, Location::caller());
    }

    /// A branch whose arms are staged by closures.
    #[track_caller]
    pub fn if_else(
        &mut self,
        cond: ValueId,
        then: impl FnOnce(&mut Self),
        otherwise: impl FnOnce(&mut Self),
    ) {
        let at = Location::caller();
        self.b.open_region();
        then(self);
        let then = self.b.close_region();
        self.b.open_region();
        otherwise(self);
        let otherwise = self.b.close_region();
        self.b.branch(cond, then, otherwise, at);
    }

    /// A loop: `header` gives the condition, if there is one.
    #[track_caller]
    pub fn repeat(
        &mut self,
        control: LoopControl,
        header: impl FnOnce(&mut Self) -> Option<ValueId>,
        body: impl FnOnce(&mut Self),
        step: impl FnOnce(&mut Self),
    ) {
        let at = Location::caller();
        self.b.open_region();
        let cond = header(self);
        let header = self.b.close_region();
        self.b.enter_loop(&header);
        self.b.open_region();
        body(self);
        let body = self.b.close_region();
        self.b.open_region();
        step(self);
        let step = self.b.close_region();
        self.b.leave_loop();
        self.b.repeat(header, cond, (body, step), control, at);
    }

    /// The module.
    ///
    /// # Errors
    /// What the builder noted.
    pub fn finish(self) -> Result<Module, StageErrors> {
        self.b.finish()
    }

    /// The compiled kernel.
    ///
    /// # Errors
    /// What the builder or the validator found.
    pub fn compile(self) -> Result<StagedKernel, StageErrors> {
        compile(self.b.finish()?)
    }
}
