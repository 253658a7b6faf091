//! Scalar types of a module: those of the kernel language, and bfloat16, which foreign words and matrices have.

use std::fmt;

/// A scalar type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Number {
    Bool,
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    F16,
    /// The upper half of an f32: moved, converted and multiplied by matrices, but no operand of arithmetic.
    BF16,
    F32,
}

impl Number {
    /// Size in bytes; a bool has none in memory and reports 0.
    pub(crate) const fn bytes(self) -> u32 {
        match self {
            Number::Bool => 0,
            Number::I8 | Number::U8 => 1,
            Number::I16 | Number::U16 | Number::F16 | Number::BF16 => 2,
            Number::I32 | Number::U32 | Number::F32 => 4,
        }
    }

    /// Whether the type is an integer (signed or not).
    pub(crate) const fn is_int(self) -> bool {
        !matches!(self, Number::Bool) && !self.is_real()
    }

    /// Whether the type is a signed integer.
    pub(crate) const fn is_signed(self) -> bool {
        matches!(self, Number::I8 | Number::I16 | Number::I32)
    }

    /// Whether the type is a float that arithmetic takes.
    pub(crate) const fn is_float(self) -> bool {
        matches!(self, Number::F16 | Number::F32)
    }

    /// Whether the type is a float of any encoding.
    pub(crate) const fn is_real(self) -> bool {
        matches!(self, Number::F16 | Number::BF16 | Number::F32)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Number::Bool => "bool",
            Number::I8 => "i8",
            Number::U8 => "u8",
            Number::I16 => "i16",
            Number::U16 => "u16",
            Number::I32 => "i32",
            Number::U32 => "u32",
            Number::F16 => "f16",
            Number::BF16 => "bf16",
            Number::F32 => "f32",
        })
    }
}
