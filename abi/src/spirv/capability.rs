//! SPIR-V capabilities, each with the extension that declares it.

macro_rules! capabilities {
    ($($(#[$doc:meta])* $name:ident = $value:literal, $extension:expr;)*) => {
        /// A SPIR-V capability; a module declares it, a device has it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u32)]
        pub enum Capability { $($(#[$doc])* $name = $value,)* }

        impl Capability {
            /// Every capability of the table, ascending by number.
            pub const ALL: &'static [Capability] = &[$(Capability::$name,)*];

            /// The capability with this number.
            pub const fn from_number(n: u32) -> Option<Self> {
                match n { $($value => Some(Capability::$name),)* _ => None }
            }

            /// SPIR-V's number.
            pub const fn number(self) -> u32 { self as u32 }

            /// SPIR-V's name.
            pub const fn name(self) -> &'static str {
                match self { $(Capability::$name => stringify!($name),)* }
            }

            /// The extension a 1.6 module has to name for it, if any.
            pub const fn extension(self) -> Option<&'static str> {
                match self { $(Capability::$name => $extension,)* }
            }
        }
    };
}

capabilities! {
    /// Base of every compute module.
    Shader = 1, None;
    /// 16-bit floats in registers.
    Float16 = 9, None;
    /// 16-bit integers in registers.
    Int16 = 22, None;
    /// 8-bit integers in registers.
    Int8 = 39, None;
    /// Subgroup size and index.
    GroupNonUniform = 61, None;
    /// Subgroup any, all.
    GroupNonUniformVote = 62, None;
    /// Subgroup reductions and scans.
    GroupNonUniformArithmetic = 63, None;
    /// Subgroup broadcast and ballot.
    GroupNonUniformBallot = 64, None;
    /// Subgroup shuffle and xor shuffle.
    GroupNonUniformShuffle = 65, None;
    /// Subgroup up and down shuffle.
    GroupNonUniformShuffleRelative = 66, None;
    /// 16-bit elements in storage buffers.
    StorageBuffer16BitAccess = 4433, None;
    /// 8-bit elements in storage buffers.
    StorageBuffer8BitAccess = 4448, None;
    /// The bfloat16 type.
    BFloat16TypeKHR = 5116, Some("SPV_KHR_bfloat16");
    /// Cooperative matrices of bfloat16.
    BFloat16CooperativeMatrixKHR = 5118, Some("SPV_KHR_bfloat16");
    /// The Vulkan memory model.
    VulkanMemoryModel = 5345, None;
    /// Device scope under the Vulkan memory model.
    VulkanMemoryModelDeviceScope = 5346, None;
    /// Pointers that are addresses.
    PhysicalStorageBufferAddresses = 5347, None;
    /// Reductions of cooperative matrices.
    CooperativeMatrixReductionsNV = 5430, Some("SPV_NV_cooperative_matrix2");
    /// A cooperative matrix in another use, and transposed.
    CooperativeMatrixConversionsNV = 5431, Some("SPV_NV_cooperative_matrix2");
    /// A function called for each element of a cooperative matrix.
    CooperativeMatrixPerElementOperationsNV = 5432, Some("SPV_NV_cooperative_matrix2");
    /// Cooperative matrices loaded and stored through tensor layouts.
    CooperativeMatrixTensorAddressingNV = 5433, Some("SPV_NV_cooperative_matrix2");
    /// A function that decodes what a cooperative-matrix load reads.
    CooperativeMatrixBlockLoadsNV = 5434, Some("SPV_NV_cooperative_matrix2");
    /// Tensor layouts and views.
    TensorAddressingNV = 5439, Some("SPV_NV_tensor_addressing");
    /// A function that decodes several neighbours at once.
    CooperativeMatrixDecodeVectorNV = 5447, Some("SPV_NV_cooperative_matrix_decode_vector");
    /// Four packed 8-bit integers as a dot product's operand.
    DotProductInput4x8BitPacked = 6018, None;
    /// Integer dot products.
    DotProduct = 6019, None;
    /// Matrices that the invocations of a scope hold together.
    CooperativeMatrixKHR = 6022, Some("SPV_KHR_cooperative_matrix");
}
