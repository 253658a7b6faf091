//! Vectors, arrays and structs: made of their parts, taken apart by literals in range.

use kiln_abi::spirv::Op::*;

use super::{
    Report,
    facts::{Facts, Shape},
};
use crate::ir::{Operand, Type, TypeId};

pub(super) fn construct(facts: &Facts<'_>, report: &mut Report<'_>) {
    for inst in facts.of(&[CompositeConstruct]) {
        let Some(ty) = facts.result_type(inst) else { continue };
        let parts: Vec<TypeId> = (0..inst.operands.len())
            .filter_map(|i| inst.value(i))
            .map(|v| facts.module.value(v).ty)
            .collect();
        let good = match facts.module.ty(ty) {
            Type::Vector { elem, n } => {
                let shapes: Option<Vec<Shape>> = parts.iter().map(|&p| facts.shape(p)).collect();
                shapes.is_some_and(|shapes| {
                    shapes.len() > 1
                        && shapes.iter().all(|s| s.dtype == *elem)
                        && shapes.iter().map(|s| u32::from(s.lanes)).sum::<u32>() == u32::from(*n)
                })
            }
            Type::Array { elem, len, .. } => parts.len() == *len as usize && parts.iter().all(|p| p == elem),
            Type::Struct { members, .. } => parts.iter().copied().eq(members.iter().map(|m| m.ty)),
            // A matrix is filled with one value.
            Type::Matrix(m) => match parts[..] {
                [part] => m.elem.dtype().is_some_and(|d| *facts.module.ty(part) == Type::Scalar(d)),
                _ => false,
            },
            Type::Scalar(_)
            | Type::RuntimeArray { .. }
            | Type::Pointer { .. }
            | Type::TensorLayout { .. }
            | Type::TensorView { .. } => false,
        };
        if !good {
            let found = facts.signature(inst);
            report.add(inst.at, format!("expected one value per part of the result; found {found}"));
        }
    }
}

pub(super) fn part(facts: &Facts<'_>, report: &mut Report<'_>) {
    for inst in facts.of(&[CompositeExtract, CompositeInsert]) {
        let type_at = |i| inst.value(i).map(|v| facts.module.value(v).ty);
        // An insertion gives the whole back, with the part that comes first among its operands.
        let (whole, part, gives_whole) = match inst.op {
            CompositeExtract => (type_at(0), facts.result_type(inst), true),
            _ => (type_at(1), type_at(0), type_at(1) == facts.result_type(inst)),
        };
        let path = inst.operands.iter().filter_map(|o| match o {
            Operand::Lit(i) => Some(*i),
            _ => None,
        });
        let good = match (whole, part) {
            (Some(whole), Some(part)) => leads_to(facts, whole, path, part) && gives_whole,
            _ => false,
        };
        if !good {
            let found = facts.signature(inst);
            report.add(
                inst.at,
                format!("expected a part that the value has, of that part's type; found {found}"),
            );
        }
    }
}

/// Whether a path of literals leads from one type to the other.
fn leads_to(facts: &Facts<'_>, mut from: TypeId, path: impl Iterator<Item = u32>, to: TypeId) -> bool {
    let mut path = path.peekable();
    if path.peek().is_none() {
        return false;
    }
    while let Some(i) = path.next() {
        from = match facts.module.ty(from) {
            Type::Vector { elem, n } => {
                return i < u32::from(*n)
                    && path.next().is_none()
                    && *facts.module.ty(to) == Type::Scalar(*elem);
            }
            Type::Array { elem, len, .. } if i < *len => *elem,
            Type::Struct { members, .. } if (i as usize) < members.len() => members[i as usize].ty,
            _ => return false,
        };
    }
    from == to
}

pub(super) fn shuffle(facts: &Facts<'_>, report: &mut Report<'_>) {
    for inst in facts.of(&[VectorShuffle]) {
        let picks: Vec<u32> = inst
            .operands
            .iter()
            .filter_map(|o| match o {
                Operand::Lit(i) => Some(*i),
                _ => None,
            })
            .collect();
        let good = match (facts.operand(inst, 0), facts.operand(inst, 1), facts.result(inst)) {
            (Some(a), Some(b), Some(to)) => {
                let n = u32::from(a.lanes) + u32::from(b.lanes);
                a.lanes > 1
                    && b.lanes > 1
                    && to.lanes > 1
                    && a.dtype == to.dtype
                    && b.dtype == to.dtype
                    && picks.len() == usize::from(to.lanes)
                    && picks.iter().all(|&p| p < n)
            }
            _ => false,
        };
        if !good {
            let found = facts.signature(inst);
            report.add(
                inst.at,
                format!("expected components that the two vectors have; found {picks:?} of {found}"),
            );
        }
    }
}

pub(super) fn dynamic(facts: &Facts<'_>, report: &mut Report<'_>) {
    for inst in facts.of(&[VectorExtractDynamic]) {
        let good = match (facts.operand(inst, 0), facts.operand(inst, 1), facts.result(inst)) {
            (Some(from), Some(index), Some(to)) => {
                from.lanes > 1
                    && to == Shape { dtype: from.dtype, lanes: 1 }
                    && index.is_int()
                    && index.lanes == 1
            }
            _ => false,
        };
        if !good {
            let found = facts.signature(inst);
            report.add(inst.at, format!("expected a vector and an integer index; found {found}"));
        }
    }
}

pub(super) fn products(facts: &Facts<'_>, report: &mut Report<'_>) {
    for inst in facts.of(&[VectorTimesScalar, Dot]) {
        let good = match (facts.operand(inst, 0), facts.operand(inst, 1), facts.result(inst)) {
            (Some(a), Some(b), Some(to)) => {
                let scalar = Shape { dtype: a.dtype, lanes: 1 };
                let fits = match inst.op {
                    Dot => b == a && to == scalar,
                    _ => b == scalar && to == a,
                };
                fits && a.is_float() && a.lanes > 1
            }
            _ => false,
        };
        if !good {
            let (name, found) = (inst.op.name(), facts.signature(inst));
            report.add(inst.at, format!("{name} expected float vectors of one shape; found {found}"));
        }
    }
}
