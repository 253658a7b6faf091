//! The capabilities a kernel needs, read off its IR: nothing is declared that no instruction asks for.

use std::collections::BTreeSet;

use kiln_abi::{
    DType,
    spirv::{BuiltIn, Capability, Op, Scope},
};

use crate::ir::{GlobalKind, Inst, Module, Operand, Type, TypeId, ValueKind};

/// Every capability the module's words have to declare.
pub(super) fn needed(module: &Module) -> BTreeSet<Capability> {
    let mut caps = BTreeSet::from([Capability::Shader, Capability::VulkanMemoryModel]);
    for global in &module.globals {
        match &global.kind {
            GlobalKind::Buffer { elem, .. } => each_scalar(module, *elem, &mut |d| caps.extend(in_buffer(d))),
            GlobalKind::Workgroup => {
                each_scalar(module, module.value(global.value).ty, &mut |d| caps.extend(in_register(d)));
            }
            GlobalKind::BuiltIn(
                BuiltIn::SubgroupSize
                | BuiltIn::NumSubgroups
                | BuiltIn::SubgroupId
                | BuiltIn::SubgroupLocalInvocationId,
            ) => {
                caps.insert(Capability::GroupNonUniform);
            }
            GlobalKind::BuiltIn(_) | GlobalKind::Push { .. } => {}
        }
    }
    for &local in &module.entry.locals {
        each_scalar(module, module.value(local).ty, &mut |d| caps.extend(in_register(d)));
    }
    for inst in module.insts() {
        caps.extend(inst.op.capabilities());
        if inst.operands.contains(&Operand::Scope(Scope::Device)) {
            caps.insert(Capability::VulkanMemoryModelDeviceScope);
        }
        register_types(module, inst, &mut |d| caps.extend(in_register(d)));
    }
    caps
}

/// The scalar types that an instruction computes with. Loading, storing and converting a narrow value is what the
/// storage capabilities allow by themselves; a constant never comes from a buffer, so it always counts.
fn register_types(module: &Module, inst: &Inst, f: &mut dyn FnMut(DType)) {
    let moves = matches!(inst.op, Op::Load | Op::Store | Op::UConvert | Op::SConvert | Op::FConvert);
    for operand in &inst.operands {
        let Operand::Value(v) = operand else { continue };
        let value = module.value(*v);
        let is_pointer = matches!(module.ty(value.ty), Type::Pointer { .. });
        if matches!(value.kind, ValueKind::Const(_)) || !(moves || is_pointer) {
            each_scalar(module, value.ty, f);
        }
    }
    if let Some(result) = inst.result
        && !moves
        && inst.op != Op::AccessChain
    {
        each_scalar(module, module.value(result).ty, f);
    }
}

fn in_buffer(dtype: DType) -> Option<Capability> {
    match dtype.bytes() {
        1 => Some(Capability::StorageBuffer8BitAccess),
        2 => Some(Capability::StorageBuffer16BitAccess),
        _ => None,
    }
}

fn in_register(dtype: DType) -> Option<Capability> {
    match dtype {
        DType::I8 | DType::U8 => Some(Capability::Int8),
        DType::I16 | DType::U16 => Some(Capability::Int16),
        DType::F16 => Some(Capability::Float16),
        DType::Bool | DType::I32 | DType::U32 | DType::F32 => None,
    }
}

fn each_scalar(module: &Module, ty: TypeId, f: &mut dyn FnMut(DType)) {
    match module.ty(ty) {
        Type::Scalar(d) | Type::Vector { elem: d, .. } => f(*d),
        Type::Array { elem, .. } | Type::RuntimeArray { elem, .. } => each_scalar(module, *elem, f),
        Type::Struct { members, .. } => members.iter().for_each(|m| each_scalar(module, m.ty, f)),
        Type::Pointer { pointee, .. } => each_scalar(module, *pointee, f),
    }
}
