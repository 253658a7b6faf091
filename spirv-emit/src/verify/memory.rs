//! Pointers, loads and stores, and the layout of what they reach.

use kiln_abi::spirv::{Effect, Op, StorageClass};

use super::{Report, facts::Facts};
use crate::{
    ir::{GlobalKind, Inst, Type, TypeId, ValueId, ValueKind},
    layout,
};

pub(super) fn types(facts: &Facts<'_>, report: &mut Report<'_>) {
    for inst in facts.of(&[Op::Load, Op::Store]) {
        let pointee = inst.value(0).and_then(|p| facts.pointee(p));
        let value = match inst.op {
            Op::Load => facts.result_type(inst),
            _ => inst.value(1).map(|v| facts.module.value(v).ty),
        };
        let unsized_ = pointee.is_some_and(|ty| matches!(facts.module.ty(ty), Type::RuntimeArray { .. }));
        if pointee.is_none() || pointee != value || unsized_ {
            let (name, found) = (inst.op.name(), facts.signature(inst));
            report.add(inst.at, format!("{name} expected a pointer and its value's type; found {found}"));
        }
    }
}

pub(super) fn chain(facts: &Facts<'_>, report: &mut Report<'_>) {
    for inst in facts.of(&[Op::AccessChain]) {
        let good = match (inst.value(0).map(|p| class_and_pointee(facts, p)), facts.result_type(inst)) {
            (Some(Some((class, from))), Some(ty)) => match *facts.module.ty(ty) {
                Type::Pointer { class: to_class, pointee } => {
                    class == to_class && inst.operands.len() > 1 && leads_to(facts, inst, from, pointee)
                }
                _ => false,
            },
            _ => false,
        };
        if !good {
            let found = facts.signature(inst);
            report.add(inst.at, format!("expected indices that lead to the pointer's type; found {found}"));
        }
    }
}

fn class_and_pointee(facts: &Facts<'_>, pointer: ValueId) -> Option<(StorageClass, TypeId)> {
    match *facts.module.ty(facts.module.value(pointer).ty) {
        Type::Pointer { class, pointee } => Some((class, pointee)),
        _ => None,
    }
}

fn leads_to(facts: &Facts<'_>, inst: &Inst, mut from: TypeId, to: TypeId) -> bool {
    let last = inst.operands.len() - 1;
    for position in 1..=last {
        let Some(index) = inst.value(position) else { return false };
        if !facts.shape_of(index).is_some_and(|s| s.is_int() && s.lanes == 1) {
            return false;
        }
        from = match facts.module.ty(from) {
            Type::Array { elem, .. } | Type::RuntimeArray { elem, .. } => *elem,
            Type::Struct { members, .. } => {
                match facts.constant(index).and_then(|i| members.get(i as usize)) {
                    Some(member) => member.ty,
                    None => return false,
                }
            }
            Type::Vector { elem, .. } => {
                return position == last && *facts.module.ty(to) == Type::Scalar(*elem);
            }
            Type::Matrix(m) => {
                let elem = m.elem.dtype().map(Type::Scalar);
                return position == last && elem.as_ref() == Some(facts.module.ty(to));
            }
            _ => return false,
        };
    }
    from == to
}

pub(super) fn constant_index(facts: &Facts<'_>, report: &mut Report<'_>) {
    for inst in facts.of(&[Op::AccessChain, Op::VectorExtractDynamic]) {
        let first = inst.value(0).map(|v| facts.pointee(v).unwrap_or(facts.module.value(v).ty));
        let Some(mut ty) = first else { continue };
        for index in (1..inst.operands.len()).filter_map(|i| inst.value(i)) {
            let constant = facts.constant(index);
            let (len, next) = match facts.module.ty(ty) {
                Type::Array { elem, len, .. } => (Some(*len), *elem),
                Type::Vector { n, .. } => (Some(u32::from(*n)), ty),
                Type::RuntimeArray { elem, .. } => (None, *elem),
                Type::Struct { members, .. } => match constant.and_then(|i| members.get(i as usize)) {
                    Some(member) => (None, member.ty),
                    None => break,
                },
                _ => break,
            };
            if let (Some(len), Some(i)) = (len, constant)
                && i >= len
            {
                let name = facts.name(ty);
                report.add(inst.at, format!("expected an index under {len}; found {i}, outside {name}"));
            }
            ty = next;
        }
    }
}

pub(super) fn writable(facts: &Facts<'_>, report: &mut Report<'_>) {
    let plain = [Op::Store, Op::CooperativeMatrixStoreKHR, Op::CooperativeMatrixStoreTensorNV];
    let stores = |op: Op| plain.contains(&op) || op.effect() == Effect::Atomic && op != Op::AtomicLoad;
    for inst in facts.insts.iter().filter(|i| stores(i.op)) {
        let Some(root) = inst.value(0).and_then(|p| facts.roots[p.0 as usize]) else { continue };
        let ValueKind::Global(index) = facts.module.value(root).kind else { continue };
        let global = &facts.module.globals[index];
        let name = &global.name;
        let message = match &global.kind {
            GlobalKind::Buffer { writable: true, .. } | GlobalKind::Workgroup => continue,
            GlobalKind::Buffer { writable: false, .. } => {
                format!("expected a writable buffer; found {name}, which is read-only; declare it `BufMut`")
            }
            GlobalKind::Push { .. } | GlobalKind::BuiltIn(_) => {
                format!("expected memory that a kernel can write; found {name}; copy it into a `let mut`")
            }
        };
        report.add(inst.at, message);
    }
}

pub(super) fn pointers(facts: &Facts<'_>, report: &mut Report<'_>) {
    let is_pointer = |v: ValueId| facts.pointee(v).is_some();
    for inst in &facts.insts {
        let takes = matches!(
            inst.op,
            Op::Load
                | Op::Store
                | Op::AccessChain
                | Op::ArrayLength
                | Op::CooperativeMatrixLoadKHR
                | Op::CooperativeMatrixStoreKHR
                | Op::CooperativeMatrixLoadTensorNV
                | Op::CooperativeMatrixStoreTensorNV
        ) || inst.op.effect() == Effect::Atomic;
        let misused = (usize::from(takes)..inst.operands.len()).filter_map(|i| inst.value(i)).any(is_pointer);
        let made = inst.op != Op::AccessChain && inst.result.is_some_and(is_pointer);
        if misused || made {
            let (name, found) = (inst.op.name(), facts.signature(inst));
            report.add(inst.at, format!("{name} expected values; found a pointer in {found}; load it first"));
        }
    }
}

pub(super) fn laid_out(facts: &Facts<'_>, report: &mut Report<'_>) {
    for global in &facts.module.globals {
        if !matches!(global.kind, GlobalKind::Buffer { .. } | GlobalKind::Push { .. }) {
            continue;
        }
        if let Some(Err(message)) = facts.pointee(global.value).map(|ty| check_layout(facts, ty)) {
            let name = &global.name;
            report.add(global.at, format!("{name}: {message}"));
        }
    }
}

fn check_layout(facts: &Facts<'_>, ty: TypeId) -> Result<(), String> {
    let types = &facts.module.types;
    let name = || facts.name(ty);
    match facts.module.ty(ty) {
        Type::Array { elem, stride, .. } => {
            check_stride(facts, ty, *elem, *stride)?;
            check_layout(facts, *elem)
        }
        Type::RuntimeArray { elem, stride } => {
            check_stride(facts, ty, *elem, Some(*stride))?;
            check_layout(facts, *elem)
        }
        Type::Struct { members, .. } => {
            let parts: Vec<TypeId> = members.iter().map(|m| m.ty).collect();
            let placed = layout::place(types, &parts).map_err(|e| format!("{}: {e}", name()))?;
            for (member, offset) in members.iter().zip(placed.offsets) {
                if member.offset != Some(offset) {
                    let (name, found) = (name(), member.offset);
                    let member = &member.name;
                    return Err(format!("expected {name}.{member} at byte {offset}; found {found:?}"));
                }
                check_layout(facts, member.ty)?;
            }
            Ok(())
        }
        _ => layout::extent(types, ty).map(|_| ()).map_err(|e| format!("{}: {e}", name())),
    }
}

fn check_stride(facts: &Facts<'_>, array: TypeId, elem: TypeId, found: Option<u32>) -> Result<(), String> {
    let name = facts.name(array);
    match layout::stride(&facts.module.types, elem) {
        Ok(stride) if found == Some(stride) => Ok(()),
        Ok(stride) => Err(format!("expected the elements of {name} {stride} bytes apart; found {found:?}")),
        Err(e) => Err(format!("{name}: {e}")),
    }
}

pub(super) fn plain(facts: &Facts<'_>, report: &mut Report<'_>) {
    let workgroup = facts.module.globals.iter().filter(|g| g.kind == GlobalKind::Workgroup);
    let locals = facts.module.functions().flat_map(|f| &f.locals).map(|&l| (l, facts.module.value(l).at));
    for (variable, at) in workgroup.map(|g| (g.value, g.at)).chain(locals) {
        if let Some(ty) = facts.pointee(variable)
            && !is_plain(facts, ty, variable)
        {
            let name = facts.name(ty);
            report.add(at, format!("expected a type without offsets, strides or pointers; found {name}"));
        }
    }
}

/// Matrices are local: no other invocation could make anything of one.
fn is_plain(facts: &Facts<'_>, ty: TypeId, variable: ValueId) -> bool {
    match facts.module.ty(ty) {
        Type::Scalar(_) | Type::Vector { .. } => true,
        Type::Matrix(_) | Type::TensorLayout { .. } | Type::TensorView { .. } => {
            matches!(facts.module.value(variable).kind, ValueKind::Local(_))
        }
        Type::Array { elem, stride, .. } => stride.is_none() && is_plain(facts, *elem, variable),
        Type::Struct { members, block, .. } => {
            !block && members.iter().all(|m| m.offset.is_none() && is_plain(facts, m.ty, variable))
        }
        Type::RuntimeArray { .. } | Type::Pointer { .. } => false,
    }
}

pub(super) fn push_block(facts: &Facts<'_>, report: &mut Report<'_>) {
    for global in &facts.module.globals {
        let GlobalKind::Push { block } = global.kind else { continue };
        let good = match facts.module.ty(block) {
            Type::Struct { members, block, .. } => {
                *block
                    && members.iter().all(|m| {
                        facts.shape(m.ty).is_some_and(|s| s.lanes == 1 && s.bits() == 32)
                            && matches!(facts.module.ty(m.ty), Type::Scalar(_))
                    })
            }
            _ => false,
        };
        if !good {
            let name = &global.name;
            report
                .add(global.at, format!("expected 32-bit numbers as push constants; found others in {name}"));
        }
    }
    let blocks = facts.module.globals.iter().filter(|g| matches!(g.kind, GlobalKind::Push { .. }));
    for second in blocks.skip(1) {
        let name = &second.name;
        report.add(second.at, format!("expected one push-constant block; found {name} as a second"));
    }
}

pub(super) fn array_length(facts: &Facts<'_>, report: &mut Report<'_>) {
    for inst in facts.of(&[Op::ArrayLength]) {
        let root = inst.value(0).filter(|p| matches!(facts.module.value(*p).kind, ValueKind::Global(_)));
        let members = match root.and_then(|p| facts.pointee(p)).map(|ty| facts.module.ty(ty)) {
            Some(Type::Struct { members, .. }) => members.as_slice(),
            _ => &[],
        };
        let asked = match inst.operands.get(1) {
            Some(crate::ir::Operand::Lit(i)) => members.get(*i as usize),
            _ => None,
        };
        let is_array = asked.is_some_and(|m| matches!(facts.module.ty(m.ty), Type::RuntimeArray { .. }));
        if !is_array || facts.result(inst) != Some(super::facts::Shape::U32) {
            let found = facts.signature(inst);
            report.add(inst.at, format!("expected a buffer and a u32 length; found {found}"));
        }
    }
}
