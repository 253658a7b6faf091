//! Scalar element types of the kernel language.

use std::fmt;

/// A scalar type that a kernel value or a buffer element can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DType {
    /// A truth value; it exists in registers only, never in a buffer.
    Bool,
    /// Signed 8-bit integer.
    I8,
    /// Unsigned 8-bit integer.
    U8,
    /// Signed 16-bit integer.
    I16,
    /// Unsigned 16-bit integer.
    U16,
    /// Signed 32-bit integer.
    I32,
    /// Unsigned 32-bit integer.
    U32,
    /// IEEE binary16.
    F16,
    /// IEEE binary32.
    F32,
}

impl DType {
    /// Size in bytes; a [`DType::Bool`] has none in memory and reports 0.
    pub const fn bytes(self) -> u32 {
        match self {
            DType::Bool => 0,
            DType::I8 | DType::U8 => 1,
            DType::I16 | DType::U16 | DType::F16 => 2,
            DType::I32 | DType::U32 | DType::F32 => 4,
        }
    }

    /// The name as Rust writes it.
    pub const fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::I8 => "i8",
            DType::U8 => "u8",
            DType::I16 => "i16",
            DType::U16 => "u16",
            DType::I32 => "i32",
            DType::U32 => "u32",
            DType::F16 => "f16",
            DType::F32 => "f32",
        }
    }

    /// Whether the type is an integer (signed or not).
    pub const fn is_int(self) -> bool {
        !matches!(self, DType::Bool | DType::F16 | DType::F32)
    }

    /// Whether the type is a signed integer.
    pub const fn is_signed(self) -> bool {
        matches!(self, DType::I8 | DType::I16 | DType::I32)
    }

    /// Whether the type is a float.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::F32)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
