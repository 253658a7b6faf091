//! Enumerants and masks of the instructions we emit.

macro_rules! enumerants {
    ($(#[$doc:meta])* $enum:ident { $($(#[$vdoc:meta])* $name:ident = $value:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u32)]
        pub enum $enum { $($(#[$vdoc])* $name = $value,)* }

        impl $enum {
            /// The enumerant with this number.
            pub const fn from_number(n: u32) -> Option<Self> {
                match n { $($value => Some($enum::$name),)* _ => None }
            }

            /// SPIR-V's number.
            pub const fn number(self) -> u32 { self as u32 }

            /// SPIR-V's name.
            pub const fn name(self) -> &'static str {
                match self { $($enum::$name => stringify!($name),)* }
            }
        }
    };
}

enumerants! {
    /// Where a variable lives.
    StorageClass {
        /// Shader inputs: builtins.
        Input = 1,
        /// Memory that the workgroup shares.
        Workgroup = 4,
        /// An invocation's own memory, module scope.
        Private = 6,
        /// A function's local variables.
        Function = 7,
        /// The push-constant block.
        PushConstant = 9,
        /// Storage buffers.
        StorageBuffer = 12,
        /// Memory behind an address.
        PhysicalStorageBuffer = 5349,
    }
}

enumerants! {
    /// How an id is decorated.
    Decoration {
        /// The struct is a buffer's or push-constant block's interface.
        Block = 2,
        /// Bytes between array elements.
        ArrayStride = 6,
        /// The id is a builtin.
        BuiltIn = 11,
        /// No other variable reaches the memory.
        Restrict = 19,
        /// Another variable may reach the memory.
        Aliased = 20,
        /// No store reaches the memory.
        NonWritable = 24,
        /// No load reaches the memory.
        NonReadable = 25,
        /// Descriptor binding number.
        Binding = 33,
        /// Descriptor set number.
        DescriptorSet = 34,
        /// Byte offset of a member.
        Offset = 35,
        /// The result must not be contracted into a fused operation.
        NoContraction = 42,
        /// A pointer variable or parameter whose target no other pointer reaches.
        RestrictPointer = 5355,
        /// A pointer variable or parameter whose target another pointer may reach.
        AliasedPointer = 5356,
    }
}

enumerants! {
    /// Shader inputs of a compute kernel.
    BuiltIn {
        /// Workgroup counts.
        NumWorkgroups = 24,
        /// Workgroup index, three components.
        WorkgroupId = 26,
        /// Index within the workgroup, three components.
        LocalInvocationId = 27,
        /// Index within the dispatch, three components.
        GlobalInvocationId = 28,
        /// Flat index within the workgroup.
        LocalInvocationIndex = 29,
        /// Invocations per subgroup.
        SubgroupSize = 36,
        /// Subgroups per workgroup.
        NumSubgroups = 38,
        /// Subgroup index within the workgroup.
        SubgroupId = 40,
        /// Lane: index within the subgroup.
        SubgroupLocalInvocationId = 41,
    }
}

enumerants! {
    /// Execution modes of the entry point.
    ExecutionMode {
        /// Workgroup size as literals.
        LocalSize = 17,
    }
}

enumerants! {
    /// Scope of a barrier, an atomic or a subgroup operation.
    Scope {
        /// The whole device.
        Device = 1,
        /// The workgroup.
        Workgroup = 2,
        /// The subgroup.
        Subgroup = 3,
        /// The invocation.
        Invocation = 4,
        /// The queue family.
        QueueFamily = 5,
    }
}

enumerants! {
    /// What a subgroup arithmetic operation computes.
    GroupOperation {
        /// One value of all lanes.
        Reduce = 0,
        /// Prefix including the lane's own value.
        InclusiveScan = 1,
        /// Prefix without the lane's own value.
        ExclusiveScan = 2,
    }
}

enumerants! {
    /// Instructions of the `GLSL.std.450` extended set.
    GlslOp {
        /// Nearest integer, ties to even.
        RoundEven = 2,
        /// Toward zero.
        Trunc = 3,
        /// Absolute value of a float.
        FAbs = 4,
        /// Absolute value of a signed integer.
        SAbs = 5,
        /// Sign of a float.
        FSign = 6,
        /// Toward minus infinity.
        Floor = 8,
        /// Toward plus infinity.
        Ceil = 9,
        /// Fractional part.
        Fract = 10,
        /// Sine, radians.
        Sin = 13,
        /// Cosine, radians.
        Cos = 14,
        /// Hyperbolic tangent.
        Tanh = 21,
        /// Power.
        Pow = 26,
        /// e to the x.
        Exp = 27,
        /// Natural logarithm.
        Log = 28,
        /// Two to the x.
        Exp2 = 29,
        /// Logarithm to base two.
        Log2 = 30,
        /// Square root.
        Sqrt = 31,
        /// One over the square root.
        InverseSqrt = 32,
        /// Smaller of two floats.
        FMin = 37,
        /// Smaller of two unsigned integers.
        UMin = 38,
        /// Smaller of two signed integers.
        SMin = 39,
        /// Larger of two floats.
        FMax = 40,
        /// Larger of two unsigned integers.
        UMax = 41,
        /// Larger of two signed integers.
        SMax = 42,
        /// Float limited to a range.
        FClamp = 43,
        /// Unsigned integer limited to a range.
        UClamp = 44,
        /// Signed integer limited to a range.
        SClamp = 45,
        /// a × b + c with one rounding.
        Fma = 50,
        /// Two f32 to one word of two f16.
        PackHalf2x16 = 58,
        /// One word of two f16 to two f32.
        UnpackHalf2x16 = 62,
        /// Index of the lowest set bit.
        FindILsb = 73,
        /// Index of the highest set bit of an unsigned integer.
        FindUMsb = 75,
    }
}

enumerants! {
    /// What a cooperative matrix is to a multiplication.
    MatrixUse {
        /// Left factor, rows × depth.
        MatrixAKHR = 0,
        /// Right factor, depth × columns.
        MatrixBKHR = 1,
        /// Sum, rows × columns.
        MatrixAccumulatorKHR = 2,
    }
}

enumerants! {
    /// How a cooperative matrix lies in memory.
    MatrixLayout {
        /// Rows one after another.
        RowMajorKHR = 0,
        /// Columns one after another.
        ColumnMajorKHR = 1,
    }
}

enumerants! {
    /// What a tensor layout gives outside its bounds.
    ClampMode {
        /// Nothing is promised.
        Undefined = 0,
        /// The layout's clamp value; a store drops the element.
        Constant = 1,
        /// The element at the edge.
        ClampToEdge = 2,
        /// The tensor again.
        Repeat = 3,
        /// The tensor again, each second time mirrored.
        RepeatMirrored = 4,
    }
}

enumerants! {
    /// How a float's bits are read where its width does not say.
    FloatEncoding {
        /// Eight exponent bits in sixteen.
        BFloat16KHR = 0,
    }
}

/// Operands of a cooperative multiply-add (a mask).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MatrixOperands(pub u32);

impl MatrixOperands {
    /// The left factor's integers are signed.
    pub const A_SIGNED: u32 = 0x1;
    /// The right factor's integers are signed.
    pub const B_SIGNED: u32 = 0x2;
    /// The addend's integers are signed.
    pub const C_SIGNED: u32 = 0x4;
    /// The result's integers are signed.
    pub const RESULT_SIGNED: u32 = 0x8;
    /// Sums stay at the ends of the range.
    pub const SATURATING: u32 = 0x10;
}

/// What a cooperative-matrix reduction runs over (a mask).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MatrixReduce(pub u32);

impl MatrixReduce {
    /// Each row; its elements become one value, in every column of the result.
    pub const ROW: u32 = 0x1;
    /// Each column.
    pub const COLUMN: u32 = 0x2;
    /// Each square of two by two; the result is half as high and half as wide.
    pub const SQUARE: u32 = 0x4;
}

/// Operands of a tensor load or store (a mask, then an id for each bit, lowest first).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TensorOperands(pub u32);

impl TensorOperands {
    /// A tensor view.
    pub const VIEW: u32 = 0x1;
    /// A function that decodes one element.
    pub const DECODE: u32 = 0x2;
    /// A function that decodes neighbours of one row.
    pub const DECODE_VECTOR: u32 = 0x4;
}

/// Memory operands of a load or store (a mask).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoryOperands(pub u32);

impl MemoryOperands {
    /// An alignment literal follows.
    pub const ALIGNED: u32 = 0x2;
    /// A scope id follows: the store is made available.
    pub const MAKE_AVAILABLE: u32 = 0x8;
    /// A scope id follows: the load sees what is available.
    pub const MAKE_VISIBLE: u32 = 0x10;
    /// The access takes part in inter-invocation ordering.
    pub const NON_PRIVATE: u32 = 0x20;
}

/// Memory semantics of a barrier or atomic (a mask).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemorySemantics(pub u32);

impl MemorySemantics {
    /// Acquire.
    pub const ACQUIRE: u32 = 0x2;
    /// Release.
    pub const RELEASE: u32 = 0x4;
    /// Acquire and release.
    pub const ACQUIRE_RELEASE: u32 = 0x8;
    /// Storage buffers take part.
    pub const UNIFORM_MEMORY: u32 = 0x40;
    /// Workgroup memory takes part.
    pub const WORKGROUP_MEMORY: u32 = 0x100;
    /// Earlier stores are made available.
    pub const MAKE_AVAILABLE: u32 = 0x2000;
    /// Later loads see what is available.
    pub const MAKE_VISIBLE: u32 = 0x4000;
}
