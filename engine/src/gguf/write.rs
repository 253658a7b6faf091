//! Writes GGUF files of version 3: keys and tensors are declared, then the data follows tensor by tensor.

use std::collections::HashSet;
use std::io::{self, Read, Write};

use kiln_kernels::FormatRow;

use super::{
    ALIGNMENT_KEY, DEFAULT_ALIGNMENT, GgufError, MAGIC, Metadata, Value, ValueType, check_alignment,
    metadata, quoted,
    tensors::{MAX_RANK, data_bytes},
    value::decode,
};

/// The version of the files written here.
const VERSION: u32 = 3;

/// Why a file cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// What the file is written to took no more.
    #[error("cannot write the GGUF file: {0}")]
    Io(#[from] io::Error),
    /// A reader would refuse the file.
    #[error(transparent)]
    Unreadable(#[from] GgufError),
    /// A key or a tensor name of no length.
    #[error("a {what} is empty, expected at least one character")]
    EmptyName {
        /// `metadata key` or `tensor name`.
        what: &'static str,
    },
    /// A tensor of no or too many dimensions.
    #[error("tensor {tensor} has {found} dimensions, expected 1 to 4")]
    Rank {
        /// The tensor.
        tensor: String,
        /// Its dimensions.
        found: usize,
    },
    /// Data that is not the tensor's.
    #[error("tensor {tensor} was given {found} bytes of data, expected {expected}")]
    DataLength {
        /// The tensor.
        tensor: String,
        /// Bytes given.
        found: u64,
        /// Bytes that shape and format ask for.
        expected: u64,
    },
    /// Data after the last tensor's, or none for the last ones.
    #[error("data was given for {found} tensors, expected {expected}")]
    DataCount {
        /// Tensors given data.
        found: usize,
        /// Tensors declared.
        expected: usize,
    },
}

mod sealed {
    pub trait Sealed {
        /// Appends the value as GGUF stores it.
        fn put(&self, out: &mut Vec<u8>);
    }
}
use sealed::Sealed;

/// What a key can be and an array can be of: numbers, flags and strings.
pub trait Scalar: Sealed {
    /// As GGUF numbers it.
    const TYPE: ValueType;
}

macro_rules! scalar_numbers {
    ($($number:ty => $ty:ident),*) => {$(
        impl Scalar for $number {
            const TYPE: ValueType = ValueType::$ty;
        }
        impl Sealed for $number {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend(self.to_le_bytes());
            }
        }
    )*};
}
scalar_numbers!(u8 => U8, i8 => I8, u16 => U16, i16 => I16, u32 => U32, i32 => I32, u64 => U64, i64 => I64);
scalar_numbers!(f32 => F32, f64 => F64);

impl Scalar for bool {
    const TYPE: ValueType = ValueType::Bool;
}
impl Sealed for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
}

impl Scalar for str {
    const TYPE: ValueType = ValueType::String;
}
impl Sealed for str {
    fn put(&self, out: &mut Vec<u8>) {
        put_len(self.len(), out);
        out.extend(self.as_bytes());
    }
}

impl Scalar for String {
    const TYPE: ValueType = ValueType::String;
}
impl Sealed for String {
    fn put(&self, out: &mut Vec<u8>) {
        self.as_str().put(out);
    }
}

impl<T: Scalar + ?Sized> Scalar for &T {
    const TYPE: ValueType = T::TYPE;
}
impl<T: Sealed + ?Sized> Sealed for &T {
    fn put(&self, out: &mut Vec<u8>) {
        (*self).put(out);
    }
}

fn put_len(len: usize, out: &mut Vec<u8>) {
    (len as u64).put(out);
}

fn put_array<T: Sealed>(elem: ValueType, elements: impl ExactSizeIterator<Item = T>, out: &mut Vec<u8>) {
    elem.number().put(out);
    put_len(elements.len(), out);
    elements.for_each(|element| element.put(out));
}

/// A value that a reader handed out, so one that fits the type it is stored as.
impl Sealed for Value<'_> {
    fn put(&self, out: &mut Vec<u8>) {
        match *self {
            // The low bytes of two's complement are the number at every width.
            Value::Int { value, ty } => {
                out.extend(value.to_le_bytes().into_iter().take(ty.bytes().unwrap_or(0) as usize));
            }
            Value::Float { value, ty: ValueType::F32 } => (value as f32).put(out),
            Value::Float { value, .. } => value.put(out),
            Value::Bool(flag) => flag.put(out),
            Value::String(text) => text.put(out),
            Value::Array(array) => put_array(array.elem(), array.iter(), out),
        }
    }
}

/// A file to be: first its keys and tensors, in the order in which they are to stand.
#[derive(Debug)]
pub struct GgufWriter {
    alignment: u32,
    keys: Vec<u8>,
    key_names: HashSet<String>,
    tensors: Vec<Declared>,
    tensor_names: HashSet<String>,
}

#[derive(Debug)]
struct Declared {
    name: String,
    /// Slowest dimension first.
    shape: Vec<u64>,
    type_id: u32,
    bytes: u64,
}

impl Default for GgufWriter {
    fn default() -> Self {
        Self::new()
    }
}

impl GgufWriter {
    /// No keys, no tensors, GGUF's default alignment.
    pub fn new() -> Self {
        Self {
            alignment: DEFAULT_ALIGNMENT,
            keys: Vec::new(),
            key_names: HashSet::new(),
            tensors: Vec::new(),
            tensor_names: HashSet::new(),
        }
    }

    /// Adds a key; the value of `general.alignment` aligns this file.
    ///
    /// # Errors
    /// The name is empty or taken, or the alignment is none.
    pub fn key<T: Scalar>(&mut self, name: &str, value: T) -> Result<(), WriteError> {
        let mut bytes = Vec::new();
        value.put(&mut bytes);
        self.put_key(name, T::TYPE, &bytes)
    }

    /// Adds a key whose value is an array.
    ///
    /// # Errors
    /// As for [`Self::key`].
    pub fn array<T: Scalar>(&mut self, name: &str, elements: &[T]) -> Result<(), WriteError> {
        let mut bytes = Vec::new();
        put_array(T::TYPE, elements.iter(), &mut bytes);
        self.put_key(name, ValueType::Array, &bytes)
    }

    /// Adds those keys of another file that `chosen` names, with their values as they are.
    ///
    /// # Errors
    /// As for [`Self::key`].
    pub fn copy(&mut self, from: Metadata<'_>, chosen: impl Fn(&str) -> bool) -> Result<(), WriteError> {
        let mut bytes = Vec::new();
        for (name, value) in from.iter().filter(|(name, _)| chosen(name)) {
            bytes.clear();
            value.put(&mut bytes);
            self.put_key(name, value.ty(), &bytes)?;
        }
        Ok(())
    }

    fn put_key(&mut self, name: &str, ty: ValueType, value: &[u8]) -> Result<(), WriteError> {
        if name == ALIGNMENT_KEY
            && let Some((value, _)) = decode(ty, value)
        {
            self.alignment = check_alignment(metadata::int(name, "a u32", value)?)?;
        }
        if !take_name(&mut self.key_names, "metadata key", name)? {
            return Err(GgufError::DuplicateKey { key: quoted(name) }.into());
        }
        name.put(&mut self.keys);
        ty.number().put(&mut self.keys);
        self.keys.extend(value);
        Ok(())
    }

    /// Declares a tensor, its shape slowest dimension first; its data is given later, in the order of declaration.
    ///
    /// # Errors
    /// The name is empty or taken, or no such tensor can be of that format.
    pub fn tensor(&mut self, name: &str, shape: &[u64], format: &FormatRow) -> Result<(), WriteError> {
        let tensor = || quoted(name);
        if !(1..=MAX_RANK).contains(&shape.len()) {
            return Err(WriteError::Rank { tensor: tensor(), found: shape.len() });
        }
        let bytes = data_bytes(shape, format.geometry, tensor)?;
        if !take_name(&mut self.tensor_names, "tensor name", name)? {
            return Err(GgufError::DuplicateTensor { tensor: tensor() }.into());
        }
        self.tensors.push(Declared {
            name: name.to_owned(),
            shape: shape.to_vec(),
            type_id: format.id,
            bytes,
        });
        Ok(())
    }

    /// Writes all but the data, which the value returned takes.
    ///
    /// # Errors
    /// More data than a file can hold, or `out` takes no more.
    pub fn start<W: Write>(self, out: W) -> Result<TensorWriter<W>, WriteError> {
        let mut head = MAGIC.to_vec();
        VERSION.put(&mut head);
        put_len(self.tensors.len(), &mut head);
        // The keys' names stand for the keys.
        put_len(self.key_names.len(), &mut head);
        head.extend(self.keys);
        let alignment = u64::from(self.alignment);
        let mut offset = 0u64;
        for Declared { name, shape, type_id, bytes } in &self.tensors {
            name.put(&mut head);
            (shape.len() as u32).put(&mut head);
            // The file lists the fastest dimension first.
            shape.iter().rev().for_each(|dim| dim.put(&mut head));
            type_id.put(&mut head);
            offset.put(&mut head);
            let end = offset.checked_add(*bytes).and_then(|end| end.checked_next_multiple_of(alignment));
            let too_much = || GgufError::SizeOverflow { tensor: quoted(name), shape: shape.clone() };
            offset = end.ok_or_else(too_much)?;
        }
        let mut writer = TensorWriter { out, alignment, tensors: self.tensors, n_written: 0 };
        writer.put_padded(&head)?;
        Ok(writer)
    }
}

/// Takes a name that nobody has yet; `false` for one that somebody has.
fn take_name(names: &mut HashSet<String>, what: &'static str, name: &str) -> Result<bool, WriteError> {
    if name.is_empty() { Err(WriteError::EmptyName { what }) } else { Ok(names.insert(name.to_owned())) }
}

/// A file whose data is being written.
#[derive(Debug)]
pub struct TensorWriter<W> {
    out: W,
    alignment: u64,
    tensors: Vec<Declared>,
    n_written: usize,
}

impl<W: Write> TensorWriter<W> {
    /// Writes the data of the next tensor: all of its blocks.
    ///
    /// # Errors
    /// There is no next tensor, the data is not as long as the tensor's, or the output takes no more.
    pub fn data(&mut self, data: &[u8]) -> Result<(), WriteError> {
        let n_tensors = self.tensors.len();
        let Some(Declared { name, bytes, .. }) = self.tensors.get(self.n_written) else {
            return Err(WriteError::DataCount { found: n_tensors + 1, expected: n_tensors });
        };
        if data.len() as u64 != *bytes {
            let (found, expected) = (data.len() as u64, *bytes);
            return Err(WriteError::DataLength { tensor: quoted(name), found, expected });
        }
        self.put_padded(data)?;
        self.n_written += 1;
        Ok(())
    }

    /// Ends the file and gives back what it was written to.
    ///
    /// # Errors
    /// Tensors are left without data, or the output takes no more.
    pub fn finish(mut self) -> Result<W, WriteError> {
        let (found, expected) = (self.n_written, self.tensors.len());
        if found != expected {
            return Err(WriteError::DataCount { found, expected });
        }
        self.out.flush()?;
        Ok(self.out)
    }

    /// Head and data alike start where the alignment says, so each is padded to where the next one starts.
    fn put_padded(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        let end = bytes.len() as u64;
        let padding = end.next_multiple_of(self.alignment) - end;
        io::copy(&mut io::repeat(0).take(padding), &mut self.out).map(drop)
    }
}
