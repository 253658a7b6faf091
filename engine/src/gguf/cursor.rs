//! Checked little-endian reads from a byte slice.

use super::error::GgufError;

/// A position in a file's bytes; every read is checked against the end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

macro_rules! read_numbers {
    ($($name:ident -> $number:ty),*) => {$(
        pub(super) fn $name(&mut self, what: &'static str) -> Result<$number, GgufError> {
            let bytes = self.array(what)?;
            Ok(<$number>::from_le_bytes(bytes))
        }
    )*};
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at: at.min(bytes.len()) }
    }

    /// Byte offset from the start of the file.
    pub(super) fn offset(&self) -> u64 {
        self.at as u64
    }

    pub(super) fn position(&self) -> usize {
        self.at
    }

    pub(super) fn remaining(&self) -> u64 {
        (self.bytes.len() - self.at) as u64
    }

    /// The next `len` bytes.
    pub(super) fn take(&mut self, len: u64, what: &'static str) -> Result<&'a [u8], GgufError> {
        let available = self.remaining();
        if len > available {
            return Err(GgufError::Truncated { what, offset: self.offset(), needed: len, available });
        }
        // `len` is at most a slice's length, so it fits a usize.
        let end = self.at + len as usize;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], GgufError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N as u64, what)?);
        Ok(array)
    }

    read_numbers!(u32 -> u32, u64 -> u64);

    /// A count of things of at least `smallest` bytes each, refused when the rest of the file cannot hold them.
    pub(super) fn count(&mut self, what: &'static str, smallest: u64) -> Result<usize, GgufError> {
        let offset = self.offset();
        let count = self.u64(what)?;
        let available = self.remaining();
        // The index of a file's keys or tensors is 32 bits wide.
        let limit = (available / smallest).min(u64::from(u32::MAX));
        if count > limit {
            return Err(GgufError::ImpossibleCount { what, count, offset, available, limit });
        }
        Ok(count as usize)
    }

    /// A string: its length in 8 bytes, then UTF-8.
    pub(super) fn string(&mut self, what: &'static str) -> Result<&'a str, GgufError> {
        let len = self.u64(what)?;
        let offset = self.offset();
        let bytes = self.take(len, what)?;
        std::str::from_utf8(bytes).map_err(|_| GgufError::NotUtf8 { what, offset })
    }

    /// A string that names something, so not empty.
    pub(super) fn name(&mut self, what: &'static str) -> Result<&'a str, GgufError> {
        let offset = self.offset();
        let name = self.string(what)?;
        if name.is_empty() { Err(GgufError::EmptyName { what, offset }) } else { Ok(name) }
    }
}
