//! SPIR-V as data: THE op table and the enumerants we use.
//!
//! The writer, the disassembler, the census and the interpreter all read instructions through this one table.
//! Numbers are those of the SPIR-V specification 1.6 and its registered extensions.

pub mod capability;
pub mod enums;
pub mod ops;

pub use capability::Capability;
pub use enums::{
    BuiltIn, ClampMode, Decoration, ExecutionMode, FloatEncoding, GlslOp, GroupOperation, MatrixLayout,
    MatrixOperands, MatrixReduce, MatrixUse, MemoryOperands, MemorySemantics, Scope, StorageClass,
    TensorOperands,
};
pub use ops::{Effect, Op, OperandKind, Result as OpResult};

/// First word of every module.
pub const MAGIC: u32 = 0x0723_0203;
/// The version word we write: SPIR-V 1.6.
pub const VERSION_1_6: u32 = 0x0001_0600;
