//! Logic, comparison and selection.

use kiln_abi::{DType, spirv::Op::*};

use super::{Report, facts::Facts};

pub(super) fn logical(facts: &Facts<'_>, report: &mut Report<'_>) {
    let ops = [LogicalEqual, LogicalNotEqual, LogicalOr, LogicalAnd, LogicalNot, Any, All];
    for inst in facts.of(&ops) {
        let (operands, result) = (facts.operands(inst), facts.result(inst));
        let good = match (operands.as_deref(), result) {
            (Some([a]), Some(to)) if matches!(inst.op, Any | All) => {
                a.dtype == DType::Bool && a.lanes > 1 && to == super::facts::Shape::BOOL
            }
            (Some(operands), Some(to)) => to.dtype == DType::Bool && operands.iter().all(|&o| o == to),
            _ => false,
        };
        if !good {
            let (name, found) = (inst.op.name(), facts.signature(inst));
            report.add(inst.at, format!("{name} expected bool; found {found}; compare with `!= 0`"));
        }
    }
}

pub(super) fn comparison(facts: &Facts<'_>, report: &mut Report<'_>) {
    let int = [IEqual, INotEqual];
    let unsigned = [UGreaterThan, UGreaterThanEqual, ULessThan, ULessThanEqual];
    let signed = [SGreaterThan, SGreaterThanEqual, SLessThan, SLessThanEqual];
    let float = [
        FOrdEqual,
        FUnordNotEqual,
        FOrdLessThan,
        FOrdGreaterThan,
        FOrdLessThanEqual,
        FOrdGreaterThanEqual,
        IsNan,
        IsInf,
    ];
    for inst in &facts.insts {
        let op = inst.op;
        let (is_int, is_unsigned) = (int.contains(&op), unsigned.contains(&op));
        let (is_signed, is_float) = (signed.contains(&op), float.contains(&op));
        if !(is_int || is_unsigned || is_signed || is_float) {
            continue;
        }
        let good = match (facts.operands(inst), facts.result(inst)) {
            (Some(operands), Some(to)) => operands.first().is_some_and(|&a| {
                let class = (is_int && a.is_int())
                    || (is_unsigned && a.is_unsigned())
                    || (is_signed && a.is_signed())
                    || (is_float && a.is_float());
                class && to == a.of(DType::Bool) && operands.iter().all(|&o| o == a)
            }),
            _ => false,
        };
        if !good {
            let (name, found) = (op.name(), facts.signature(inst));
            report.add(
                inst.at,
                format!("{name} expected two numbers of one type and gives bool; found {found}"),
            );
        }
    }
}

pub(super) fn select(facts: &Facts<'_>, report: &mut Report<'_>) {
    for inst in facts.of(&[Select]) {
        let good = match (facts.operand(inst, 0), facts.operand(inst, 1), facts.result(inst)) {
            (Some(cond), Some(a), Some(to)) => {
                cond.dtype == DType::Bool
                    && (cond.lanes == 1 || cond.lanes == to.lanes)
                    && a == to
                    && facts.operand(inst, 2) == Some(to)
            }
            _ => false,
        };
        if !good {
            let found = facts.signature(inst);
            report.add(inst.at, format!("select expected a bool and two values of one type; found {found}"));
        }
    }
}
