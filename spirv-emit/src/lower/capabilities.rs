//! The capabilities a kernel needs, read off its IR: nothing is declared that no instruction asks for.

use std::collections::{BTreeMap, BTreeSet};

use kiln_abi::{
    DType, Location, MatrixElem,
    spirv::{BuiltIn, Capability, Op, Scope, StorageClass, TensorOperands},
};

use crate::ir::{Callee, GlobalKind, Inst, Module, Operand, Type, TypeId, ValueId, ValueKind};

/// Every capability the module's words have to declare, each with the first place that asks for it.
pub(crate) fn needed(module: &Module) -> BTreeMap<Capability, Location> {
    let start = module.globals.first().map_or_else(Location::caller, |g| g.at);
    let mut caps = BTreeMap::from([(Capability::Shader, start), (Capability::VulkanMemoryModel, start)]);
    let mut need = |cap: Capability, at: Location| {
        caps.entry(cap).or_insert(at);
    };
    let mut stored = BTreeSet::new();
    for global in &module.globals {
        let at = global.at;
        match &global.kind {
            GlobalKind::Buffer { elem, .. } => each_scalar(module, *elem, &mut |d| {
                in_buffer(d).into_iter().for_each(|cap| {
                    stored.insert(cap);
                    need(cap, at);
                });
            }),
            GlobalKind::Workgroup => each_scalar(module, module.value(global.value).ty, &mut |d| {
                in_register(d).into_iter().for_each(|cap| need(cap, at));
            }),
            GlobalKind::BuiltIn(
                BuiltIn::SubgroupSize
                | BuiltIn::NumSubgroups
                | BuiltIn::SubgroupId
                | BuiltIn::SubgroupLocalInvocationId,
            ) => need(Capability::GroupNonUniform, at),
            GlobalKind::BuiltIn(_) | GlobalKind::Push { .. } => {}
        }
    }
    for local in module
        .functions()
        .flat_map(|f| &f.locals)
        .chain(module.callees.iter().flat_map(own))
        .map(|&l| module.value(l))
    {
        each_scalar(module, local.ty, &mut |d| {
            in_register(d).into_iter().for_each(|cap| need(cap, local.at));
        });
    }
    for ty in &module.types {
        of_type(ty).into_iter().for_each(|cap| need(cap, start));
    }
    for inst in module.insts() {
        inst.op.capabilities().iter().for_each(|&cap| need(cap, inst.at));
        if inst.op == Op::CooperativeMatrixLoadTensorNV
            && let Some(Operand::Lit(mask)) = inst.operands.get(3)
        {
            for (bit, cap) in DECODES {
                if mask & bit != 0 {
                    need(cap, inst.at);
                }
            }
        }
        if inst.operands.contains(&Operand::Scope(Scope::Device)) {
            need(Capability::VulkanMemoryModelDeviceScope, inst.at);
        }
        each_use(module, inst, &mut |dtype, only_moved| {
            let from_buffer = only_moved && in_buffer(dtype).is_some_and(|cap| stored.contains(&cap));
            if !from_buffer {
                in_register(dtype).into_iter().for_each(|cap| need(cap, inst.at));
            }
        });
    }
    caps
}

/// What the functions of a tensor load ask for.
pub(crate) const DECODES: [(u32, Capability); 2] = [
    (TensorOperands::DECODE, Capability::CooperativeMatrixBlockLoadsNV),
    (TensorOperands::DECODE_VECTOR, Capability::CooperativeMatrixDecodeVectorNV),
];

/// What a callee takes and gives.
fn own(callee: &Callee) -> impl Iterator<Item = &ValueId> {
    callee.params.iter().chain([&callee.returns])
}

/// What a type asks for by itself. Types are declared only when something has them.
fn of_type(ty: &Type) -> Vec<Capability> {
    match ty {
        Type::Matrix(m) if m.elem == MatrixElem::BF16 => vec![
            Capability::CooperativeMatrixKHR,
            Capability::BFloat16TypeKHR,
            Capability::BFloat16CooperativeMatrixKHR,
        ],
        Type::Matrix(_) => vec![Capability::CooperativeMatrixKHR],
        Type::TensorLayout { .. } | Type::TensorView { .. } => vec![Capability::TensorAddressingNV],
        Type::Pointer { class: StorageClass::PhysicalStorageBuffer, .. } => {
            vec![Capability::PhysicalStorageBufferAddresses]
        }
        _ => Vec::new(),
    }
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
        Type::Matrix(matrix) => matrix.elem.dtype().into_iter().for_each(f),
        Type::TensorLayout { .. } | Type::TensorView { .. } => {}
    }
}
