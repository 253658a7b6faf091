//! Metadata values, borrowed from the file's bytes.

use std::fmt;

/// The type of a metadata value, as GGUF numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum ValueType {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    String,
    Array,
    U64,
    I64,
    F64,
}

impl ValueType {
    /// The type with this number.
    pub const fn from_number(n: u32) -> Option<Self> {
        use ValueType::{Array, Bool, F32, F64, I8, I16, I32, I64, String, U8, U16, U32, U64};
        Some(match n {
            0 => U8,
            1 => I8,
            2 => U16,
            3 => I16,
            4 => U32,
            5 => I32,
            6 => F32,
            7 => Bool,
            8 => String,
            9 => Array,
            10 => U64,
            11 => I64,
            12 => F64,
            _ => return None,
        })
    }

    /// GGUF's number.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// Bytes of a value of fixed size.
    pub const fn bytes(self) -> Option<u64> {
        match self {
            ValueType::U8 | ValueType::I8 | ValueType::Bool => Some(1),
            ValueType::U16 | ValueType::I16 => Some(2),
            ValueType::U32 | ValueType::I32 | ValueType::F32 => Some(4),
            ValueType::U64 | ValueType::I64 | ValueType::F64 => Some(8),
            ValueType::String | ValueType::Array => None,
        }
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ValueType::U8 => "a u8",
            ValueType::I8 => "an i8",
            ValueType::U16 => "a u16",
            ValueType::I16 => "an i16",
            ValueType::U32 => "a u32",
            ValueType::I32 => "an i32",
            ValueType::F32 => "an f32",
            ValueType::Bool => "a bool",
            ValueType::String => "a string",
            ValueType::Array => "an array",
            ValueType::U64 => "a u64",
            ValueType::I64 => "an i64",
            ValueType::F64 => "an f64",
        })
    }
}

/// A metadata value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// Any integer type.
    Int {
        /// The number.
        value: i128,
        /// The type it is stored as.
        ty: ValueType,
    },
    /// An f32 or f64.
    Float {
        /// The number.
        value: f64,
        /// The type it is stored as.
        ty: ValueType,
    },
    /// A flag.
    Bool(bool),
    /// A string.
    String(&'a str),
    /// An array.
    Array(Array<'a>),
}

impl Value<'_> {
    /// The type it is stored as.
    pub const fn ty(&self) -> ValueType {
        match self {
            Value::Int { ty, .. } | Value::Float { ty, .. } => *ty,
            Value::Bool(_) => ValueType::Bool,
            Value::String(_) => ValueType::String,
            Value::Array(_) => ValueType::Array,
        }
    }
}

/// An array of scalars or strings, decoded as it is walked; the reader has checked its bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Array<'a> {
    elem: ValueType,
    len: usize,
    bytes: &'a [u8],
}

impl<'a> Array<'a> {
    pub(super) const fn new(elem: ValueType, len: usize, bytes: &'a [u8]) -> Self {
        Self { elem, len, bytes }
    }

    /// The elements' type.
    pub const fn elem(&self) -> ValueType {
        self.elem
    }

    /// Number of elements.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The elements in order.
    pub fn iter(&self) -> Elements<'a> {
        Elements { elem: self.elem, left: self.len, bytes: self.bytes }
    }
}

impl<'a> IntoIterator for Array<'a> {
    type Item = Value<'a>;
    type IntoIter = Elements<'a>;
    fn into_iter(self) -> Elements<'a> {
        self.iter()
    }
}

/// Walks an [`Array`].
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    elem: ValueType,
    left: usize,
    bytes: &'a [u8],
}

impl<'a> Iterator for Elements<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        self.left = self.left.checked_sub(1)?;
        let (value, rest) = decode(self.elem, self.bytes)?;
        self.bytes = rest;
        Some(value)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Elements<'_> {}

/// The value of type `ty` at the start of `bytes`, and the bytes behind it; `None` where they are not one.
///
/// A mapped file can change after it was checked, so nothing is taken on trust here.
pub(super) fn decode(ty: ValueType, bytes: &[u8]) -> Option<(Value<'_>, &[u8])> {
    macro_rules! number {
        ($number:ty, $variant:ident) => {{
            let (head, rest) = bytes.split_first_chunk()?;
            (Value::$variant { value: <$number>::from_le_bytes(*head).into(), ty }, rest)
        }};
    }
    Some(match ty {
        ValueType::U8 => number!(u8, Int),
        ValueType::I8 => number!(i8, Int),
        ValueType::U16 => number!(u16, Int),
        ValueType::I16 => number!(i16, Int),
        ValueType::U32 => number!(u32, Int),
        ValueType::I32 => number!(i32, Int),
        ValueType::U64 => number!(u64, Int),
        ValueType::I64 => number!(i64, Int),
        ValueType::F32 => number!(f32, Float),
        ValueType::F64 => number!(f64, Float),
        ValueType::Bool => {
            let (byte, rest) = bytes.split_first()?;
            (Value::Bool(*byte != 0), rest)
        }
        ValueType::String => {
            let (len, rest) = bytes.split_first_chunk()?;
            let (text, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*len)).ok()?)?;
            (Value::String(std::str::from_utf8(text).ok()?), rest)
        }
        ValueType::Array => {
            let (elem, rest) = bytes.split_first_chunk()?;
            let (len, rest) = rest.split_first_chunk()?;
            let elem = ValueType::from_number(u32::from_le_bytes(*elem))?;
            let array = Array::new(elem, usize::try_from(u64::from_le_bytes(*len)).ok()?, rest);
            (Value::Array(array), &[])
        }
    })
}
