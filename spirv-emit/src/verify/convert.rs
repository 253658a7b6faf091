//! Conversions between number types.

use kiln_abi::{DType, spirv::Op::*};

use super::{
    Report,
    facts::{Facts, Shape},
};

pub(super) fn numeric(facts: &Facts<'_>, report: &mut Report<'_>) {
    let ops = [ConvertFToU, ConvertFToS, ConvertSToF, ConvertUToF, UConvert, SConvert, FConvert];
    for inst in facts.of(&ops) {
        let good = match (facts.operand(inst, 0), facts.result(inst)) {
            (Some(from), Some(to)) => {
                let wider_or_narrower = from.bits() != to.bits();
                from.lanes == to.lanes
                    && match inst.op {
                        ConvertFToU => from.is_float() && to.is_unsigned(),
                        ConvertFToS => from.is_float() && to.is_signed(),
                        ConvertSToF => from.is_signed() && to.is_float(),
                        ConvertUToF => from.is_unsigned() && to.is_float(),
                        UConvert => from.is_int() && to.is_unsigned() && wider_or_narrower,
                        SConvert => from.is_int() && to.is_int() && wider_or_narrower,
                        _ => from.is_float() && to.is_float() && wider_or_narrower,
                    }
            }
            _ => false,
        };
        if !good {
            let (name, found) = (inst.op.name(), facts.signature(inst));
            report.add(inst.at, format!("{name} does not convert {found}"));
        }
    }
}

pub(super) fn bitcast(facts: &Facts<'_>, report: &mut Report<'_>) {
    for inst in facts.of(&[Bitcast]) {
        let bits = |s: Shape| s.bits() * u32::from(s.lanes);
        let good = match (facts.operand(inst, 0), facts.result(inst)) {
            (Some(from), Some(to)) => {
                from != to && bits(from) == bits(to) && from.dtype != DType::Bool && to.dtype != DType::Bool
            }
            _ => false,
        };
        if !good {
            let found = facts.signature(inst);
            report.add(inst.at, format!("a bitcast expected two types of equal size; found {found}"));
        }
    }
}
