//! Storage buffers with a shadow bit per byte: has anything written it?

use kiln_abi::{BufferId, DeviceError};

/// What a fresh buffer's bytes hold: a value that is easy to recognize and wrong for every type.
const POISON: u8 = 0xcb;

/// One buffer.
#[derive(Debug)]
pub(crate) struct Buffer {
    pub(crate) bytes: Vec<u8>,
    /// A set bit is an undefined byte.
    undefined: Vec<u64>,
    undefined_bytes: usize,
}

impl Buffer {
    pub(crate) fn new(bytes: usize) -> Self {
        let mut undefined = vec![u64::MAX; bytes.div_ceil(64)];
        if let (Some(last), rest @ 1..) = (undefined.last_mut(), bytes % 64) {
            *last = (1 << rest) - 1;
        }
        Buffer { bytes: vec![POISON; bytes], undefined, undefined_bytes: bytes }
    }

    pub(crate) const fn is_defined(&self) -> bool {
        self.undefined_bytes == 0
    }

    pub(crate) fn define(&mut self, first: usize, n: usize) {
        if self.undefined_bytes == 0 {
            return;
        }
        let (mut at, end) = (first, first + n);
        while at < end {
            let (bit, len) = (at % 64, (end - at).min(64 - at % 64));
            let mask = if len == 64 { u64::MAX } else { ((1 << len) - 1) << bit };
            let word = &mut self.undefined[at / 64];
            self.undefined_bytes -= (*word & mask).count_ones() as usize;
            *word &= !mask;
            at += len;
        }
    }

    /// Whether every byte of the range has been written.
    pub(crate) fn defined(&self, first: usize, n: usize) -> bool {
        self.undefined_bytes == 0 || (first..first + n).all(|i| self.undefined[i / 64] >> (i % 64) & 1 == 0)
    }

    /// The checked range `offset..offset + bytes`.
    pub(crate) fn range(
        &self,
        id: BufferId,
        offset: u64,
        bytes: u64,
    ) -> Result<std::ops::Range<usize>, DeviceError> {
        let size = self.bytes.len() as u64;
        match offset.checked_add(bytes) {
            Some(end) if end <= size => Ok(offset as usize..end as usize),
            _ => Err(DeviceError::OutOfRange { buffer: id, offset, end: offset.saturating_add(bytes), size }),
        }
    }
}
