//! Types, constants and variables: each is declared where it is first needed, once.

use kiln_abi::{
    DType,
    spirv::{Decoration, FloatEncoding, Op, StorageClass},
};

use super::{
    Writer,
    section::{id, string, word},
};
use crate::ir::{Const, Global, GlobalKind, MatrixType, Type, TypeId, ValueId, ValueKind};

/// What a pooled declaration is: its op, its type's id (0 for types) and its words.
pub(super) type PoolKey = (Op, u32, Vec<u32>);

impl Writer<'_> {
    /// A declaration that SPIR-V wants only once: a non-aggregate type or a constant.
    fn pooled(&mut self, op: Op, ty: u32, ids_and_words: &[u32]) -> u32 {
        let key = (op, ty, ids_and_words.to_vec());
        if let Some(&id) = self.pool.get(&key) {
            return id;
        }
        let result = self.fresh();
        self.declarations.push(op, ty, result, ids_and_words.iter().map(|&w| word(w)).collect(), None);
        self.pool.insert(key, result);
        result
    }

    pub(super) fn void(&mut self) -> u32 {
        self.pooled(Op::TypeVoid, 0, &[])
    }

    pub(super) fn function_type(&mut self) -> u32 {
        let void = self.void();
        self.pooled(Op::TypeFunction, 0, &[void])
    }

    /// The type of a callee.
    pub(super) fn callee_type(&mut self, result: u32, params: &[u32]) -> u32 {
        self.pooled(Op::TypeFunction, 0, &[&[result], params].concat())
    }

    pub(super) fn scalar(&mut self, dtype: DType) -> u32 {
        let bits = dtype.bytes() * 8;
        match dtype {
            DType::Bool => self.pooled(Op::TypeBool, 0, &[]),
            DType::F16 | DType::F32 => self.pooled(Op::TypeFloat, 0, &[bits]),
            DType::I8 | DType::U8 | DType::I16 | DType::U16 | DType::I32 | DType::U32 => {
                self.pooled(Op::TypeInt, 0, &[bits, u32::from(dtype.is_signed())])
            }
        }
    }

    /// A 32-bit unsigned constant.
    pub(super) fn u32(&mut self, value: u32) -> u32 {
        let ty = self.scalar(DType::U32);
        self.pooled(Op::Constant, ty, &[value])
    }

    /// The id of a type.
    pub(super) fn ty(&mut self, ty: TypeId) -> u32 {
        let known = self.types[ty.0 as usize];
        if known != 0 {
            return known;
        }
        let made = match self.module.ty(ty) {
            Type::Scalar(dtype) => self.scalar(*dtype),
            Type::Vector { elem, n } => {
                let elem = self.scalar(*elem);
                self.pooled(Op::TypeVector, 0, &[elem, u32::from(*n)])
            }
            Type::Pointer { class, pointee } => {
                let pointee = self.ty(*pointee);
                self.pooled(Op::TypePointer, 0, &[class.number(), pointee])
            }
            Type::Matrix(m) => self.matrix(m),
            Type::TensorLayout { rank, clamp } => {
                let operands = [self.u32(*rank), self.u32(clamp.number())];
                self.pooled(Op::TypeTensorLayoutNV, 0, &operands)
            }
            Type::TensorView { permutation, has_dimensions } => {
                let rank = u32::try_from(permutation.len()).unwrap_or(u32::MAX);
                let bool_ = self.scalar(DType::Bool);
                let constant = if *has_dimensions { Op::ConstantTrue } else { Op::ConstantFalse };
                let mut operands = vec![self.u32(rank), self.pooled(constant, bool_, &[])];
                operands.extend(permutation.iter().map(|&d| self.u32(d)));
                self.pooled(Op::TypeTensorViewNV, 0, &operands)
            }
            Type::Array { elem, len, stride } => {
                let operands = vec![id(self.ty(*elem)), id(self.u32(*len))];
                self.aggregate(Op::TypeArray, operands, *stride)
            }
            Type::RuntimeArray { elem, stride } => {
                let operands = vec![id(self.ty(*elem))];
                self.aggregate(Op::TypeRuntimeArray, operands, Some(*stride))
            }
            Type::Struct { members, block, .. } => {
                let operands = members.iter().map(|m| id(self.ty(m.ty))).collect();
                let result = self.aggregate(Op::TypeStruct, operands, None);
                for (i, member) in (0u32..).zip(members) {
                    if let Some(offset) = member.offset {
                        let operands =
                            vec![id(result), word(i), word(Decoration::Offset.number()), word(offset)];
                        self.annotations.push(Op::MemberDecorate, 0, 0, operands, None);
                    }
                }
                if *block {
                    self.decorate(result, Decoration::Block, &[]);
                }
                result
            }
        };
        self.types[ty.0 as usize] = made;
        made
    }

    fn matrix(&mut self, m: &MatrixType) -> u32 {
        let elem = match m.elem.dtype() {
            Some(dtype) => self.scalar(dtype),
            None => self.pooled(Op::TypeFloat, 0, &[16, FloatEncoding::BFloat16KHR.number()]),
        };
        let rest = [m.scope.number(), m.rows, m.cols, m.of.number()].map(|n| self.u32(n));
        let operands = [elem, rest[0], rest[1], rest[2], rest[3]];
        self.pooled(Op::TypeCooperativeMatrixKHR, 0, &operands)
    }

    fn aggregate(&mut self, op: Op, operands: Vec<rspirv::dr::Operand>, stride: Option<u32>) -> u32 {
        let result = self.fresh();
        self.declarations.push(op, 0, result, operands, None);
        if let Some(stride) = stride {
            self.decorate(result, Decoration::ArrayStride, &[stride]);
        }
        result
    }

    /// The id of a value; a constant is declared when it is first asked for.
    pub(super) fn value(&mut self, value: ValueId) -> u32 {
        let known = self.values[value.0 as usize];
        if known != 0 {
            return known;
        }
        let v = self.module.value(value);
        let made = match &v.kind {
            ValueKind::Const(constant) => {
                let ty = self.ty(v.ty);
                match constant {
                    Const::Bool(true) => self.pooled(Op::ConstantTrue, ty, &[]),
                    Const::Bool(false) => self.pooled(Op::ConstantFalse, ty, &[]),
                    Const::Scalar { bits, .. } => self.pooled(Op::Constant, ty, &[*bits]),
                    Const::Null(_) => self.pooled(Op::ConstantNull, ty, &[]),
                    Const::Composite { parts, .. } => {
                        let parts: Vec<u32> = parts.iter().map(|&p| self.value(p)).collect();
                        self.pooled(Op::ConstantComposite, ty, &parts)
                    }
                }
            }
            ValueKind::Global(_) | ValueKind::Local(_) | ValueKind::Param | ValueKind::Inst => self.fresh(),
        };
        self.values[value.0 as usize] = made;
        made
    }

    /// Declares a module-scope variable with its decorations.
    ///
    /// Buffers are `Restrict`: a launch is refused when a written range overlaps another argument's, so no store
    /// through one buffer is ever seen through another. A binding with views, which is only read, is `Aliased`.
    pub(super) fn global(&mut self, index: usize, global: &Global) {
        let ty = self.ty(self.module.value(global.value).ty);
        let variable = self.value(global.value);
        self.declarations.push(
            Op::Variable,
            ty,
            variable,
            vec![word(global.class.number())],
            Some(global.at),
        );
        match &global.kind {
            GlobalKind::Buffer { binding, .. } => {
                self.decorate(variable, Decoration::DescriptorSet, &[0]);
                self.decorate(variable, Decoration::Binding, &[*binding]);
                let shared = self.module.globals.iter().any(
                    |g| matches!(g.kind, GlobalKind::Buffer { binding: b, view: true, .. } if b == *binding),
                );
                let aliasing = if shared { Decoration::Aliased } else { Decoration::Restrict };
                self.decorate(variable, aliasing, &[]);
                if !self.touched[index].stores {
                    self.decorate(variable, Decoration::NonWritable, &[]);
                }
                if self.touched[index].stores && !self.touched[index].loads {
                    self.decorate(variable, Decoration::NonReadable, &[]);
                }
            }
            GlobalKind::BuiltIn(builtin) => {
                self.decorate(variable, Decoration::BuiltIn, &[builtin.number()]);
            }
            GlobalKind::Push { .. } | GlobalKind::Workgroup => {}
        }
        if global.class != StorageClass::Input {
            self.names.push(Op::Name, 0, 0, vec![id(variable), string(&global.name)], None);
        }
    }

    /// Decorates an id.
    pub(super) fn decorate(&mut self, target: u32, decoration: Decoration, literals: &[u32]) {
        let mut operands = vec![id(target), word(decoration.number())];
        operands.extend(literals.iter().map(|&l| word(l)));
        self.annotations.push(Op::Decorate, 0, 0, operands, None);
    }
}
