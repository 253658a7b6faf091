//! Cooperative matrices: products, scales, loads and stores.

use kiln_abi::{
    MatrixElem,
    spirv::{MatrixUse, Op, Op::*, StorageClass},
};

use super::{
    Report,
    facts::{Facts, Shape},
};
use crate::{
    ir::{Inst, MatrixType, Operand, Type, ValueId, ValueKind},
    matrix::signed_operands,
};

pub(super) fn product(facts: &Facts<'_>, report: &mut Report<'_>) {
    for inst in facts.of(&[CooperativeMatrixMulAddKHR]) {
        if !product_fits(facts, inst) {
            let found = facts.signature(inst);
            report.add(
                inst.at,
                format!(
                    "expected factors and an addend that agree in scope, shape and element; found {found}"
                ),
            );
        }
    }
}

fn product_fits(facts: &Facts<'_>, inst: &Inst) -> bool {
    let at = |i| inst.value(i).and_then(|v| facts.matrix(v));
    let to = facts.result_type(inst).and_then(|ty| facts.matrix_type(ty));
    let (Some(a), Some(b), Some(c), Some(to)) = (at(0), at(1), at(2), to) else { return false };
    let uses = [MatrixUse::MatrixAKHR, MatrixUse::MatrixBKHR, MatrixUse::MatrixAccumulatorKHR];
    let mask = match inst.operands.get(3) {
        Some(Operand::Lit(mask)) => Some(*mask),
        _ => None,
    };
    [a.of, b.of, c.of] == uses
        && c == to
        && [a.scope, b.scope] == [c.scope; 2]
        && (a.rows, b.cols, a.cols) == (c.rows, c.cols, b.rows)
        && elements_multiply(&a, &b, &c)
        && mask == signed_operands(&a, &b, &c)
}

/// The combinations of elements that the language writes; whether a device has one is asked of its capabilities.
fn elements_multiply(a: &MatrixType, b: &MatrixType, c: &MatrixType) -> bool {
    use MatrixElem::*;
    let sums = [(F16, F16), (F16, F32), (BF16, BF16), (BF16, F32), (I8, I32), (U8, U32)];
    a.elem == b.elem && sums.contains(&(a.elem, c.elem))
}

pub(super) fn scale(facts: &Facts<'_>, report: &mut Report<'_>) {
    for inst in facts.of(&[MatrixTimesScalar]) {
        let matrix = inst.value(0).filter(|&v| facts.result_type(inst) == Some(facts.module.value(v).ty));
        let elem = matrix.and_then(|v| facts.matrix(v)).and_then(|m| m.elem.dtype());
        let by = facts.operand(inst, 1);
        if !elem.is_some_and(|dtype| by == Some(Shape { dtype, lanes: 1 })) {
            let found = facts.signature(inst);
            report
                .add(inst.at, format!("expected a matrix and a number of its element's type; found {found}"));
        }
    }
}

pub(super) fn access(facts: &Facts<'_>, report: &mut Report<'_>) {
    for inst in facts.of(&[CooperativeMatrixLoadKHR, CooperativeMatrixStoreKHR]) {
        let (matrix, layout, stride) = match inst.op {
            CooperativeMatrixLoadKHR => (facts.result_type(inst), inst.value(1), inst.value(2)),
            _ => (inst.value(1).map(|v| facts.module.value(v).ty), inst.value(2), inst.value(3)),
        };
        let good = matrix.is_some_and(|ty| facts.matrix_type(ty).is_some())
            && inst.value(0).is_some_and(|p| is_element(facts, p))
            && layout.is_some_and(|v| is_layout(facts, v))
            && stride.and_then(|v| facts.shape_of(v)) == Some(Shape::U32);
        if !good {
            let (name, found) = (inst.op.name(), facts.signature(inst));
            report.add(
                inst.at,
                format!(
                    "{name} expected an element in memory, a known layout and a u32 stride; found {found}"
                ),
            );
        }
    }
}

/// An element of an array in memory that all invocations reach.
fn is_element(facts: &Facts<'_>, pointer: ValueId) -> bool {
    let Type::Pointer { class, pointee } = *facts.module.ty(facts.module.value(pointer).ty) else {
        return false;
    };
    let chain = facts.insts.iter().find(|i| i.result == Some(pointer));
    matches!(class, StorageClass::StorageBuffer | StorageClass::Workgroup)
        && facts.shape(pointee).is_some_and(|s| s.is_int() || s.is_float())
        && chain.is_some_and(|i| i.op == Op::AccessChain && ends_in_array(facts, i))
}

/// Whether the chain's last step is into an array.
fn ends_in_array(facts: &Facts<'_>, chain: &Inst) -> bool {
    let mut ty = chain.value(0).and_then(|v| facts.pointee(v));
    let last = chain.operands.len() - 1;
    for position in 1..=last {
        ty = match ty.map(|ty| facts.module.ty(ty)) {
            Some(Type::Array { .. } | Type::RuntimeArray { .. }) if position == last => return true,
            Some(Type::Array { elem, .. } | Type::RuntimeArray { elem, .. }) => Some(*elem),
            Some(Type::Struct { members, .. }) => {
                let index = chain.value(position).and_then(|v| facts.constant(v));
                index.and_then(|i| members.get(i as usize)).map(|m| m.ty)
            }
            _ => return false,
        };
    }
    false
}

fn is_layout(facts: &Facts<'_>, value: ValueId) -> bool {
    matches!(facts.module.value(value).kind, ValueKind::Const(_))
        && facts.shape_of(value) == Some(Shape::U32)
        && facts.constant(value).is_some_and(|layout| layout <= 1)
}

pub(super) fn length(facts: &Facts<'_>, report: &mut Report<'_>) {
    for inst in facts.of(&[CooperativeMatrixLengthKHR]) {
        let of_matrix = match inst.operands.first() {
            Some(Operand::Type(ty)) => facts.matrix_type(*ty).is_some(),
            _ => false,
        };
        if !of_matrix || facts.result(inst) != Some(Shape::U32) {
            report.add(inst.at, "expected a matrix type and its u32 length; found others".to_owned());
        }
    }
}
