//! The bytes of a file: memory-mapped, or owned.

#![expect(unsafe_code, reason = "the system maps a file through an unsafe call")]

use std::fs::File;
use std::path::Path;

use super::error::GgufError;

/// Where a file's bytes live.
#[derive(Debug)]
pub(super) enum FileBytes {
    /// A read-only mapping.
    Mapped(memmap2::Mmap),
    /// Bytes in memory.
    Owned(Vec<u8>),
}

impl FileBytes {
    /// Map the file at `path` read-only.
    pub(super) fn map(path: &Path) -> Result<Self, GgufError> {
        let io = |source| GgufError::Io { path: path.to_path_buf(), source };
        // Asked before it is opened: opening a pipe waits for somebody to write to it.
        let metadata = std::fs::metadata(path).map_err(io)?;
        if metadata.is_dir() {
            return Err(io(std::io::ErrorKind::IsADirectory.into()));
        }
        if !metadata.is_file() {
            let what = "it is not a regular file, and a model is mapped from one: copy it to disk";
            return Err(io(std::io::Error::other(what)));
        }
        let file = File::open(path).map_err(io)?;
        if metadata.len() == 0 {
            // An empty file cannot be mapped; it fails later, as one that lacks its magic.
            return Ok(Self::Owned(Vec::new()));
        }
        // SAFETY: the mapping is read-only and private to this value. Another process may still change the file
        // under it, which no reader of mapped files can rule out; every later read is bounds-checked and strings
        // are validated again, so changed bytes give wrong values or errors, never an access outside the mapping.
        // A file that is cut short ends the process, as `Gguf::open` says.
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(io)?;
        Ok(Self::Mapped(map))
    }
}

impl std::ops::Deref for FileBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Owned(bytes) => bytes,
        }
    }
}
