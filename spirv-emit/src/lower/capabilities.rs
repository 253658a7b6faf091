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
    let mut moved = BTreeSet::new();
    for inst in module.insts() {
        caps.extend(inst.op.capabilities());
        if inst.operands.contains(&Operand::Scope(Scope::Device)) {
            caps.insert(Capability::VulkanMemoryModelDeviceScope);
        }
        each_use(module, inst, &mut |dtype, only_moved| {
            if only_moved {
                moved.insert(dtype);
            } else {
                caps.extend(in_register(dtype));
            }
        });
    }
    for dtype in moved {
        if !in_buffer(dtype).is_some_and(|storage| caps.contains(&storage)) {
            caps.extend(in_register(dtype));
        }
    }
    caps
}

/// The scalar types that an instruction handles, and whether it only moves them. Loading, storing and converting a
/// narrow value is what the storage capabilities allow by themselves, if a buffer has such elements; a constant never
/// comes from a buffer, so it always counts.
fn each_use(module: &Module, inst: &Inst, f: &mut dyn FnMut(DType, bool)) {
    let moves = matches!(inst.op, Op::Load | Op::Store | Op::UConvert | Op::SConvert | Op::FConvert);
    let values = inst.operands.iter().filter_map(|operand| match operand {
        Operand::Value(v) => Some(*v),
        _ => None,
    });
    for value in values.chain(inst.result).map(|v| module.value(v)) {
        if !matches!(module.ty(value.ty), Type::Pointer { .. }) {
            let only_moved = moves && !matches!(value.kind, ValueKind::Const(_));
            each_scalar(module, value.ty, &mut |dtype| f(dtype, only_moved));
        }
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
