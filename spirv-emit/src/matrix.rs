//! What a multiply-add says of its matrices, and the products that a kernel multiplies.

use std::collections::BTreeSet;

use kiln_abi::{
    MatrixProduct,
    spirv::{MatrixOperands, Op},
};

use crate::ir::{Inst, MatrixType, Module, Type, ValueId};

/// The mask of a multiply-add: which integers are signed. Floats have none.
pub fn signed_operands(a: &MatrixType, b: &MatrixType, c: &MatrixType) -> Option<u32> {
    let bits = [
        (a, MatrixOperands::A_SIGNED),
        (b, MatrixOperands::B_SIGNED),
        (c, MatrixOperands::C_SIGNED | MatrixOperands::RESULT_SIGNED),
    ];
    let mask = bits.iter().filter(|(m, _)| m.elem.is_signed()).fold(0, |mask, (_, bits)| mask | bits);
    (mask != 0).then_some(mask)
}

/// Every product of the kernel, ascending.
pub(crate) fn products(module: &Module) -> Vec<MatrixProduct> {
    let matrix = |v: ValueId| match module.ty(module.value(v).ty) {
        Type::Matrix(m) => Some(*m),
        _ => None,
    };
    let product = |inst: &Inst| {
        let at = |i| inst.value(i).and_then(matrix);
        let (a, b, c) = (at(0)?, at(1)?, at(2)?);
        let elems = [a.elem, b.elem, c.elem, c.elem];
        Some(MatrixProduct { scope: c.scope, mnk: [c.rows, c.cols, a.cols], elems })
    };
    let insts = module.insts().into_iter();
    let multiplies = insts.filter(|i| i.op == Op::CooperativeMatrixMulAddKHR);
    multiplies.filter_map(product).collect::<BTreeSet<_>>().into_iter().collect()
}
