//! Instructions, loads and stores.

use kiln_abi::{
    DType, Location,
    spirv::{Op, OpResult},
};

use super::Builder;
use crate::{
    fold::{Folded, fold},
    ir::{Const, Inst, MatrixType, Node, Operand, Type, TypeId, ValueId, ValueKind},
};

impl Builder {
    /// Appends an instruction that has a result of type `ty`, or gives the constant it folds to.
    pub fn inst(&mut self, op: Op, ty: TypeId, operands: Vec<Operand>, at: Location) -> ValueId {
        debug_assert_eq!(op.result(), OpResult::Typed);
        let operands = self.all_brought_in(operands);
        self.check_operands(&operands, at);
        match fold(&self.module, op, ty, &operands) {
            Folded::Const(constant) => return self.constant(constant),
            Folded::Value(value) => return value,
            Folded::Refused(code, message) => self.error(code, message, at),
            Folded::No => {}
        }
        let region = self.current();
        let result = self.value(ty, ValueKind::Inst, Some(region), at);
        // A matrix's elements go through the device's matrix unit, which contracts nothing across instructions.
        let no_contraction = is_float_arithmetic(op) && !matches!(self.module.ty(ty), Type::Matrix(_));
        let inst = Inst { op, result: Some(result), operands, no_contraction, at };
        self.node(Node::Inst(inst), at);
        result
    }

    /// Appends an instruction without a result.
    pub fn effect(&mut self, op: Op, operands: Vec<Operand>, at: Location) {
        debug_assert_eq!(op.result(), OpResult::None);
        let operands = self.all_brought_in(operands);
        self.check_operands(&operands, at);
        self.node(Node::Inst(Inst { op, result: None, operands, no_contraction: false, at }), at);
    }

    fn all_brought_in(&mut self, operands: Vec<Operand>) -> Vec<Operand> {
        let each = |operand| match operand {
            Operand::Value(value) => Operand::Value(self.brought_in(value)),
            other => other,
        };
        operands.into_iter().map(each).collect()
    }

    /// Appends a line to print; see [`Node::Print`].
    pub fn print(&mut self, text: String, values: Vec<ValueId>, at: Location) {
        let operands: Vec<Operand> = values.iter().copied().map(Operand::Value).collect();
        self.check_operands(&operands, at);
        self.node(Node::Print { text, values, at }, at);
    }

    /// A pointer into `base` by `indices`: constants pick struct members, any integer picks an array element.
    ///
    /// The result's type follows from the base's; an index that does not fit the type is an error at `at`.
    pub fn access_chain(&mut self, base: ValueId, indices: &[ValueId], at: Location) -> ValueId {
        let Type::Pointer { class, pointee } = *self.module.ty(self.type_of(base)) else {
            self.error("E010", "an access chain starts at a pointer; found a value".to_owned(), at);
            return base;
        };
        let mut ty = pointee;
        for &i in indices {
            ty = match self.module.ty(ty).clone() {
                Type::Array { elem, .. } | Type::RuntimeArray { elem, .. } => elem,
                Type::Vector { elem, .. } => self.scalar(elem),
                Type::Matrix(MatrixType { elem, .. }) if elem.dtype().is_some() => {
                    self.scalar(elem.dtype().unwrap_or(DType::F32))
                }
                Type::Struct { members, .. } => {
                    let member = match self.as_const(i) {
                        Some(Const::Scalar { bits, .. }) => members.get(*bits as usize),
                        _ => None,
                    };
                    let Some(member) = member else {
                        self.error("E011", "a struct member is picked by a constant in range".to_owned(), at);
                        return base;
                    };
                    member.ty
                }
                Type::Scalar(_)
                | Type::Pointer { .. }
                | Type::Matrix(_)
                | Type::TensorLayout { .. }
                | Type::TensorView { .. } => {
                    self.error("E012", "only arrays, vectors and structs are indexed".to_owned(), at);
                    return base;
                }
            };
        }
        let pointer = self.ty(Type::Pointer { class, pointee: ty });
        let operands = std::iter::once(base).chain(indices.iter().copied()).map(Operand::Value).collect();
        self.inst(Op::AccessChain, pointer, operands, at)
    }

    /// Loads from a pointer.
    pub fn load(&mut self, pointer: ValueId, at: Location) -> ValueId {
        let ty = match self.module.ty(self.type_of(pointer)) {
            Type::Pointer { pointee, .. } => *pointee,
            _ => {
                self.error("E013", "a load needs a pointer".to_owned(), at);
                return pointer;
            }
        };
        self.inst(Op::Load, ty, vec![Operand::Value(pointer)], at)
    }

    /// Stores to a pointer.
    pub fn store(&mut self, pointer: ValueId, value: ValueId, at: Location) {
        self.effect(Op::Store, vec![Operand::Value(pointer), Operand::Value(value)], at);
    }
}

/// Float operations that a driver could fuse: kernels say `fma` where they mean it.
fn is_float_arithmetic(op: Op) -> bool {
    matches!(op, Op::FAdd | Op::FSub | Op::FMul | Op::VectorTimesScalar | Op::Dot)
}
