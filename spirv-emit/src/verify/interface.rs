//! The kernel's interface: workgroup, bindings, variables and constants.

use kiln_abi::{
    DType,
    spirv::{BuiltIn, StorageClass},
};

use super::{Report, facts::Facts};
use crate::{
    access::touched as touched_globals,
    ir::{Const, Global, GlobalKind, Type, TypeId, ValueKind},
    layout,
};

pub(super) fn local_size(facts: &Facts<'_>, report: &mut Report<'_>) {
    let [x, y, z] = facts.module.local_size;
    let n = x.checked_mul(y).and_then(|xy| xy.checked_mul(z));
    if n.is_none_or(|n| n == 0) {
        report.add(
            facts.somewhere(),
            format!("expected 1 to 2^32 - 1 invocations; found a workgroup of {x} × {y} × {z}"),
        );
    }
}

pub(super) fn subgroup_size(facts: &Facts<'_>, report: &mut Report<'_>) {
    if let Some(size) = facts.module.subgroup_size
        && !(size.is_power_of_two() && size <= 128)
    {
        report.add(
            facts.somewhere(),
            format!("expected a subgroup size that is a power of two up to 128; found {size}"),
        );
    }
}

pub(super) fn bindings(facts: &Facts<'_>, report: &mut Report<'_>) {
    let mut next = 0;
    for global in &facts.module.globals {
        let GlobalKind::Buffer { binding, view, writable, .. } = global.kind else { continue };
        if view {
            let is_of = |g: &Global| matches!(g.kind, GlobalKind::Buffer { binding: b, view: false, writable: false, .. } if b == binding);
            if writable || !facts.module.globals.iter().any(is_of) {
                let name = &global.name;
                let message = format!(
                    "expected {name} to view a buffer that the kernel only reads; binding {binding} is none"
                );
                report.add(global.at, message);
            }
            continue;
        }
        if binding != next {
            let name = &global.name;
            report.add(global.at, format!("expected binding {next} for {name}; found {binding}"));
        }
        next += 1;
    }
}

pub(super) fn touched(facts: &Facts<'_>, report: &mut Report<'_>) {
    let touched = touched_globals(facts.module);
    let reached = |number: u32| {
        facts.module.globals.iter().zip(&touched).any(|(global, touched)| {
            matches!(global.kind, GlobalKind::Buffer { binding, .. } if binding == number)
                && touched.access().is_some()
        })
    };
    for global in &facts.module.globals {
        let GlobalKind::Buffer { binding, view: false, .. } = global.kind else { continue };
        if !reached(binding) {
            let name = &global.name;
            report.add(
                global.at,
                format!(
                    "expected a load or store of every buffer; found none of {name}; remove the parameter"
                ),
            );
        }
    }
}

pub(super) fn workgroup_memory(facts: &Facts<'_>, report: &mut Report<'_>) {
    if let Err(e) = layout::workgroup_bytes(facts.module) {
        let workgroup = facts.module.globals.iter().rfind(|g| g.kind == GlobalKind::Workgroup);
        report.add(workgroup.map_or_else(|| facts.somewhere(), |g| g.at), format!("workgroup memory: {e}"));
    }
}

pub(super) fn constants(facts: &Facts<'_>, report: &mut Report<'_>) {
    for value in &facts.module.values {
        let ValueKind::Const(constant) = &value.kind else { continue };
        let good = match (constant, facts.module.ty(value.ty)) {
            (Const::Bool(_), Type::Scalar(dtype)) => *dtype == DType::Bool,
            (Const::Scalar { bits, .. }, Type::Scalar(dtype)) => *bits == canonical(*bits, *dtype),
            (Const::Composite { parts, .. }, ty) => {
                parts.len() == n_parts(ty) && {
                    let mut parts = parts.iter().map(|&p| facts.module.value(p).ty).enumerate();
                    parts.all(|(i, part)| is_part(facts, ty, i, part))
                }
            }
            (Const::Null(_), ty) => !matches!(
                ty,
                Type::Pointer { .. }
                    | Type::RuntimeArray { .. }
                    | Type::TensorLayout { .. }
                    | Type::TensorView { .. }
            ),
            (Const::Bool(_) | Const::Scalar { .. }, _) => false,
        };
        if !good {
            let name = facts.name(value.ty);
            report.add(value.at, format!("expected a constant of type {name}; found {constant:?}"));
        }
    }
}

/// The bits as a constant word of that type holds them: sign-extended, or zero above the type's width.
fn canonical(bits: u32, dtype: DType) -> u32 {
    let spare = 32 - dtype.bytes() * 8;
    match (dtype, spare) {
        (DType::Bool, _) => !bits,
        (_, 0) => bits,
        _ if dtype.is_signed() => ((bits.cast_signed() << spare) >> spare).cast_unsigned(),
        _ => bits << spare >> spare,
    }
}

fn n_parts(ty: &Type) -> usize {
    match ty {
        Type::Vector { n, .. } => usize::from(*n),
        Type::Array { len, .. } => *len as usize,
        Type::Struct { members, .. } => members.len(),
        _ => 0,
    }
}

fn is_part(facts: &Facts<'_>, ty: &Type, i: usize, part: TypeId) -> bool {
    match ty {
        Type::Vector { elem, .. } => *facts.module.ty(part) == Type::Scalar(*elem),
        Type::Array { elem, .. } => part == *elem,
        Type::Struct { members, .. } => part == members[i].ty,
        _ => false,
    }
}

pub(super) fn globals(facts: &Facts<'_>, report: &mut Report<'_>) {
    for global in &facts.module.globals {
        if !purpose_fits(facts, global) {
            let (name, class) = (&global.name, global.class.name());
            report.add(
                global.at,
                format!("{name} has a storage class or type that its purpose does not: {class}"),
            );
        }
    }
    for &local in facts.module.functions().flat_map(|f| &f.locals) {
        let value = facts.module.value(local);
        if !matches!(facts.module.ty(value.ty), Type::Pointer { class: StorageClass::Function, .. }) {
            let found = facts.name(value.ty);
            report.add(value.at, format!("expected a local variable; found {found}"));
        }
    }
}

fn purpose_fits(facts: &Facts<'_>, global: &Global) -> bool {
    let Type::Pointer { class, pointee } = *facts.module.ty(facts.module.value(global.value).ty) else {
        return false;
    };
    let wanted = match &global.kind {
        GlobalKind::Buffer { elem, .. } => {
            let array = match facts.module.ty(pointee) {
                Type::Struct { members, block: true, .. } if members.len() == 1 => {
                    facts.module.ty(members[0].ty)
                }
                _ => return false,
            };
            if !matches!(array, Type::RuntimeArray { elem: e, .. } if e == elem) {
                return false;
            }
            StorageClass::StorageBuffer
        }
        GlobalKind::Push { block } if *block == pointee => StorageClass::PushConstant,
        GlobalKind::Push { .. } => return false,
        GlobalKind::Workgroup => StorageClass::Workgroup,
        GlobalKind::BuiltIn(builtin) => {
            let wanted = match builtin {
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
            if *facts.module.ty(pointee) != wanted {
                return false;
            }
            StorageClass::Input
        }
    };
    class == wanted && global.class == wanted
}
