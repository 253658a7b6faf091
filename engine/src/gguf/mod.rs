//! Reads GGUF files, versions 2 and 3: a file's bytes become checked metadata and tensors; and writes them.
//!
//! Guards: every count, length, offset and size is checked once, here, against the bytes that are there; what the
//! reader hands out can be used without a further check. Never: knows what a key means (but for alignment and
//! splitting) or how a format's blocks are made up (their size comes from the registry).
//!
//! Source: the GGUF specification in ggml's repository, read November 2026.

mod cursor;
mod error;
mod mapped;
mod metadata;
mod split;
mod tensors;
mod value;
mod write;

use std::path::Path;

use kiln_kernels::Registry;

use self::{cursor::Cursor, mapped::FileBytes, split::Split};
pub use self::{
    error::GgufError,
    metadata::Metadata,
    tensors::Tensor,
    value::{Array, Elements, Value, ValueType},
    write::{GgufWriter, Scalar, TensorWriter, WriteError},
};
pub(crate) use error::quoted;

/// An open model file, or all parts of a split one.
#[derive(Debug)]
pub struct Gguf {
    /// Part 0 has the metadata.
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    bytes: FileBytes,
    version: u32,
    metadata: Vec<metadata::Entry>,
    tensors: Vec<tensors::Entry>,
    data_start: usize,
}

const MAGIC: [u8; 4] = *b"GGUF";
const ALIGNMENT_KEY: &str = "general.alignment";
const DEFAULT_ALIGNMENT: u32 = 32;

impl Gguf {
    /// Maps the file at `path`; of a split model, the first part, whose siblings are opened too.
    ///
    /// A file that is cut short while it is open ends the process when what it lost is read: replace one by another of its
    /// name, never in place.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn open(path: &Path, registry: &Registry) -> Result<Self, GgufError> {
        let first = Part::parse(FileBytes::map(path)?, registry)?;
        let split = Split::of(first.metadata())?;
        let mut parts = vec![first];
        if let Some(split) = split {
            for path in split.other_paths(path)? {
                parts.push(Part::parse(FileBytes::map(&path)?, registry)?);
            }
        }
        Self::join(parts)
    }

    /// Reads a file that is in memory.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn from_bytes(bytes: Vec<u8>, registry: &Registry) -> Result<Self, GgufError> {
        Self::join(vec![Part::parse(FileBytes::Owned(bytes), registry)?])
    }

    /// GGUF's version, 2 or 3.
    pub fn version(&self) -> u32 {
        self.parts.first().map_or(0, |p| p.version)
    }

    /// Number of files.
    pub fn n_parts(&self) -> usize {
        self.parts.len()
    }

    /// Bytes of all files together.
    pub fn file_bytes(&self) -> u64 {
        self.parts.iter().map(|p| p.bytes.len() as u64).sum()
    }

    /// Keys and values.
    pub fn metadata(&self) -> Metadata<'_> {
        self.parts.first().map_or(Metadata { bytes: &[], entries: &[] }, Part::metadata)
    }

    /// All tensors, in the files' order.
    pub fn tensors(&self) -> impl Iterator<Item = Tensor<'_>> {
        self.parts.iter().flat_map(Part::tensors)
    }

    /// A tensor by name.
    pub fn tensor(&self, name: &str) -> Option<Tensor<'_>> {
        self.tensors().find(|t| t.name == name)
    }

    /// One model of its parts, which must belong together.
    fn join(parts: Vec<Part>) -> Result<Self, GgufError> {
        let splits = parts.iter().map(|p| Split::of(p.metadata())).collect::<Result<Vec<_>, _>>()?;
        split::check(&splits, parts.iter().map(|p| p.tensors.len() as u64).sum())?;
        let model = Self { parts };
        if model.n_parts() > 1 {
            model.check_names()?;
        }
        Ok(model)
    }

    /// Each part has checked its own names; this compares those of all parts.
    fn check_names(&self) -> Result<(), GgufError> {
        let mut names: Vec<&str> = self.tensors().map(|t| t.name).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(GgufError::DuplicateTensor { tensor: error::quoted(pair[0]) }),
            None => Ok(()),
        }
    }
}

impl Part {
    fn parse(bytes: FileBytes, registry: &Registry) -> Result<Self, GgufError> {
        let mut cursor = Cursor::new(&bytes, 0);
        let version = read_header(&mut cursor)?;
        let n_tensors = tensors::read_count(&mut cursor)?;
        let n_keys = metadata::read_count(&mut cursor)?;
        let metadata = metadata::read(&mut cursor, &bytes, n_keys)?;
        let alignment = alignment(Metadata { bytes: &bytes, entries: &metadata })?;
        let tensors = tensors::read(&mut cursor, n_tensors, alignment, registry)?;
        let data_start = cursor.position().next_multiple_of(alignment as usize);
        let available = bytes.len().saturating_sub(data_start) as u64;
        tensors::check_data(&tensors, &bytes, available)?;
        Ok(Self { version, metadata, tensors, data_start, bytes })
    }

    fn metadata(&self) -> Metadata<'_> {
        Metadata { bytes: &self.bytes, entries: &self.metadata }
    }

    fn tensors(&self) -> impl Iterator<Item = Tensor<'_>> {
        self.tensors.iter().map(|t| Tensor::new(t, &self.bytes, self.data_start))
    }
}

fn read_header(cursor: &mut Cursor<'_>) -> Result<u32, GgufError> {
    let found = cursor.array("magic")?;
    if found != MAGIC {
        return Err(GgufError::BadMagic { found });
    }
    match cursor.u32("version")? {
        version @ 2..=3 => Ok(version),
        found if found.swap_bytes() <= 3 && found != 0 => Err(GgufError::BigEndian { found }),
        found => Err(GgufError::UnsupportedVersion { found }),
    }
}

fn alignment(metadata: Metadata<'_>) -> Result<u32, GgufError> {
    metadata.opt_u32(ALIGNMENT_KEY)?.map_or(Ok(DEFAULT_ALIGNMENT), check_alignment)
}

fn check_alignment(found: u32) -> Result<u32, GgufError> {
    if found.is_power_of_two() { Ok(found) } else { Err(GgufError::BadAlignment { found }) }
}
