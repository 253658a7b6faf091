//! Atomics: what they reach, and in which order they stand.

use kiln_abi::{
    DType,
    spirv::{Effect, MemorySemantics, Op, Scope, StorageClass},
};

use super::{Report, facts::Facts};
use crate::ir::{Inst, Operand, Type};

/// At the scope of the memory: workgroup memory is the workgroup's, a buffer is everybody's on the queue. Relaxed, or
/// with both memories and what makes the order count: availability for a release, visibility for an acquire.
pub(super) fn forms(facts: &Facts<'_>, report: &mut Report<'_>) {
    for inst in facts.insts.iter().filter(|i| i.op.effect() == Effect::Atomic) {
        if !fits(facts, inst) {
            let (name, found) = (inst.op.name(), facts.signature(inst));
            let operands: Vec<_> = inst.operands.iter().filter(|o| !matches!(o, Operand::Value(_))).collect();
            report.add(
                inst.at,
                format!(
                    "{name} expected a 32-bit integer in a buffer or workgroup memory, at its scope, relaxed or in an \
                     order it can have; found {found}, {operands:?}"
                ),
            );
        }
    }
}

fn fits(facts: &Facts<'_>, inst: &Inst) -> bool {
    let Some(pointer) = inst.value(0) else { return false };
    let Type::Pointer { class, pointee } = *facts.module.ty(facts.module.value(pointer).ty) else {
        return false;
    };
    let Type::Scalar(dtype) = *facts.module.ty(pointee) else { return false };
    let signed = match inst.op {
        Op::AtomicSMin | Op::AtomicSMax => dtype == DType::I32,
        Op::AtomicUMin | Op::AtomicUMax => dtype == DType::U32,
        _ => matches!(dtype, DType::I32 | DType::U32),
    };
    let scope = match class {
        StorageClass::StorageBuffer => Scope::QueueFamily,
        StorageClass::Workgroup => Scope::Workgroup,
        _ => return false,
    };
    let scoped = inst.operands.iter().all(|o| !matches!(o, Operand::Scope(s) if *s != scope));
    let ordered = scoped && orders(inst);
    let values = (1..inst.operands.len()).filter_map(|i| inst.value(i));
    let mut types = values.map(|v| facts.module.value(v).ty).chain(facts.result_type(inst));
    signed && ordered && types.all(|ty| ty == pointee)
}

/// Whether each order is whole and one that the instruction can have.
fn orders(inst: &Inst) -> bool {
    const MEMORIES: u32 = MemorySemantics::UNIFORM_MEMORY | MemorySemantics::WORKGROUP_MEMORY;
    const ACQUIRE: u32 = MemorySemantics::ACQUIRE | MemorySemantics::MAKE_VISIBLE | MEMORIES;
    const RELEASE: u32 = MemorySemantics::RELEASE | MemorySemantics::MAKE_AVAILABLE | MEMORIES;
    const BOTH: u32 = MemorySemantics::ACQUIRE_RELEASE
        | MemorySemantics::MAKE_VISIBLE
        | MemorySemantics::MAKE_AVAILABLE
        | MEMORIES;
    let masks = inst.operands.iter().filter_map(|o| match o {
        Operand::Semantics(MemorySemantics(mask)) => Some(*mask),
        _ => None,
    });
    // The second order is a compare-exchange's when it stores nothing.
    masks.enumerate().all(|(i, mask)| match (mask, inst.op) {
        (0, _) => true,
        (ACQUIRE, op) => op != Op::AtomicStore,
        (RELEASE, op) => op != Op::AtomicLoad && i == 0,
        (BOTH, op) => !matches!(op, Op::AtomicLoad | Op::AtomicStore) && i == 0,
        _ => false,
    })
}
