//! Atomics: what they reach, and in which order they stand.

use kiln_abi::{
    DType,
    spirv::{Effect, MemorySemantics, Op, Scope, StorageClass},
};

use super::{Report, facts::Facts};
use crate::ir::{Inst, Operand, Type};

/// Relaxed, at the scope of the memory: workgroup memory is the workgroup's, a buffer is everybody's on the queue.
pub(super) fn forms(facts: &Facts<'_>, report: &mut Report<'_>) {
    for inst in facts.insts.iter().filter(|i| i.op.effect() == Effect::Atomic) {
        if !fits(facts, inst) {
            let (name, found) = (inst.op.name(), facts.signature(inst));
            let operands: Vec<_> = inst.operands.iter().filter(|o| !matches!(o, Operand::Value(_))).collect();
            report.add(
                inst.at,
                format!(
                    "{name} expected a 32-bit integer in a buffer or workgroup memory, relaxed, at its scope; found \
                     {found}, {operands:?}"
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
    let ordered = inst.operands.iter().all(|operand| match operand {
        Operand::Scope(s) => *s == scope,
        Operand::Semantics(MemorySemantics(mask)) => *mask == 0,
        _ => true,
    });
    let values = (1..inst.operands.len()).filter_map(|i| inst.value(i));
    let mut types = values.map(|v| facts.module.value(v).ty).chain(facts.result_type(inst));
    signed && ordered && types.all(|ty| ty == pointee)
}
