//! Everything that can be wrong with a GGUF file, one sentence each.

use std::path::PathBuf;

use super::value::ValueType;

/// Why a GGUF file, or one value in it, was refused.
///
/// Names that come from the file are shortened and escaped, so every message is a single line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GgufError {
    /// The operating system did not give us the file.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file asked for.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The first four bytes are not `GGUF`.
    #[error("not a GGUF file: it starts with bytes {found:02x?}, expected \"GGUF\" (47 47 55 46)")]
    BadMagic {
        /// The bytes found.
        found: [u8; 4],
    },
    /// The file was written for big-endian machines.
    #[error(
        "big-endian GGUF (version field 0x{found:08x}) is not supported; convert the file to little-endian"
    )]
    BigEndian {
        /// The version field as read little-endian.
        found: u32,
    },
    /// A version other than 2 or 3.
    #[error(
        "GGUF version {found} is not supported, expected 2 or 3; convert the model again with a current converter"
    )]
    UnsupportedVersion {
        /// The version field.
        found: u32,
    },
    /// The file ends inside something.
    #[error(
        "the file ends inside {what}: {needed} bytes needed at byte {offset}, {available} left; is the download complete?"
    )]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// Where it starts.
        offset: u64,
        /// Bytes it takes.
        needed: u64,
        /// Bytes left in the file.
        available: u64,
    },
    /// A count that the rest of the file could not hold.
    #[error(
        "{what} {count} at byte {offset} is impossible: the {available} bytes that follow hold at most {limit}"
    )]
    ImpossibleCount {
        /// Which count.
        what: &'static str,
        /// The number found.
        count: u64,
        /// Where it is stored.
        offset: u64,
        /// Bytes after it.
        available: u64,
        /// The largest count those bytes could hold.
        limit: u64,
    },
    /// A string is not UTF-8.
    #[error("{what} at byte {offset} is not valid UTF-8")]
    NotUtf8 {
        /// What the string is.
        what: &'static str,
        /// Where its bytes start.
        offset: u64,
    },
    /// A key or a tensor name of no length.
    #[error("{what} at byte {offset} is empty")]
    EmptyName {
        /// `metadata key` or `tensor name`.
        what: &'static str,
        /// Where its length is stored.
        offset: u64,
    },
    /// A metadata value type outside 0..=12.
    #[error("metadata key {key} has value type {found} at byte {offset}, expected 0 to 12")]
    UnknownValueType {
        /// The key.
        key: String,
        /// The type number found.
        found: u32,
        /// Where it is stored.
        offset: u64,
    },
    /// An array's element type outside 0..=12.
    #[error(
        "metadata key {key} is an array of element type {found} at byte {offset}, expected 0 to 12 other than 9"
    )]
    UnknownElementType {
        /// The key.
        key: String,
        /// The type number found.
        found: u32,
        /// Where it is stored.
        offset: u64,
    },
    /// An array of arrays, which no known model uses.
    #[error("metadata key {key} is an array of arrays (byte {offset}), which Kiln does not read")]
    NestedArray {
        /// The key.
        key: String,
        /// Where the element type is stored.
        offset: u64,
    },
    /// A boolean byte other than 0 and 1.
    #[error("metadata key {key} has the boolean byte {found} at byte {offset}, expected 0 or 1")]
    BadBool {
        /// The key.
        key: String,
        /// The byte found.
        found: u8,
        /// Where it is.
        offset: u64,
    },
    /// The same metadata key twice.
    #[error("metadata key {key} appears twice")]
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// The same tensor name twice.
    #[error("tensor {tensor} appears twice")]
    DuplicateTensor {
        /// The name.
        tensor: String,
    },
    /// `general.alignment` is not a power of two.
    #[error("general.alignment is {found}, expected a power of two")]
    BadAlignment {
        /// The value found.
        found: u32,
    },
    /// A tensor of no or too many dimensions.
    #[error("tensor {tensor} has {found} dimensions at byte {offset}, expected 1 to 4")]
    BadRank {
        /// The tensor.
        tensor: String,
        /// Dimensions found.
        found: u32,
        /// Where the number is stored.
        offset: u64,
    },
    /// A dimension of size zero.
    #[error("tensor {tensor} has the shape {shape:?}, expected every dimension to be at least 1")]
    ZeroDimension {
        /// The tensor.
        tensor: String,
        /// Its shape, slowest dimension first.
        shape: Vec<u64>,
    },
    /// Element or byte count past what a file can hold.
    #[error("tensor {tensor} of shape {shape:?} has more than 2^63 elements or bytes")]
    SizeOverflow {
        /// The tensor.
        tensor: String,
        /// Its shape, slowest dimension first.
        shape: Vec<u64>,
    },
    /// A tensor type that no registered format has.
    #[error("tensor {tensor} has type id {id} at byte {offset}, which no registered format has")]
    UnknownTensorType {
        /// The tensor.
        tensor: String,
        /// The ggml type id.
        id: u32,
        /// Where the id is stored.
        offset: u64,
    },
    /// A row that is not whole blocks.
    #[error("tensor {tensor} has rows of {row} elements, expected a multiple of its block of {block}")]
    PartialBlock {
        /// The tensor.
        tensor: String,
        /// Elements per row.
        row: u64,
        /// Elements per block.
        block: u32,
    },
    /// A data offset off the file's alignment.
    #[error(
        "tensor {tensor} has data offset {data_offset}, expected a multiple of the alignment {alignment}"
    )]
    MisalignedTensor {
        /// The tensor.
        tensor: String,
        /// Offset within the data section.
        data_offset: u64,
        /// The file's alignment.
        alignment: u32,
    },
    /// Tensor data past the end of the file.
    #[error(
        "tensor {tensor} needs {bytes} bytes at data offset {data_offset}, but the data section has {available}; is the download complete?"
    )]
    TensorOutOfRange {
        /// The tensor.
        tensor: String,
        /// Offset within the data section.
        data_offset: u64,
        /// Bytes it takes.
        bytes: u64,
        /// Bytes of the data section.
        available: u64,
    },
    /// Two tensors share bytes.
    #[error("tensors {first} and {second} overlap at data offset {data_offset}")]
    OverlappingTensors {
        /// The tensor that starts first.
        first: String,
        /// The tensor that starts inside it.
        second: String,
        /// Where the second one starts within the data section.
        data_offset: u64,
    },
    /// A required key is absent.
    #[error("metadata key {key} ({expected}) is missing")]
    MissingKey {
        /// The key.
        key: String,
        /// What was wanted.
        expected: &'static str,
    },
    /// A key holds another type than wanted.
    #[error("metadata key {key} is {found}, expected {expected}")]
    WrongType {
        /// The key.
        key: String,
        /// What was wanted.
        expected: &'static str,
        /// What the file has.
        found: ValueType,
    },
    /// An array with an element of another type or range than wanted.
    #[error("metadata key {key} is an array with {found} among its elements, expected {expected}")]
    WrongElement {
        /// The key.
        key: String,
        /// What was wanted.
        expected: &'static str,
        /// The element's type.
        found: ValueType,
    },
    /// An integer that does not fit the wanted type.
    #[error("metadata key {key} is {found}, expected a number that fits {expected}")]
    ValueOutOfRange {
        /// The key.
        key: String,
        /// The wanted type.
        expected: &'static str,
        /// The number found.
        found: i128,
    },
    /// A required tensor is absent.
    #[error("tensor {tensor} is missing")]
    MissingTensor {
        /// The name.
        tensor: String,
    },
    /// One part of a split model whose name does not say where the others are.
    #[error("{} is part {} of {count} of a split model, expected a name that ends in -{:05}-of-{count:05}.gguf", path.display(), index + 1, index + 1)]
    SplitName {
        /// The file.
        path: PathBuf,
        /// Its `split.no`.
        index: u32,
        /// Its `split.count`.
        count: u32,
    },
    /// A part other than the first was opened.
    #[error("{} is part {} of {count} of a split model; open {} instead", path.display(), index + 1, first.display())]
    NotFirstSplit {
        /// The file opened.
        path: PathBuf,
        /// Its `split.no`.
        index: u32,
        /// Its `split.count`.
        count: u32,
        /// The part to open.
        first: PathBuf,
    },
    /// A split key of a part disagrees with the others.
    #[error("part {} of a split model has {key} {found}, expected {expected}", part + 1)]
    SplitMismatch {
        /// Index of the part, from 0.
        part: u32,
        /// The key.
        key: &'static str,
        /// What the part says.
        found: u64,
        /// What it should say.
        expected: u64,
    },
}

/// A name from the file, quoted, escaped and cut to a length that fits a line.
pub(crate) fn quoted(name: &str) -> String {
    const LONGEST: usize = 80;
    match name.char_indices().nth(LONGEST) {
        None => format!("{name:?}"),
        Some((cut, _)) => format!("{:?}...", &name[..cut]),
    }
}
