//! Tensor layouts and views, matrices loaded and stored through them, and what is done with whole matrices.

use kiln_abi::{
    DType,
    spirv::{ClampMode, MatrixReduce, MatrixUse, Op, Op::*, StorageClass, TensorOperands},
};

use super::{
    Report,
    facts::{Facts, Shape},
};
use crate::ir::{Callee, Inst, MatrixType, Operand, Type, ValueId};

const LAYOUT_OPS: [Op; 6] = [
    CreateTensorLayoutNV,
    TensorLayoutSetDimensionNV,
    TensorLayoutSetStrideNV,
    TensorLayoutSliceNV,
    TensorLayoutSetClampValueNV,
    TensorLayoutSetBlockSizeNV,
];
const VIEW_OPS: [Op; 4] =
    [CreateTensorViewNV, TensorViewSetDimensionNV, TensorViewSetStrideNV, TensorViewSetClipNV];

pub(super) fn layouts(facts: &Facts<'_>, report: &mut Report<'_>) {
    for inst in facts.of(&LAYOUT_OPS).chain(facts.of(&VIEW_OPS)) {
        if !setter_fits(facts, inst).unwrap_or(false) {
            let (name, found) = (inst.op.name(), facts.signature(inst));
            report.add(
                inst.at,
                format!("{name} expected a layout and a u32 for each dimension; found {found}"),
            );
        }
    }
}

/// A layout or view is made, or changed by u32 numbers: as many as the operation takes for each dimension.
fn setter_fits(facts: &Facts<'_>, inst: &Inst) -> Option<bool> {
    let ty = facts.result_type(inst)?;
    let rank = match facts.module.ty(ty) {
        Type::TensorLayout { rank, .. } if LAYOUT_OPS.contains(&inst.op) => *rank as usize,
        Type::TensorView { permutation, .. } if VIEW_OPS.contains(&inst.op) => permutation.len(),
        _ => return None,
    };
    let numbers = match inst.op {
        CreateTensorLayoutNV | CreateTensorViewNV => return Some(inst.operands.is_empty()),
        TensorLayoutSliceNV => 2 * rank,
        TensorLayoutSetClampValueNV => {
            let constant =
                matches!(facts.module.ty(ty), Type::TensorLayout { clamp: ClampMode::Constant, .. });
            if !constant {
                return None;
            }
            1
        }
        TensorViewSetClipNV => 4,
        _ => rank,
    };
    let values: Vec<ValueId> = (0..inst.operands.len()).filter_map(|i| inst.value(i)).collect();
    let (&first, numbered) = values.split_first()?;
    Some(
        facts.module.value(first).ty == ty
            && numbered.len() == numbers
            && numbered.iter().all(|&v| facts.shape_of(v) == Some(Shape::U32)),
    )
}

pub(super) fn access(facts: &Facts<'_>, report: &mut Report<'_>) {
    for inst in facts.of(&[CooperativeMatrixLoadTensorNV, CooperativeMatrixStoreTensorNV]) {
        if !access_fits(facts, inst).unwrap_or(false) {
            let (name, found) = (inst.op.name(), facts.signature(inst));
            report.add(
                inst.at,
                format!("{name} expected a buffer's array, a matrix and a layout of it; found {found}"),
            );
        }
    }
}

fn access_fits(facts: &Facts<'_>, inst: &Inst) -> Option<bool> {
    let array = inst.value(0)?;
    let Type::Pointer { class: StorageClass::StorageBuffer, pointee } =
        *facts.module.ty(facts.module.value(array).ty)
    else {
        return None;
    };
    let Type::RuntimeArray { elem, .. } = *facts.module.ty(pointee) else { return None };
    let matrix = facts.module.value(inst.value(1)?).ty;
    let m = facts.matrix_type(matrix)?;
    let Type::TensorLayout { rank, .. } = *facts.module.ty(facts.module.value(inst.value(2)?).ty) else {
        return None;
    };
    let Operand::Lit(mask) = inst.operands.get(3)? else { return None };
    let mut rest = inst.operands[4..].iter();
    let loads = inst.op == CooperativeMatrixLoadTensorNV;
    if mask & TensorOperands::VIEW != 0 {
        let Some(Operand::Value(view)) = rest.next() else { return None };
        let Type::TensorView { permutation, .. } = facts.module.ty(facts.module.value(*view).ty) else {
            return None;
        };
        if permutation.len() != rank as usize {
            return None;
        }
    }
    for (bit, lanes) in [(TensorOperands::DECODE, 1), (TensorOperands::DECODE_VECTOR, 4)] {
        if mask & bit != 0 {
            let Some(Operand::Callee(callee)) = rest.next() else { return None };
            let shape = Shape { dtype: m.elem.dtype()?, lanes };
            if !loads || !decodes(facts, &facts.module.callees[*callee], rank, shape) {
                return None;
            }
        }
    }
    if mask & TensorOperands::DECODE == 0 {
        let size = facts.shape(elem).filter(|s| s.lanes == 1)?.bits();
        let of_matrix = m.elem.dtype().map_or(16, |d| d.bytes() * 8);
        if size != of_matrix {
            return None;
        }
    }
    let vector_alone =
        mask & (TensorOperands::DECODE | TensorOperands::DECODE_VECTOR) == TensorOperands::DECODE_VECTOR;
    Some(
        mask & !7 == 0
            && !vector_alone
            && rest.next().is_none()
            && (!loads || facts.result_type(inst) == Some(matrix)),
    )
}

/// A decoding function: the block by its address, its coordinates, those within it. Blocks lie in the array's memory
/// one after another, whatever its elements are.
fn decodes(facts: &Facts<'_>, callee: &Callee, rank: u32, gives: Shape) -> bool {
    let types: Vec<&Type> =
        callee.params.iter().map(|&p| facts.module.ty(facts.module.value(p).ty)).collect();
    let coordinates = |ty: &Type| match ty {
        Type::Array { elem, len, stride: None } => *len == rank && facts.shape(*elem) == Some(Shape::U32),
        _ => false,
    };
    let address = |ty: &Type| match ty {
        Type::Pointer { class: StorageClass::PhysicalStorageBuffer, pointee } => {
            match facts.module.ty(*pointee) {
                Type::Struct { members, block: true, .. } => {
                    members.len() == 1 && members[0].offset == Some(0)
                }
                _ => false,
            }
        }
        _ => false,
    };
    matches!(types[..], [block, at, within] if address(block) && coordinates(at) && coordinates(within))
        && facts.shape_of(callee.returns) == Some(gives)
}

pub(super) fn whole(facts: &Facts<'_>, report: &mut Report<'_>) {
    let ops = [
        CooperativeMatrixConvertNV,
        CooperativeMatrixTransposeNV,
        CooperativeMatrixReduceNV,
        CooperativeMatrixPerElementOpNV,
    ];
    for inst in facts.of(&ops) {
        if !whole_fits(facts, inst).unwrap_or(false) {
            let (name, found) = (inst.op.name(), facts.signature(inst));
            report.add(
                inst.at,
                format!("{name} expected a matrix, a result and a function that go together; found {found}"),
            );
        }
    }
}

fn whole_fits(facts: &Facts<'_>, inst: &Inst) -> Option<bool> {
    let from = facts.matrix(inst.value(0)?)?;
    let to = facts.matrix_type(facts.result_type(inst)?)?;
    let callee = inst.operands.iter().find_map(|o| match o {
        Operand::Callee(callee) => Some(&facts.module.callees[*callee]),
        _ => None,
    });
    let acc = from.of == MatrixUse::MatrixAccumulatorKHR;
    Some(match inst.op {
        CooperativeMatrixConvertNV => acc && from != to && MatrixType { of: to.of, ..from } == to,
        CooperativeMatrixTransposeNV => {
            let turned = MatrixType { rows: from.cols, cols: from.rows, of: MatrixUse::MatrixBKHR, ..from };
            acc && turned == to
        }
        CooperativeMatrixReduceNV => {
            let Some(Operand::Lit(mask)) = inst.operands.get(1) else { return None };
            let extent = match *mask {
                MatrixReduce::ROW => to.rows == from.rows,
                MatrixReduce::COLUMN => to.cols == from.cols,
                MatrixReduce::SQUARE => (2 * to.rows, 2 * to.cols) == (from.rows, from.cols),
                mask => mask == MatrixReduce::ROW | MatrixReduce::COLUMN,
            };
            let elem = Shape { dtype: from.elem.dtype()?, lanes: 1 };
            acc && extent
                && MatrixType { rows: to.rows, cols: to.cols, ..from } == to
                && takes(facts, callee?, &[elem, elem], elem)
        }
        _ => {
            let elem = Shape { dtype: from.elem.dtype()?, lanes: 1 };
            let u32_ = Shape { dtype: DType::U32, lanes: 1 };
            let mut params = vec![u32_, u32_, elem];
            for extra in (2..inst.operands.len()).filter_map(|i| inst.value(i)) {
                params.push(match facts.matrix(extra) {
                    Some(m)
                        if (m.rows, m.cols, m.of, m.scope) == (from.rows, from.cols, from.of, from.scope) =>
                    {
                        Shape { dtype: m.elem.dtype()?, lanes: 1 }
                    }
                    Some(_) => return None,
                    None => facts.shape_of(extra)?,
                });
            }
            from == to && takes(facts, callee?, &params, elem)
        }
    })
}

fn takes(facts: &Facts<'_>, callee: &Callee, params: &[Shape], gives: Shape) -> bool {
    let found: Option<Vec<Shape>> = callee.params.iter().map(|&p| facts.shape_of(p)).collect();
    found.as_deref() == Some(params) && facts.shape_of(callee.returns) == Some(gives)
}

/// A function that an instruction calls runs on its own for each element.
pub(super) fn alone(facts: &Facts<'_>, report: &mut Report<'_>) {
    use kiln_abi::spirv::Effect;
    for callee in &facts.module.callees {
        crate::ir::for_each_node(&callee.function.body, &mut |node| {
            if let crate::ir::Node::Inst(inst) = node
                && (matches!(inst.op.effect(), Effect::Barrier | Effect::Subgroup | Effect::Store)
                    && inst.op != Store
                    || inst.op.name().contains("Matrix"))
            {
                let name = inst.op.name();
                report.add(
                    inst.at,
                    format!("a function called for an element computes and loads; found {name}"),
                );
            }
        });
    }
}
