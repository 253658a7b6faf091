//! Types of the IR, interned in order of first use.

use kiln_abi::{
    DType, MatrixElem,
    spirv::{ClampMode, MatrixUse, Scope, StorageClass},
};

/// An interned type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeId(pub u32);

/// A struct's member.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    /// Name.
    pub name: String,
    /// Type.
    pub ty: TypeId,
    /// Byte offset; `None` in a struct that never lies in a buffer.
    pub offset: Option<u32>,
}

/// A matrix that the invocations of a scope hold together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MatrixType {
    /// Element.
    pub elem: MatrixElem,
    /// Who holds it: a subgroup or a workgroup.
    pub scope: Scope,
    /// Rows.
    pub rows: u32,
    /// Columns.
    pub cols: u32,
    /// What it is to a multiplication.
    pub of: MatrixUse,
}

/// A type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Type {
    /// A scalar.
    Scalar(DType),
    /// 2 to 4 scalars.
    Vector {
        /// Scalar type.
        elem: DType,
        /// Components.
        n: u8,
    },
    /// A fixed array.
    Array {
        /// Element type.
        elem: TypeId,
        /// Elements, at least 1.
        len: u32,
        /// Bytes between elements; `None` outside buffers.
        stride: Option<u32>,
    },
    /// A buffer's array, its length known to the host only.
    RuntimeArray {
        /// Element type.
        elem: TypeId,
        /// Bytes between elements.
        stride: u32,
    },
    /// A struct.
    Struct {
        /// Name, for goldens and errors.
        name: String,
        /// Members.
        members: Vec<Member>,
        /// Decorated `Block`: a buffer's or push-constant interface.
        block: bool,
    },
    /// A pointer.
    Pointer {
        /// Storage class.
        class: StorageClass,
        /// What it points to.
        pointee: TypeId,
    },
    /// A cooperative matrix.
    Matrix(MatrixType),
    /// How a tensor lies in memory, and the slice of it that is meant.
    TensorLayout {
        /// Dimensions, 1 to 5.
        rank: u32,
        /// What is outside.
        clamp: ClampMode,
    },
    /// Another order of a layout's dimensions.
    TensorView {
        /// Which dimension of the view each dimension of the layout is.
        permutation: Vec<u32>,
        /// The view has dimensions of its own.
        has_dimensions: bool,
    },
}
