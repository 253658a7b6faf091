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
    /// The Vulkan memory model.
    VulkanMemoryModel = 5345, None;
    /// Device scope under the Vulkan memory model.
    VulkanMemoryModelDeviceScope = 5346, None;
    /// Four packed 8-bit integers as a dot product's operand.
    DotProductInput4x8BitPacked = 6018, None;
    /// Integer dot products.
    DotProduct = 6019, None;
}
