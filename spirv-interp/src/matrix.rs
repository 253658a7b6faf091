//! Matrix instructions as a decoded program holds them: types, registers, places and operations.
//!
//! A matrix value is one register of its scope's file, dense and row-major, whatever lane would hold which element. A
//! tensor layout or view is a run of ordinary u32 slots, in the order that [`LayoutSlots`] and [`ViewSlots`] name.

use kiln_abi::spirv::{ClampMode, MatrixUse};

use crate::{
    number::Number,
    program::{Kind, Slot},
};

/// A register of a matrix file.
pub(crate) type Reg = u32;

/// Who shares a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Sharing {
    Subgroup,
    Workgroup,
}

/// A cooperative matrix type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    pub(crate) elem: Number,
    pub(crate) sharing: Sharing,
    pub(crate) rows: u32,
    pub(crate) cols: u32,
    pub(crate) usage: MatrixUse,
}

impl Shape {
    pub(crate) const fn len(&self) -> usize {
        self.rows as usize * self.cols as usize
    }

    /// Whether the two have the same extents and scope.
    pub(crate) fn fits(&self, other: &Shape) -> bool {
        self.rows == other.rows && self.cols == other.cols && self.sharing == other.sharing
    }
}

/// A matrix register or an element of a run of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) first: Reg,
    /// Per-lane offset in registers, by the chain beside it.
    pub(crate) dynamic: Option<Slot>,
    pub(crate) chain: Option<u32>,
}

/// Dimensions of the largest tensor.
pub(crate) const MAX_DIM: usize = 5;

/// Where the parts of a tensor layout stand in its run of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LayoutSlots {
    pub(crate) dim: u32,
}

impl LayoutSlots {
    pub(crate) const fn count(self) -> u32 {
        5 * self.dim + 1
    }

    pub(crate) const fn block(self, i: u32) -> usize {
        i as usize
    }

    pub(crate) const fn dimension(self, i: u32) -> usize {
        (self.dim + i) as usize
    }

    pub(crate) const fn stride(self, i: u32) -> usize {
        (2 * self.dim + i) as usize
    }

    pub(crate) const fn offset(self, i: u32) -> usize {
        (3 * self.dim + i) as usize
    }

    pub(crate) const fn span(self, i: u32) -> usize {
        (4 * self.dim + i) as usize
    }

    pub(crate) const fn clamp_value(self) -> usize {
        (5 * self.dim) as usize
    }
}

/// Where the parts of a tensor view stand in its run of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ViewSlots {
    pub(crate) dim: u32,
}

impl ViewSlots {
    pub(crate) const fn count(self) -> u32 {
        2 * self.dim + 4
    }

    pub(crate) const fn dimension(self, i: u32) -> usize {
        i as usize
    }

    pub(crate) const fn stride(self, i: u32) -> usize {
        (self.dim + i) as usize
    }

    /// Row offset, row span, column offset, column span.
    pub(crate) const fn clip(self, i: u32) -> usize {
        (2 * self.dim + i) as usize
    }
}

/// A tensor view type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ViewType {
    pub(crate) dim: u32,
    pub(crate) has_dimensions: bool,
    pub(crate) permutation: [u32; MAX_DIM],
}

/// A tensor layout's slots with what its type says.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) dim: u32,
    pub(crate) clamp: ClampMode,
    pub(crate) slots: Vec<Slot>,
}

/// A tensor view's slots with what its type says.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) ty: ViewType,
    pub(crate) slots: Vec<Slot>,
}

/// A function that a matrix instruction calls: code that ends in a return, with slots for what goes in and out.
#[derive(Clone, Debug)]
pub(crate) struct Callback {
    pub(crate) entry: u32,
    /// One run of slots per parameter that is no pointer to a variable.
    pub(crate) params: Vec<Vec<Slot>>,
    pub(crate) result: Vec<Slot>,
}

/// A function that decodes elements of a block.
#[derive(Clone, Debug)]
pub(crate) struct Decoder {
    /// Its parameters: the block's byte offset, the block's coordinates, the coordinates in the block.
    pub(crate) call: Callback,
    /// Bytes from one block to the next.
    pub(crate) block_bytes: u32,
}

/// Memory that a matrix is loaded from or stored to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    /// Index into the program's accesses; its bytes are those of a matrix element.
    pub(crate) access: u32,
    pub(crate) workgroup: bool,
    /// Bytes of the scalars that workgroup memory is declared with.
    pub(crate) scalar_bytes: u32,
    /// Scalar of workgroup memory at which the variable ends.
    pub(crate) end: u32,
}

/// The rows or columns of a matrix in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lines {
    pub(crate) column_major: bool,
    /// Distance of the lines, in steps of `step_bytes`.
    pub(crate) stride: Slot,
    pub(crate) step_bytes: u32,
}

/// How a matrix lies in a tensor.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) layout: Layout,
    pub(crate) view: Option<View>,
}

/// A product's options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signs {
    pub(crate) a: bool,
    pub(crate) b: bool,
    pub(crate) c: bool,
    pub(crate) result: bool,
    pub(crate) saturate: bool,
}

/// What a reduction combines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reduction {
    Row,
    Column,
    All,
    Square,
}

/// An operand that a per-element function gets beside the element.
#[derive(Clone, Debug)]
pub(crate) enum Extra {
    Scalars(Vec<Slot>),
    Matrix(Reg),
}

/// A matrix instruction.
#[derive(Clone, Debug)]
pub(crate) enum MatrixOp {
    Undefine {
        first: Reg,
        n: u32,
    },
    Fill {
        dst: Reg,
        value: Slot,
    },
    Copy {
        dst: Reg,
        from: Place,
    },
    Store {
        to: Place,
        src: Reg,
    },
    Select {
        dst: Reg,
        condition: Slot,
        yes: Reg,
        no: Reg,
    },
    Length {
        dst: Slot,
        shape: Shape,
    },
    Extract {
        dst: Slot,
        src: Reg,
        index: u32,
    },
    Insert {
        dst: Reg,
        src: Reg,
        object: Slot,
        index: u32,
    },
    LoadElement {
        dst: Slot,
        from: Place,
        index: Slot,
    },
    StoreElement {
        to: Place,
        index: Slot,
        value: Slot,
    },
    /// `kind` over the elements of a, and of b where there is one; `ty` is the operands' type.
    Elementwise {
        dst: Reg,
        kind: Kind,
        ty: Number,
        a: Reg,
        b: Option<Reg>,
    },
    Scale {
        dst: Reg,
        kind: Kind,
        ty: Number,
        a: Reg,
        factor: Slot,
    },
    MulAdd {
        dst: Reg,
        a: Reg,
        b: Reg,
        c: Reg,
        signs: Signs,
    },
    Load {
        dst: Reg,
        from: Source,
        lines: Lines,
    },
    StoreLines {
        to: Source,
        lines: Lines,
        src: Reg,
    },
    /// The elements that the view clips are those of `old`.
    LoadTensor {
        dst: Reg,
        old: Reg,
        from: Source,
        tensor: Tensor,
        decode: Option<Decoder>,
        decode_vector: Option<Decoder>,
    },
    StoreTensor {
        to: Source,
        tensor: Tensor,
        src: Reg,
    },
    Reduce {
        dst: Reg,
        src: Reg,
        reduction: Reduction,
        combine: Callback,
    },
    PerElement {
        dst: Reg,
        src: Reg,
        call: Callback,
        extras: Vec<Extra>,
    },
    Transpose {
        dst: Reg,
        src: Reg,
    },
}

/// A matrix instruction with who executes it together.
#[derive(Clone, Debug)]
pub(crate) struct MatrixInst {
    pub(crate) op: MatrixOp,
    pub(crate) sharing: Sharing,
}

impl MatrixOp {
    /// Whether each lane may execute it for itself; all others need every invocation of the scope.
    pub(crate) const fn is_alone(&self) -> bool {
        matches!(self, MatrixOp::Length { .. } | MatrixOp::LoadElement { .. } | MatrixOp::StoreElement { .. })
    }

    /// Whether it stores to memory that invocations share.
    pub(crate) const fn stores(&self) -> bool {
        matches!(self, MatrixOp::StoreLines { .. } | MatrixOp::StoreTensor { .. })
    }
}
