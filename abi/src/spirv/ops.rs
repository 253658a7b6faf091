//! THE op table: number, name, result, operands, effect and capability needs of every instruction we know.
//!
//! Adding a row makes the printer, the census and the validator's arity check know the instruction; the interpreter's
//! match over [`Op`] is exhaustive and stops compiling until it can run it.

use super::Capability;

/// What an instruction defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Result {
    /// Nothing.
    None,
    /// A result id.
    Id,
    /// A result type, then a result id.
    Typed,
}

/// How the words after type and result are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperandKind {
    /// One id.
    Id,
    /// Ids to the end of the instruction.
    Ids,
    /// One literal word.
    Literal,
    /// Literal words to the end.
    Literals,
    /// A nul-terminated UTF-8 string, padded to words.
    String,
    /// A literal whose width is the result type's.
    ContextLiteral,
    /// Memory operands, if any words are left: a mask, then the alignment literal and scope ids it calls for.
    OptMemory,
    /// A storage class.
    StorageClass,
    /// A decoration.
    Decoration,
    /// A capability.
    Capability,
    /// An execution mode.
    ExecutionMode,
    /// An id of a constant that holds a scope.
    Scope,
    /// An id of a constant that holds memory semantics.
    Semantics,
    /// A group operation.
    GroupOperation,
    /// An instruction of the `GLSL.std.450` set.
    GlslOp,
    /// A loop-control mask.
    LoopControl,
    /// A selection-control mask.
    SelectionControl,
    /// A packed-vector format (0: four 8-bit integers).
    PackedFormat,
    /// A float encoding, if a word is left.
    OptFloatEncoding,
    /// A multiply-add's matrix operands (a mask), if a word is left.
    OptMatrixOperands,
    /// What a matrix reduction runs over (a mask).
    MatrixReduce,
    /// Tensor operands: a mask, then an id for each of its bits.
    TensorOperands,
}

/// What executing an instruction can do; laziness and access masks are decided on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Not executed: a declaration.
    Declare,
    /// A value for every operand, nothing else.
    Pure,
    /// A value for some operands, undefined for others (division by zero, a shift past the width).
    Partial,
    /// Reads memory.
    Load,
    /// Writes memory.
    Store,
    /// Reads or writes memory as one step that others cannot come between.
    Atomic,
    /// Calls a function.
    Call,
    /// Orders invocations or memory.
    Barrier,
    /// Exchanges values among a subgroup's lanes.
    Subgroup,
    /// Moves control.
    Control,
}

macro_rules! ops {
    ($($name:ident = $number:literal, $result:ident, [$($operand:ident),*], $effect:ident, [$($cap:ident),*];)*) => {
        /// An instruction.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        #[allow(missing_docs)]
        pub enum Op { $($name = $number,)* }

        impl Op {
            /// Every row of the table, in its order.
            pub const ALL: &'static [Op] = &[$(Op::$name,)*];

            /// The instruction with this opcode.
            pub const fn from_number(n: u16) -> Option<Op> {
                match n { $($number => Some(Op::$name),)* _ => None }
            }

            /// SPIR-V's opcode.
            pub const fn number(self) -> u16 { self as u16 }

            /// SPIR-V's name, without `Op`.
            pub const fn name(self) -> &'static str {
                match self { $(Op::$name => stringify!($name),)* }
            }

            /// What the instruction defines.
            pub const fn result(self) -> Result {
                match self { $(Op::$name => Result::$result,)* }
            }

            /// How its operands are read.
            pub const fn operands(self) -> &'static [OperandKind] {
                match self { $(Op::$name => &[$(OperandKind::$operand),*],)* }
            }

            /// What executing it can do.
            pub const fn effect(self) -> Effect {
                match self { $(Op::$name => Effect::$effect,)* }
            }

            /// Capabilities the instruction itself needs; types and storage classes add theirs.
            pub const fn capabilities(self) -> &'static [Capability] {
                match self { $(Op::$name => &[$(Capability::$cap),*],)* }
            }
        }
    };
}

ops! {
    // Debug, annotation and module layout
    Name = 5, None, [Id, String], Declare, [];
    MemberName = 6, None, [Id, Literal, String], Declare, [];
    String = 7, Id, [String], Declare, [];
    Line = 8, None, [Id, Literal, Literal], Declare, [];
    Extension = 10, None, [String], Declare, [];
    ExtInstImport = 11, Id, [String], Declare, [];
    MemoryModel = 14, None, [Literal, Literal], Declare, [];
    EntryPoint = 15, None, [Literal, Id, String, Ids], Declare, [];
    ExecutionMode = 16, None, [Id, ExecutionMode, Literals], Declare, [];
    Capability = 17, None, [Capability], Declare, [];
    Decorate = 71, None, [Id, Decoration, Literals], Declare, [];
    MemberDecorate = 72, None, [Id, Literal, Decoration, Literals], Declare, [];
    // Types
    TypeVoid = 19, Id, [], Declare, [];
    TypeBool = 20, Id, [], Declare, [];
    TypeInt = 21, Id, [Literal, Literal], Declare, [];
    TypeFloat = 22, Id, [Literal, OptFloatEncoding], Declare, [];
    TypeVector = 23, Id, [Id, Literal], Declare, [];
    TypeArray = 28, Id, [Id, Id], Declare, [];
    TypeRuntimeArray = 29, Id, [Id], Declare, [];
    TypeStruct = 30, Id, [Ids], Declare, [];
    TypePointer = 32, Id, [StorageClass, Id], Declare, [];
    TypeFunction = 33, Id, [Id, Ids], Declare, [];
    // Constants
    Undef = 1, Typed, [], Declare, [];
    ConstantTrue = 41, Typed, [], Declare, [];
    ConstantFalse = 42, Typed, [], Declare, [];
    Constant = 43, Typed, [ContextLiteral], Declare, [];
    ConstantComposite = 44, Typed, [Ids], Declare, [];
    ConstantNull = 46, Typed, [], Declare, [];
    // Functions
    Function = 54, Typed, [Literal, Id], Declare, [];
    FunctionParameter = 55, Typed, [], Declare, [];
    FunctionEnd = 56, None, [], Declare, [];
    FunctionCall = 57, Typed, [Id, Ids], Call, [];
    // Memory
    Variable = 59, Typed, [StorageClass], Declare, [];
    Load = 61, Typed, [Id, OptMemory], Load, [];
    Store = 62, None, [Id, Id, OptMemory], Store, [];
    AccessChain = 65, Typed, [Id, Ids], Pure, [];
    ArrayLength = 68, Typed, [Id, Literal], Pure, [];
    // Composites
    VectorExtractDynamic = 77, Typed, [Id, Id], Partial, [];
    VectorShuffle = 79, Typed, [Id, Id, Literals], Pure, [];
    CompositeConstruct = 80, Typed, [Ids], Pure, [];
    CompositeExtract = 81, Typed, [Id, Literals], Pure, [];
    CompositeInsert = 82, Typed, [Id, Id, Literals], Pure, [];
    // Conversions
    ConvertFToU = 109, Typed, [Id], Pure, [];
    ConvertFToS = 110, Typed, [Id], Pure, [];
    ConvertSToF = 111, Typed, [Id], Pure, [];
    ConvertUToF = 112, Typed, [Id], Pure, [];
    UConvert = 113, Typed, [Id], Pure, [];
    SConvert = 114, Typed, [Id], Pure, [];
    FConvert = 115, Typed, [Id], Pure, [];
    Bitcast = 124, Typed, [Id], Pure, [];
    // Arithmetic
    SNegate = 126, Typed, [Id], Pure, [];
    FNegate = 127, Typed, [Id], Pure, [];
    IAdd = 128, Typed, [Id, Id], Pure, [];
    FAdd = 129, Typed, [Id, Id], Pure, [];
    ISub = 130, Typed, [Id, Id], Pure, [];
    FSub = 131, Typed, [Id, Id], Pure, [];
    IMul = 132, Typed, [Id, Id], Pure, [];
    FMul = 133, Typed, [Id, Id], Pure, [];
    UDiv = 134, Typed, [Id, Id], Partial, [];
    SDiv = 135, Typed, [Id, Id], Partial, [];
    FDiv = 136, Typed, [Id, Id], Pure, [];
    UMod = 137, Typed, [Id, Id], Partial, [];
    SRem = 138, Typed, [Id, Id], Partial, [];
    FRem = 140, Typed, [Id, Id], Pure, [];
    VectorTimesScalar = 142, Typed, [Id, Id], Pure, [];
    MatrixTimesScalar = 143, Typed, [Id, Id], Pure, [];
    Dot = 148, Typed, [Id, Id], Pure, [];
    UMulExtended = 151, Typed, [Id, Id], Pure, [];
    // Extended instructions
    ExtInst = 12, Typed, [Id, GlslOp, Ids], Pure, [];
    // Logic and comparison
    Any = 154, Typed, [Id], Pure, [];
    All = 155, Typed, [Id], Pure, [];
    IsNan = 156, Typed, [Id], Pure, [];
    IsInf = 157, Typed, [Id], Pure, [];
    LogicalEqual = 164, Typed, [Id, Id], Pure, [];
    LogicalNotEqual = 165, Typed, [Id, Id], Pure, [];
    LogicalOr = 166, Typed, [Id, Id], Pure, [];
    LogicalAnd = 167, Typed, [Id, Id], Pure, [];
    LogicalNot = 168, Typed, [Id], Pure, [];
    Select = 169, Typed, [Id, Id, Id], Pure, [];
    IEqual = 170, Typed, [Id, Id], Pure, [];
    INotEqual = 171, Typed, [Id, Id], Pure, [];
    UGreaterThan = 172, Typed, [Id, Id], Pure, [];
    SGreaterThan = 173, Typed, [Id, Id], Pure, [];
    UGreaterThanEqual = 174, Typed, [Id, Id], Pure, [];
    SGreaterThanEqual = 175, Typed, [Id, Id], Pure, [];
    ULessThan = 176, Typed, [Id, Id], Pure, [];
    SLessThan = 177, Typed, [Id, Id], Pure, [];
    ULessThanEqual = 178, Typed, [Id, Id], Pure, [];
    SLessThanEqual = 179, Typed, [Id, Id], Pure, [];
    FOrdEqual = 180, Typed, [Id, Id], Pure, [];
    FUnordNotEqual = 183, Typed, [Id, Id], Pure, [];
    FOrdLessThan = 184, Typed, [Id, Id], Pure, [];
    FOrdGreaterThan = 186, Typed, [Id, Id], Pure, [];
    FOrdLessThanEqual = 188, Typed, [Id, Id], Pure, [];
    FOrdGreaterThanEqual = 190, Typed, [Id, Id], Pure, [];
    // Bits
    ShiftRightLogical = 194, Typed, [Id, Id], Partial, [];
    ShiftRightArithmetic = 195, Typed, [Id, Id], Partial, [];
    ShiftLeftLogical = 196, Typed, [Id, Id], Partial, [];
    BitwiseOr = 197, Typed, [Id, Id], Pure, [];
    BitwiseXor = 198, Typed, [Id, Id], Pure, [];
    BitwiseAnd = 199, Typed, [Id, Id], Pure, [];
    Not = 200, Typed, [Id], Pure, [];
    BitReverse = 204, Typed, [Id], Pure, [];
    BitCount = 205, Typed, [Id], Pure, [];
    // Integer dot products
    SDot = 4450, Typed, [Id, Id, PackedFormat], Pure, [DotProduct, DotProductInput4x8BitPacked];
    UDot = 4451, Typed, [Id, Id, PackedFormat], Pure, [DotProduct, DotProductInput4x8BitPacked];
    SUDot = 4452, Typed, [Id, Id, PackedFormat], Pure, [DotProduct, DotProductInput4x8BitPacked];
    // Cooperative matrices. A load or store names its stride always, though the specification lets it be absent.
    TypeCooperativeMatrixKHR = 4456, Id, [Id, Scope, Id, Id, Id], Declare, [CooperativeMatrixKHR];
    CooperativeMatrixLoadKHR = 4457, Typed, [Id, Id, Id, OptMemory], Load, [CooperativeMatrixKHR];
    CooperativeMatrixStoreKHR = 4458, None, [Id, Id, Id, Id, OptMemory], Store, [CooperativeMatrixKHR];
    CooperativeMatrixMulAddKHR = 4459, Typed, [Id, Id, Id, OptMatrixOperands], Subgroup, [CooperativeMatrixKHR];
    CooperativeMatrixLengthKHR = 4460, Typed, [Id], Pure, [CooperativeMatrixKHR];
    CooperativeMatrixConvertNV = 5293, Typed, [Id], Subgroup, [CooperativeMatrixConversionsNV];
    CooperativeMatrixReduceNV = 5366, Typed, [Id, MatrixReduce, Id], Subgroup, [CooperativeMatrixReductionsNV];
    CooperativeMatrixLoadTensorNV = 5367, Typed, [Id, Id, Id, OptMemory, TensorOperands], Load, [CooperativeMatrixTensorAddressingNV];
    CooperativeMatrixStoreTensorNV = 5368, None, [Id, Id, Id, OptMemory, TensorOperands], Store, [CooperativeMatrixTensorAddressingNV];
    CooperativeMatrixPerElementOpNV = 5369, Typed, [Id, Id, Ids], Subgroup, [CooperativeMatrixPerElementOperationsNV];
    CooperativeMatrixTransposeNV = 5390, Typed, [Id], Subgroup, [CooperativeMatrixConversionsNV];
    // Tensor layouts and views
    TypeTensorLayoutNV = 5370, Id, [Id, Id], Declare, [TensorAddressingNV];
    TypeTensorViewNV = 5371, Id, [Id, Id, Ids], Declare, [TensorAddressingNV];
    CreateTensorLayoutNV = 5372, Typed, [], Pure, [TensorAddressingNV];
    TensorLayoutSetDimensionNV = 5373, Typed, [Id, Ids], Pure, [TensorAddressingNV];
    TensorLayoutSetStrideNV = 5374, Typed, [Id, Ids], Pure, [TensorAddressingNV];
    TensorLayoutSliceNV = 5375, Typed, [Id, Ids], Pure, [TensorAddressingNV];
    TensorLayoutSetClampValueNV = 5376, Typed, [Id, Id], Pure, [TensorAddressingNV];
    CreateTensorViewNV = 5377, Typed, [], Pure, [TensorAddressingNV];
    TensorViewSetDimensionNV = 5378, Typed, [Id, Ids], Pure, [TensorAddressingNV];
    TensorViewSetStrideNV = 5379, Typed, [Id, Ids], Pure, [TensorAddressingNV];
    TensorViewSetClipNV = 5382, Typed, [Id, Id, Id, Id, Id], Pure, [TensorAddressingNV];
    TensorLayoutSetBlockSizeNV = 5384, Typed, [Id, Ids], Pure, [TensorAddressingNV];
    // Barriers
    ControlBarrier = 224, None, [Scope, Scope, Semantics], Barrier, [];
    MemoryBarrier = 225, None, [Scope, Semantics], Barrier, [];
    // Atomics
    AtomicLoad = 227, Typed, [Id, Scope, Semantics], Atomic, [];
    AtomicStore = 228, None, [Id, Scope, Semantics, Id], Atomic, [];
    AtomicExchange = 229, Typed, [Id, Scope, Semantics, Id], Atomic, [];
    AtomicCompareExchange = 230, Typed, [Id, Scope, Semantics, Semantics, Id, Id], Atomic, [];
    AtomicIAdd = 234, Typed, [Id, Scope, Semantics, Id], Atomic, [];
    AtomicSMin = 236, Typed, [Id, Scope, Semantics, Id], Atomic, [];
    AtomicUMin = 237, Typed, [Id, Scope, Semantics, Id], Atomic, [];
    AtomicSMax = 238, Typed, [Id, Scope, Semantics, Id], Atomic, [];
    AtomicUMax = 239, Typed, [Id, Scope, Semantics, Id], Atomic, [];
    AtomicAnd = 240, Typed, [Id, Scope, Semantics, Id], Atomic, [];
    AtomicOr = 241, Typed, [Id, Scope, Semantics, Id], Atomic, [];
    AtomicXor = 242, Typed, [Id, Scope, Semantics, Id], Atomic, [];
    // Control flow
    Phi = 245, Typed, [Ids], Pure, [];
    LoopMerge = 246, None, [Id, Id, LoopControl], Control, [];
    SelectionMerge = 247, None, [Id, SelectionControl], Control, [];
    Label = 248, Id, [], Control, [];
    Branch = 249, None, [Id], Control, [];
    BranchConditional = 250, None, [Id, Id, Id], Control, [];
    Return = 253, None, [], Control, [];
    ReturnValue = 254, None, [Id], Control, [];
    Unreachable = 255, None, [], Control, [];
    // Subgroup operations
    GroupNonUniformElect = 333, Typed, [Scope], Subgroup, [GroupNonUniform];
    GroupNonUniformAll = 334, Typed, [Scope, Id], Subgroup, [GroupNonUniformVote];
    GroupNonUniformAny = 335, Typed, [Scope, Id], Subgroup, [GroupNonUniformVote];
    GroupNonUniformBroadcast = 337, Typed, [Scope, Id, Id], Subgroup, [GroupNonUniformBallot];
    GroupNonUniformBroadcastFirst = 338, Typed, [Scope, Id], Subgroup, [GroupNonUniformBallot];
    GroupNonUniformBallot = 339, Typed, [Scope, Id], Subgroup, [GroupNonUniformBallot];
    GroupNonUniformShuffle = 345, Typed, [Scope, Id, Id], Subgroup, [GroupNonUniformShuffle];
    GroupNonUniformShuffleXor = 346, Typed, [Scope, Id, Id], Subgroup, [GroupNonUniformShuffle];
    GroupNonUniformShuffleUp = 347, Typed, [Scope, Id, Id], Subgroup, [GroupNonUniformShuffleRelative];
    GroupNonUniformShuffleDown = 348, Typed, [Scope, Id, Id], Subgroup, [GroupNonUniformShuffleRelative];
    GroupNonUniformIAdd = 349, Typed, [Scope, GroupOperation, Id], Subgroup, [GroupNonUniformArithmetic];
    GroupNonUniformFAdd = 350, Typed, [Scope, GroupOperation, Id], Subgroup, [GroupNonUniformArithmetic];
    GroupNonUniformIMul = 351, Typed, [Scope, GroupOperation, Id], Subgroup, [GroupNonUniformArithmetic];
    GroupNonUniformFMul = 352, Typed, [Scope, GroupOperation, Id], Subgroup, [GroupNonUniformArithmetic];
    GroupNonUniformSMin = 353, Typed, [Scope, GroupOperation, Id], Subgroup, [GroupNonUniformArithmetic];
    GroupNonUniformUMin = 354, Typed, [Scope, GroupOperation, Id], Subgroup, [GroupNonUniformArithmetic];
    GroupNonUniformFMin = 355, Typed, [Scope, GroupOperation, Id], Subgroup, [GroupNonUniformArithmetic];
    GroupNonUniformSMax = 356, Typed, [Scope, GroupOperation, Id], Subgroup, [GroupNonUniformArithmetic];
    GroupNonUniformUMax = 357, Typed, [Scope, GroupOperation, Id], Subgroup, [GroupNonUniformArithmetic];
    GroupNonUniformFMax = 358, Typed, [Scope, GroupOperation, Id], Subgroup, [GroupNonUniformArithmetic];
    GroupNonUniformBitwiseAnd = 359, Typed, [Scope, GroupOperation, Id], Subgroup, [GroupNonUniformArithmetic];
    GroupNonUniformBitwiseOr = 360, Typed, [Scope, GroupOperation, Id], Subgroup, [GroupNonUniformArithmetic];
    GroupNonUniformBitwiseXor = 361, Typed, [Scope, GroupOperation, Id], Subgroup, [GroupNonUniformArithmetic];
}
