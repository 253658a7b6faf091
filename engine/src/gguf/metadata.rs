//! The key-value section: where each value lies, and typed access to it.

use super::{
    cursor::Cursor,
    error::{GgufError, quoted},
    value::{Array, Value, ValueType, decode},
};

/// A key and where its value lies; small, since a hostile file can be all keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    key: Span,
    ty: ValueType,
}

/// The byte range of a name in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    start: usize,
    len: u32,
}

impl Span {
    /// The range of `name`, which the cursor has just read.
    pub(super) fn behind(cursor: &Cursor<'_>, name: &str) -> Self {
        // A name longer than 4 GiB keeps its first part, and is unequal to every name asked for.
        let len = u32::try_from(name.len()).unwrap_or(u32::MAX);
        Span { start: cursor.position() - name.len(), len }
    }

    /// Its text; empty if the file has changed under us.
    pub(super) fn text(self, bytes: &[u8]) -> &str {
        std::str::from_utf8(self.bytes(bytes)).unwrap_or_default()
    }

    fn end(self) -> usize {
        self.start + self.len as usize
    }

    fn bytes(self, bytes: &[u8]) -> &[u8] {
        bytes.get(self.start..self.end()).unwrap_or_default()
    }
}

impl Entry {
    fn value<'a>(&self, bytes: &'a [u8]) -> Option<Value<'a>> {
        // The value's type stands between key and value.
        let bytes = bytes.get(self.key.end() + 4..)?;
        decode(self.ty, bytes).map(|(value, _)| value)
    }
}

/// A key and its value take at least an empty-name string, a type and one byte.
const SMALLEST_ENTRY: u64 = 8 + 1 + 4 + 1;

/// Reads the section of `n` entries and checks every byte of it.
pub(super) fn read(cursor: &mut Cursor<'_>, bytes: &[u8], n: usize) -> Result<Vec<Entry>, GgufError> {
    let mut entries = Vec::with_capacity(n);
    for _ in 0..n {
        let name = cursor.name("metadata key")?;
        let key = Span::behind(cursor, name);
        let offset = cursor.offset();
        let number = cursor.u32("value type")?;
        let Some(ty) = ValueType::from_number(number) else {
            return Err(GgufError::UnknownValueType { key: quoted(name), found: number, offset });
        };
        skip(cursor, name, ty)?;
        entries.push(Entry { key, ty });
    }
    let mut order: Vec<&Entry> = entries.iter().collect();
    order.sort_unstable_by_key(|e| e.key.bytes(bytes));
    match order.windows(2).find(|pair| pair[0].key.bytes(bytes) == pair[1].key.bytes(bytes)) {
        Some(pair) => Err(GgufError::DuplicateKey { key: quoted(pair[0].key.text(bytes)) }),
        None => Ok(entries),
    }
}

/// Reads the number of entries.
pub(super) fn read_count(cursor: &mut Cursor<'_>) -> Result<usize, GgufError> {
    cursor.count("metadata count", SMALLEST_ENTRY)
}

fn skip(cursor: &mut Cursor<'_>, key: &str, ty: ValueType) -> Result<(), GgufError> {
    match ty {
        ValueType::Bool => bool_byte(cursor, key),
        ValueType::String => cursor.string("metadata string").map(drop),
        ValueType::Array => skip_array(cursor, key),
        ValueType::U8
        | ValueType::I8
        | ValueType::U16
        | ValueType::I16
        | ValueType::U32
        | ValueType::I32
        | ValueType::F32
        | ValueType::U64
        | ValueType::I64
        | ValueType::F64 => cursor.take(ty.bytes().unwrap_or(0), "metadata value").map(drop),
    }
}

fn skip_array(cursor: &mut Cursor<'_>, key: &str) -> Result<(), GgufError> {
    let offset = cursor.offset();
    let number = cursor.u32("array element type")?;
    let elem = match ValueType::from_number(number) {
        Some(ValueType::Array) => return Err(GgufError::NestedArray { key: quoted(key), offset }),
        Some(elem) => elem,
        None => return Err(GgufError::UnknownElementType { key: quoted(key), found: number, offset }),
    };
    let n = cursor.count("array length", elem.bytes().unwrap_or(8))?;
    match elem {
        ValueType::Bool => (0..n).try_for_each(|_| bool_byte(cursor, key)),
        ValueType::String => (0..n).try_for_each(|_| cursor.string("array string").map(drop)),
        _ => cursor.take(n as u64 * elem.bytes().unwrap_or(0), "array").map(drop),
    }
}

fn bool_byte(cursor: &mut Cursor<'_>, key: &str) -> Result<(), GgufError> {
    let offset = cursor.offset();
    let [found] = cursor.array("boolean")?;
    if found > 1 { Err(GgufError::BadBool { key: quoted(key), found, offset }) } else { Ok(()) }
}

/// A file's metadata, in the file's order.
#[derive(Clone, Copy, Debug)]
pub struct Metadata<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) entries: &'a [Entry],
}

/// `optional` and required access to one type.
macro_rules! accessors {
    ($($(#[$doc:meta])* $name:ident $opt:ident -> $t:ty, $expected:literal, $from:expr;)*) => { $(
        $(#[$doc])*
        ///
        /// # Errors
        /// The key is missing, or holds something else.
        pub fn $name(&self, key: &str) -> Result<$t, GgufError> {
            self.$opt(key)?
                .ok_or_else(|| GgufError::MissingKey { key: quoted(key), expected: $expected })
        }

        $(#[$doc])*
        /// `None` where the file is silent.
        ///
        /// # Errors
        /// The key holds something else.
        pub fn $opt(&self, key: &str) -> Result<Option<$t>, GgufError> {
            let from: fn(&str, Value<'a>) -> Result<$t, GgufError> = $from;
            self.get(key).map(|value| from(key, value)).transpose()
        }
    )* };
}

impl<'a> Metadata<'a> {
    /// Number of keys.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Keys and values.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, Value<'a>)> + use<'a> {
        let bytes = self.bytes;
        self.entries.iter().filter_map(move |e| Some((e.key.text(bytes), e.value(bytes)?)))
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<Value<'a>> {
        let entry = self.entries.iter().find(|e| e.key.bytes(self.bytes) == key.as_bytes())?;
        entry.value(self.bytes)
    }

    accessors! {
        /// A string.
        str opt_str -> &'a str, "a string", |key, value| match value {
            Value::String(text) => Ok(text),
            other => Err(wrong(key, "a string", &other)),
        };
        /// A u32, from any integer type that holds one.
        u32 opt_u32 -> u32, "a u32", |key, value| int(key, "a u32", value);
        /// A u64, from any integer type that holds one.
        u64 opt_u64 -> u64, "a u64", |key, value| int(key, "a u64", value);
        /// An i32, from any integer type that holds one.
        i32 opt_i32 -> i32, "an i32", |key, value| int(key, "an i32", value);
        /// An f32; an f64 is rounded.
        f32 opt_f32 -> f32, "an f32", |key, value| match value {
            Value::Float { value, .. } => Ok(value as f32),
            other => Err(wrong(key, "an f32", &other)),
        };
        /// A flag.
        bool opt_bool -> bool, "a bool", |key, value| match value {
            Value::Bool(flag) => Ok(flag),
            other => Err(wrong(key, "a bool", &other)),
        };
        /// An array.
        array opt_array -> Array<'a>, "an array", |key, value| match value {
            Value::Array(array) => Ok(array),
            other => Err(wrong(key, "an array", &other)),
        };
        /// An array of strings.
        strings opt_strings -> Vec<&'a str>, "an array of strings", |key, value| {
            elements(key, "an array of strings", value, |v| match v {
                Value::String(text) => Some(text),
                _ => None,
            })
        };
        /// An array of integers that fit an i32.
        i32s opt_i32s -> Vec<i32>, "an array of i32", |key, value| {
            elements(key, "an array of i32", value, |v| match v {
                Value::Int { value, .. } => i32::try_from(value).ok(),
                _ => None,
            })
        };
        /// An array of integers that fit a u32.
        u32s opt_u32s -> Vec<u32>, "an array of u32", |key, value| {
            elements(key, "an array of u32", value, |v| match v {
                Value::Int { value, .. } => u32::try_from(value).ok(),
                _ => None,
            })
        };
        /// An array of floats.
        f32s opt_f32s -> Vec<f32>, "an array of f32", |key, value| {
            elements(key, "an array of f32", value, |v| match v {
                Value::Float { value, .. } => Some(value as f32),
                _ => None,
            })
        };
    }
}

fn wrong(key: &str, expected: &'static str, found: &Value<'_>) -> GgufError {
    GgufError::WrongType { key: quoted(key), expected, found: found.ty() }
}

/// An integer that fits the type `expected`.
pub(super) fn int<T: TryFrom<i128>>(
    key: &str,
    expected: &'static str,
    value: Value<'_>,
) -> Result<T, GgufError> {
    match value {
        Value::Int { value, .. } => T::try_from(value).map_err(|_| GgufError::ValueOutOfRange {
            key: quoted(key),
            expected,
            found: value,
        }),
        other => Err(wrong(key, expected, &other)),
    }
}

fn elements<'a, T>(
    key: &str,
    expected: &'static str,
    value: Value<'a>,
    each: impl Fn(Value<'a>) -> Option<T>,
) -> Result<Vec<T>, GgufError> {
    let Value::Array(array) = value else { return Err(wrong(key, expected, &value)) };
    let mut all = Vec::with_capacity(array.len());
    for element in array {
        let found = element.ty();
        let Some(element) = each(element) else {
            return Err(GgufError::WrongElement { key: quoted(key), expected, found });
        };
        all.push(element);
    }
    Ok(all)
}
