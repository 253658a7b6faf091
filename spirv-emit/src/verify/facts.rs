//! What the rules ask of a module: its instructions, the shapes of their operands, types in words.

use kiln_abi::{
    DType, Location,
    spirv::{MatrixUse, Op},
};

use crate::ir::{Const, Inst, MatrixType, Module, Type, TypeId, ValueId, ValueKind};

/// A scalar (one lane) or vector type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) dtype: DType,
    pub(super) lanes: u8,
}

impl Shape {
    pub(super) const BOOL: Shape = Shape { dtype: DType::Bool, lanes: 1 };
    pub(super) const U32: Shape = Shape { dtype: DType::U32, lanes: 1 };
    pub(super) const I32: Shape = Shape { dtype: DType::I32, lanes: 1 };

    pub(super) fn is_int(self) -> bool {
        self.dtype.is_int()
    }

    pub(super) fn is_float(self) -> bool {
        self.dtype.is_float()
    }

    pub(super) fn is_unsigned(self) -> bool {
        self.is_int() && !self.dtype.is_signed()
    }

    pub(super) fn is_signed(self) -> bool {
        self.dtype.is_signed()
    }

    pub(super) fn bits(self) -> u32 {
        self.dtype.bytes() * 8
    }

    /// The same lanes of another scalar type.
    pub(super) fn of(self, dtype: DType) -> Shape {
        Shape { dtype, lanes: self.lanes }
    }
}

/// `MatA<f16, 16x16, Subgroup>`
fn matrix_name(m: &MatrixType) -> String {
    let of = match m.of {
        MatrixUse::MatrixAKHR => "MatA",
        MatrixUse::MatrixBKHR => "MatB",
        MatrixUse::MatrixAccumulatorKHR => "Acc",
    };
    format!("{of}<{}, {}x{}, {}>", m.elem, m.rows, m.cols, m.scope.name())
}

/// A module in order, with what the rules look up again and again.
pub(super) struct Facts<'m> {
    pub(super) module: &'m Module,
    pub(super) insts: Vec<&'m Inst>,
    /// For each value, the variable that it points into.
    pub(super) roots: Vec<Option<ValueId>>,
}

impl<'m> Facts<'m> {
    pub(super) fn new(module: &'m Module) -> Self {
        Facts { module, insts: module.insts(), roots: module.pointer_roots() }
    }

    /// Every instruction with one of these ops.
    pub(super) fn of<'a>(&'a self, ops: &'a [Op]) -> impl Iterator<Item = &'m Inst> + 'a {
        self.insts.iter().copied().filter(|i| ops.contains(&i.op))
    }

    pub(super) fn shape(&self, ty: TypeId) -> Option<Shape> {
        match *self.module.ty(ty) {
            Type::Scalar(dtype) => Some(Shape { dtype, lanes: 1 }),
            Type::Vector { elem, n } => Some(Shape { dtype: elem, lanes: n }),
            _ => None,
        }
    }

    pub(super) fn shape_of(&self, value: ValueId) -> Option<Shape> {
        self.shape(self.module.value(value).ty)
    }

    /// The shape of the value at an operand's position.
    pub(super) fn operand(&self, inst: &Inst, position: usize) -> Option<Shape> {
        self.shape_of(inst.value(position)?)
    }

    /// The shapes of all the instruction's values; `None` when one is neither scalar nor vector.
    pub(super) fn operands(&self, inst: &Inst) -> Option<Vec<Shape>> {
        (0..inst.operands.len()).filter_map(|i| inst.value(i)).map(|v| self.shape_of(v)).collect()
    }

    pub(super) fn result_type(&self, inst: &Inst) -> Option<TypeId> {
        Some(self.module.value(inst.result?).ty)
    }

    pub(super) fn result(&self, inst: &Inst) -> Option<Shape> {
        self.shape(self.result_type(inst)?)
    }

    /// The integer that a value always has.
    pub(super) fn constant(&self, value: ValueId) -> Option<u32> {
        match self.module.value(value).kind {
            ValueKind::Const(Const::Scalar { bits, .. }) => Some(bits),
            ValueKind::Const(Const::Null(_)) => Some(0),
            _ => None,
        }
    }

    /// The integers of a constant's lanes; empty for what is not constant.
    pub(super) fn constant_lanes(&self, value: ValueId) -> Vec<u32> {
        match &self.module.value(value).kind {
            ValueKind::Const(Const::Composite { parts, .. }) => {
                parts.iter().filter_map(|&p| self.constant(p)).collect()
            }
            _ => self.constant(value).into_iter().collect(),
        }
    }

    /// The matrix that a value is.
    pub(super) fn matrix(&self, value: ValueId) -> Option<MatrixType> {
        self.matrix_type(self.module.value(value).ty)
    }

    pub(super) fn matrix_type(&self, ty: TypeId) -> Option<MatrixType> {
        match *self.module.ty(ty) {
            Type::Matrix(m) => Some(m),
            _ => None,
        }
    }

    /// What a pointer points to.
    pub(super) fn pointee(&self, value: ValueId) -> Option<TypeId> {
        match *self.module.ty(self.module.value(value).ty) {
            Type::Pointer { pointee, .. } => Some(pointee),
            _ => None,
        }
    }

    /// A type in the language's words.
    pub(super) fn name(&self, ty: TypeId) -> String {
        match self.module.ty(ty) {
            Type::Scalar(d) => d.name().to_owned(),
            Type::Vector { elem, n } => format!("Vec{n}<{elem}>"),
            Type::Array { elem, len, .. } => format!("[{}; {len}]", self.name(*elem)),
            Type::RuntimeArray { elem, .. } => format!("[{}]", self.name(*elem)),
            Type::Struct { name, .. } => name.clone(),
            Type::Pointer { pointee, .. } => format!("&{}", self.name(*pointee)),
            Type::Matrix(m) => matrix_name(m),
            Type::TensorLayout { rank, clamp } => format!("TensorLayout<{rank}, {}>", clamp.name()),
            Type::TensorView { permutation, .. } => format!("TensorView<{permutation:?}>"),
        }
    }

    /// The instruction's operand and result types in words: `f32, u32 -> f32`.
    pub(super) fn signature(&self, inst: &Inst) -> String {
        let types = (0..inst.operands.len()).filter_map(|i| inst.value(i));
        let types: Vec<String> = types.map(|v| self.name(self.module.value(v).ty)).collect();
        match self.result_type(inst) {
            Some(ty) => format!("{} -> {}", types.join(", "), self.name(ty)),
            None => types.join(", "),
        }
    }

    /// A place for what has none of its own: the first variable's or instruction's.
    pub(super) fn somewhere(&self) -> Location {
        let global = self.module.globals.first().map(|g| g.at);
        global.or_else(|| self.insts.first().map(|i| i.at)).unwrap_or_else(Location::caller)
    }
}
