//! Buffers, push constants, workgroup memory, builtins, locals.

use kiln_abi::{
    DType, Location,
    spirv::{BuiltIn, Op, StorageClass},
};

use super::{Builder, index};
use crate::ir::{
    Global, GlobalKind, Inst, Member, Operand, RegionId, Type, TypeId, Value, ValueId, ValueKind,
};

impl Builder {
    /// Declares a storage buffer of `elem`s; returns the pointer to its block, whose member 0 is the array.
    pub fn buffer(
        &mut self,
        name: &str,
        elem: TypeId,
        stride: u32,
        kind: GlobalKind,
        at: Location,
    ) -> ValueId {
        let array = self.ty(Type::RuntimeArray { elem, stride });
        let member = Member { name: "elems".to_owned(), ty: array, offset: Some(0) };
        let block = self.ty(Type::Struct { name: name.to_owned(), members: vec![member], block: true });
        self.global(name, StorageClass::StorageBuffer, block, kind, at)
    }

    /// Binding and name of the buffer behind a pointer that [`Builder::buffer`] gave.
    pub fn buffer_of(&self, pointer: ValueId) -> Option<(u32, String)> {
        let global = self.module.globals.iter().find(|g| g.value == pointer)?;
        match global.kind {
            GlobalKind::Buffer { binding, .. } => Some((binding, global.name.clone())),
            GlobalKind::Push { .. } | GlobalKind::Workgroup | GlobalKind::BuiltIn(_) => None,
        }
    }

    /// The pointer of a binding with that element type, if it is declared.
    pub fn view_of(&self, binding: u32, elem: TypeId) -> Option<ValueId> {
        let is = |g: &&Global| matches!(g.kind, GlobalKind::Buffer { binding: b, elem: e, .. } if b == binding && e == elem);
        self.module.globals.iter().find(is).map(|g| g.value)
    }

    /// Declares the push-constant block; returns the pointer to its struct.
    pub fn push_block(&mut self, name: &str, block: TypeId, at: Location) -> ValueId {
        self.global(name, StorageClass::PushConstant, block, GlobalKind::Push { block }, at)
    }

    /// Declares workgroup memory of type `ty`; returns its pointer.
    pub fn workgroup(&mut self, name: &str, ty: TypeId, at: Location) -> ValueId {
        self.global(name, StorageClass::Workgroup, ty, GlobalKind::Workgroup, at)
    }

    /// The value of a builtin, loaded once at the top of the kernel.
    pub fn builtin(&mut self, builtin: BuiltIn, at: Location) -> ValueId {
        if self.callee.is_some() {
            return self.builtin_in_callee(builtin, at);
        }
        if let Some(&value) = self.builtins.get(&builtin) {
            return value;
        }
        let (pointer, ty) = self.builtin_variable(builtin, at);
        let value = self.value(ty, ValueKind::Inst, Some(RegionId(0)), at);
        let operands = vec![Operand::Value(pointer)];
        let load = Inst { op: Op::Load, result: Some(value), operands, no_contraction: false, at };
        self.module.entry.prologue.push(load);
        self.builtins.insert(builtin, value);
        value
    }

    /// A callee sees nothing of the kernel's loads, so it has its own, once.
    fn builtin_in_callee(&mut self, builtin: BuiltIn, at: Location) -> ValueId {
        let known = self.callee.as_ref().and_then(|c| c.builtins.get(&builtin).copied());
        if let Some(value) = known.filter(|&v| self.module.value(v).region.is_some_and(|r| self.visible(r))) {
            return value;
        }
        let (pointer, _) = self.builtin_variable(builtin, at);
        let value = self.load(pointer, at);
        if let Some(callee) = &mut self.callee {
            callee.builtins.insert(builtin, value);
        }
        value
    }

    /// The builtin's input variable, declared once, and its type.
    fn builtin_variable(&mut self, builtin: BuiltIn, at: Location) -> (ValueId, TypeId) {
        let ty = match builtin {
            BuiltIn::NumWorkgroups
            | BuiltIn::WorkgroupId
            | BuiltIn::LocalInvocationId
            | BuiltIn::GlobalInvocationId => Type::Vector { elem: DType::U32, n: 3 },
            BuiltIn::LocalInvocationIndex
            | BuiltIn::SubgroupSize
            | BuiltIn::NumSubgroups
            | BuiltIn::SubgroupId
            | BuiltIn::SubgroupLocalInvocationId => Type::Scalar(DType::U32),
        };
        let ty = self.ty(ty);
        let kind = GlobalKind::BuiltIn(builtin);
        let known = self.module.globals.iter().find(|g| g.kind == kind).map(|g| g.value);
        let pointer = known.unwrap_or_else(|| self.global(builtin.name(), StorageClass::Input, ty, kind, at));
        (pointer, ty)
    }

    /// Declares a local variable of type `ty`; returns its pointer.
    pub fn local(&mut self, ty: TypeId, at: Location) -> ValueId {
        let pointer = self.ty(Type::Pointer { class: StorageClass::Function, pointee: ty });
        let locals = match &self.callee {
            Some(callee) => callee.locals.len(),
            None => self.module.entry.locals.len(),
        };
        let value = self.value(pointer, ValueKind::Local(locals), None, at);
        match &mut self.callee {
            Some(callee) => callee.locals.push(value),
            None => self.module.entry.locals.push(value),
        }
        value
    }

    fn global(
        &mut self,
        name: &str,
        class: StorageClass,
        ty: TypeId,
        kind: GlobalKind,
        at: Location,
    ) -> ValueId {
        let pointer = self.ty(Type::Pointer { class, pointee: ty });
        let value = self.value(pointer, ValueKind::Global(self.module.globals.len()), None, at);
        self.module.globals.push(Global { name: name.to_owned(), kind, value, class, at });
        value
    }

    pub(super) fn value(
        &mut self,
        ty: TypeId,
        kind: ValueKind,
        region: Option<RegionId>,
        at: Location,
    ) -> ValueId {
        let id = ValueId(index(self.module.values.len()));
        self.module.values.push(Value { ty, kind, region, at });
        id
    }
}
