//! Subgroup operations, packed dot products and barriers.

use kiln_abi::{
    DType,
    spirv::{MemorySemantics, Op::*, Scope},
};

use super::{
    Report,
    facts::{Facts, Shape},
};
use crate::ir::{Inst, Operand};

pub(super) fn packed_dot(facts: &Facts<'_>, report: &mut Report<'_>) {
    for inst in facts.of(&[SDot, UDot, SUDot]) {
        let word = |s: Option<Shape>| matches!(s, Some(Shape::U32 | Shape::I32));
        let to = if inst.op == UDot { Shape::U32 } else { Shape::I32 };
        if !(word(facts.operand(inst, 0)) && word(facts.operand(inst, 1)) && facts.result(inst) == Some(to)) {
            let (name, found) = (inst.op.name(), facts.signature(inst));
            let to = to.dtype;
            report.add(inst.at, format!("{name} expected two words of packed bytes -> {to}; found {found}"));
        }
    }
}

pub(super) fn operation(facts: &Facts<'_>, report: &mut Report<'_>) {
    for inst in &facts.insts {
        if operation_fits(facts, inst) == Some(false) {
            let (name, found) = (inst.op.name(), facts.signature(inst));
            report.add(inst.at, format!("{name} has no form {found}"));
        }
    }
}

/// `None` for what is no subgroup operation.
fn operation_fits(facts: &Facts<'_>, inst: &Inst) -> Option<bool> {
    let operands = facts.operands(inst).unwrap_or_default();
    let to = facts.result(inst);
    let ballot = Shape { dtype: DType::U32, lanes: 4 };
    let is_a = |fits: fn(Shape) -> bool| to.is_some_and(|to| operands == [to] && fits(to));
    let moves = || to.is_some_and(|to| operands == [to, Shape::U32]);
    Some(match inst.op {
        GroupNonUniformElect => to == Some(Shape::BOOL),
        GroupNonUniformAll | GroupNonUniformAny => operands == [Shape::BOOL] && to == Some(Shape::BOOL),
        GroupNonUniformBallot => operands == [Shape::BOOL] && to == Some(ballot),
        GroupNonUniformBroadcast
        | GroupNonUniformShuffle
        | GroupNonUniformShuffleXor
        | GroupNonUniformShuffleUp
        | GroupNonUniformShuffleDown => moves(),
        GroupNonUniformBroadcastFirst => is_a(|_| true),
        GroupNonUniformIAdd
        | GroupNonUniformIMul
        | GroupNonUniformBitwiseAnd
        | GroupNonUniformBitwiseOr
        | GroupNonUniformBitwiseXor => is_a(Shape::is_int),
        GroupNonUniformFAdd | GroupNonUniformFMul | GroupNonUniformFMin | GroupNonUniformFMax => {
            is_a(Shape::is_float)
        }
        GroupNonUniformSMin | GroupNonUniformSMax => is_a(Shape::is_signed),
        GroupNonUniformUMin | GroupNonUniformUMax => is_a(Shape::is_unsigned),
        _ => return None,
    })
}

pub(super) fn scope(facts: &Facts<'_>, report: &mut Report<'_>) {
    for inst in facts.insts.iter().filter(|i| !matches!(i.op, ControlBarrier | MemoryBarrier)) {
        if let Some(Operand::Scope(scope)) = inst.operands.first()
            && *scope != Scope::Subgroup
        {
            let (name, found) = (inst.op.name(), scope.name());
            report.add(inst.at, format!("{name} expected subgroup scope; found {found}"));
        }
    }
}

pub(super) fn barrier_scope(facts: &Facts<'_>, report: &mut Report<'_>) {
    let held = |s: Scope| matches!(s, Scope::Workgroup | Scope::Subgroup);
    for inst in facts.of(&[ControlBarrier, MemoryBarrier]) {
        let good = match inst.operands[..] {
            [Operand::Scope(hold), Operand::Scope(memory), _] => {
                held(hold) && orders(memory) && (hold == Scope::Subgroup || memory != Scope::Subgroup)
            }
            [Operand::Scope(memory), _] => orders(memory),
            _ => false,
        };
        if !good {
            let message =
                "expected a barrier that holds a workgroup or subgroup and orders memory at least for it";
            report.add(inst.at, message.to_owned());
        }
    }
}

fn orders(memory: Scope) -> bool {
    matches!(memory, Scope::Device | Scope::QueueFamily | Scope::Workgroup | Scope::Subgroup)
}

pub(super) fn semantics(facts: &Facts<'_>, report: &mut Report<'_>) {
    const ORDER: u32 =
        MemorySemantics::ACQUIRE_RELEASE | MemorySemantics::MAKE_AVAILABLE | MemorySemantics::MAKE_VISIBLE;
    const CLASSES: u32 = MemorySemantics::UNIFORM_MEMORY | MemorySemantics::WORKGROUP_MEMORY;
    for inst in facts.of(&[ControlBarrier, MemoryBarrier]) {
        if let Some(Operand::Semantics(MemorySemantics(mask))) = inst.operands.last()
            && (mask & !CLASSES != ORDER || mask & CLASSES == 0)
        {
            report.add(
                inst.at,
                format!(
                    "expected a barrier that acquires and releases, makes available and visible, and names workgroup \
                     memory or storage buffers; found semantics {mask:#x}"
                ),
            );
        }
    }
}
