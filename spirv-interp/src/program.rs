//! The compact program that a module decodes to: scalar instructions over slots, laid out in structured order.
//!
//! Vectors and composites are already split, calls are inlined, pointers are resolved to their variable: what is left
//! is straight code with jumps. An instruction's position is also its rank for reconvergence, since a merge block
//! stands behind every block of its construct.

use std::collections::HashMap;

use kiln_abi::spirv::{BuiltIn, GroupOperation, MemorySemantics, Scope};

use crate::{
    matrix::{MatrixInst, Reg, Shape},
    number::Number,
};

/// One row of lanes in the register file.
pub(crate) type Slot = u32;

/// One-operand arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Un {
    SNegate,
    FNegate,
    Not,
    LogicalNot,
    BitReverse,
    BitCount,
    IsNan,
    IsInf,
    FindILsb,
    FindUMsb,
    FAbs,
    SAbs,
    FSign,
    RoundEven,
    Trunc,
    Floor,
    Ceil,
    Fract,
    Sin,
    Cos,
    Tanh,
    Exp,
    Log,
    Exp2,
    Log2,
    Sqrt,
    InverseSqrt,
    UnpackLow,
    UnpackHigh,
}

/// Two-operand arithmetic, comparison and logic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bin {
    IAdd,
    ISub,
    IMul,
    MulLow,
    MulHigh,
    UDiv,
    SDiv,
    UMod,
    SRem,
    UMin,
    UMax,
    SMin,
    SMax,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
    ShiftRightSigned,
    IEqual,
    INotEqual,
    UGreater,
    UGreaterEqual,
    ULess,
    ULessEqual,
    SGreater,
    SGreaterEqual,
    SLess,
    SLessEqual,
    SDot,
    UDot,
    SUDot,
    FAdd,
    FSub,
    FMul,
    FDiv,
    FRem,
    FMin,
    FMax,
    Pow,
    FEqual,
    FNotEqual,
    FLess,
    FGreater,
    FLessEqual,
    FGreaterEqual,
    PackHalf,
}

/// Three-operand arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tri {
    Select,
    Fma,
    FClamp,
    UClamp,
    SClamp,
}

/// Conversions between scalar types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conv {
    FToU,
    FToS,
    SToF,
    UToF,
    UToU,
    SToS,
    FToF,
}

/// Exchanges among the lanes of a subgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exchange {
    Elect,
    All,
    Any,
    Broadcast,
    BroadcastFirst,
    Ballot,
    Shuffle,
    ShuffleXor,
    ShuffleUp,
    ShuffleDown,
    Combine(Bin, GroupOperation),
}

/// What an atomic instruction does to its scalar; all but a store give what was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Atomic {
    Load,
    Store,
    Exchange,
    /// Stores a where b was.
    CompareExchange,
    Combine(Bin),
}

/// A line to print: texts around and between scalars.
#[derive(Clone, Debug)]
pub(crate) struct Print {
    pub(crate) texts: Vec<String>,
    pub(crate) values: Vec<(Slot, Number)>,
}

/// What an instruction does; the comment names its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// dst ← a
    Mov,
    /// dst ← variable a
    LoadSlot,
    /// variable dst ← a
    StoreSlot,
    /// slots dst..dst+a lose their content
    Undefine,
    /// dst ← offset of chain a
    Chain,
    /// dst ← slot a + offset b, by chain c
    LoadIndexed,
    /// slot dst + offset b ← a, by chain c
    StoreIndexed,
    /// dst ← access c
    LoadBuffer,
    /// access c ← a
    StoreBuffer,
    /// dst ← access c
    LoadWorkgroup,
    /// access c ← a
    StoreWorkgroup,
    /// dst ← access c, and access c ← what the operation makes of it with a and b
    AtomicBuffer(Atomic),
    /// As before, in workgroup memory
    AtomicWorkgroup(Atomic),
    /// dst ← access c
    LoadPush,
    /// dst ← elements of `a` bytes behind byte b of binding c
    ArrayLength,
    /// dst ← op a
    Un(Un),
    /// dst ← a op b
    Bin(Bin),
    /// dst ← op(a, b, c)
    Tri(Tri),
    /// dst ← a, from `ty` to the type given
    Convert(Conv, Number),
    /// dst ← bits of a from bit b on, as wide as `ty`
    Field,
    /// dst ← a | b << c
    Join,
    /// dst ← element a of pick list b
    Pick,
    /// to a
    Jump,
    /// to b where a holds, else to c
    Branch,
    Return,
    Unreachable,
    /// barrier a
    ControlBarrier,
    MemoryBarrier,
    /// print a
    Print,
    /// dst ← a, with b where there is a second operand
    Subgroup(Exchange),
    /// matrix instruction a
    Matrix,
}

/// One scalar instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inst {
    pub(crate) kind: Kind,
    /// Type of the operands.
    pub(crate) ty: Number,
    pub(crate) dst: Slot,
    pub(crate) a: u32,
    pub(crate) b: u32,
    pub(crate) c: u32,
    /// First word of the SPIR-V instruction.
    pub(crate) word: u32,
}

/// How many elements an indexed array has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Len {
    Fixed(u32),
    /// As many as the range behind byte `offset` of binding `binding` begins.
    Runtime {
        binding: u32,
        offset: u32,
    },
}

/// One dynamic index of an access chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dim {
    pub(crate) index: Slot,
    /// Bits to shift left and arithmetically back, for a narrow signed index.
    pub(crate) sign_shift: u32,
    pub(crate) stride: u32,
    pub(crate) len: Len,
}

/// The dynamic part of an access chain; its offset is in bytes for buffers, in scalars elsewhere.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    pub(crate) base: Option<Slot>,
    pub(crate) dims: Vec<Dim>,
}

/// One scalar load or store of shared memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    /// Index into [`Program::bindings`]; unused outside buffers.
    pub(crate) binding: u32,
    pub(crate) pointer: Option<Slot>,
    pub(crate) chain: Option<u32>,
    /// Constant part of the offset.
    pub(crate) offset: u32,
    pub(crate) bytes: u32,
    /// Takes no part in inter-invocation ordering.
    pub(crate) private: bool,
    /// Makes its store available to the workgroup or beyond.
    pub(crate) available: bool,
    /// Makes what is available visible to its load.
    pub(crate) visible: bool,
    /// What an atomic orders beside itself; of a compare-exchange when it stores, and when it does not.
    pub(crate) orders: [MemorySemantics; 2],
}

/// A control barrier's operands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Barrier {
    pub(crate) execution: Scope,
    pub(crate) memory: Scope,
    pub(crate) semantics: MemorySemantics,
}

/// A storage buffer as the module uses it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binding {
    pub(crate) number: u32,
    pub(crate) stored: bool,
    /// Bytes of the smallest scalar accessed.
    pub(crate) smallest: u32,
}

/// A decoded module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    pub(crate) local_size: [u32; 3],
    /// The module uses the Vulkan memory model; without it accesses and barriers order more by themselves.
    pub(crate) vulkan_model: bool,
    pub(crate) code: Vec<Inst>,
    pub(crate) chains: Vec<Chain>,
    pub(crate) accesses: Vec<Access>,
    pub(crate) barriers: Vec<Barrier>,
    pub(crate) picks: Vec<Vec<Slot>>,
    pub(crate) prints: Vec<Print>,
    pub(crate) bindings: Vec<Binding>,
    /// Slots that hold one value in every lane, always.
    pub(crate) constants: Vec<(Slot, u32)>,
    /// First slot and kind of each builtin.
    pub(crate) builtins: Vec<(BuiltIn, Slot)>,
    /// First slot and number of slots of the module's private variables.
    pub(crate) private: (Slot, u32),
    pub(crate) slots: u32,
    /// Scalars of workgroup memory.
    pub(crate) workgroup_scalars: u32,
    pub(crate) matrix_ops: Vec<MatrixInst>,
    /// The shape of each matrix register.
    pub(crate) registers: Vec<Shape>,
    /// Registers whose elements are one value, always; `None` is undefined.
    pub(crate) matrix_constants: Vec<(Reg, Option<u32>)>,
    /// First register and number of registers of the module's private matrices.
    pub(crate) private_matrices: Vec<(Reg, u32)>,
    /// Position of a loop's header → first word of its merge instruction.
    pub(crate) loops: HashMap<u32, u32>,
}
