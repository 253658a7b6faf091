//! Conversions between number types.

use kiln_abi::{DType, MatrixElem, spirv::Op::*};

use super::{
    Report,
    facts::{Facts, Shape},
};
use crate::ir::{Inst, MatrixType};

pub(super) fn numeric(facts: &Facts<'_>, report: &mut Report<'_>) {
    let ops = [ConvertFToU, ConvertFToS, ConvertSToF, ConvertUToF, UConvert, SConvert, FConvert];
    for inst in facts.of(&ops) {
        let good = match ends(facts, inst) {
            Some((from, to)) => {
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
            None => bfloat(facts, inst),
        };
        if !good {
            let (name, found) = (inst.op.name(), facts.signature(inst));
            report.add(inst.at, format!("{name} does not convert {found}"));
        }
    }
}

/// Operand and result: numbers, or the elements of matrices that are otherwise alike.
fn ends(facts: &Facts<'_>, inst: &Inst) -> Option<(Shape, Shape)> {
    match matrices(facts, inst) {
        Some((from, to)) => {
            let elem = |m: MatrixType| Some(Shape { dtype: m.elem.dtype()?, lanes: 1 });
            Some((elem(from)?, elem(to)?))
        }
        None => Some((facts.operand(inst, 0)?, facts.result(inst)?)),
    }
}

/// Two matrices that differ in their element alone.
fn matrices(facts: &Facts<'_>, inst: &Inst) -> Option<(MatrixType, MatrixType)> {
    let (from, to) = (facts.matrix(inst.value(0)?)?, facts.matrix_type(facts.result_type(inst)?)?);
    (MatrixType { elem: to.elem, ..from } == to).then_some((from, to))
}

/// Between matrices of bfloat16 and of f32.
fn bfloat(facts: &Facts<'_>, inst: &Inst) -> bool {
    let elems = matrices(facts, inst).map(|(from, to)| (from.elem, to.elem));
    let pairs = [(MatrixElem::BF16, MatrixElem::F32), (MatrixElem::F32, MatrixElem::BF16)];
    inst.op == FConvert && elems.is_some_and(|elems| pairs.contains(&elems))
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
