//! The live buffers by id.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use kiln_abi::{BufferId, BufferRange, DeviceError};

use crate::{memory::Allocation, sync::lock};

/// Ids are never used twice, so a stale one and another device's are an error and never somebody else's buffer.
#[derive(Default)]
pub(crate) struct Buffers(Mutex<HashMap<BufferId, Arc<Allocation>>>);

impl Buffers {
    pub(crate) fn insert(&self, allocation: Allocation) -> BufferId {
        let id = BufferId::unique();
        lock(&self.0).insert(id, Arc::new(allocation));
        id
    }

    pub(crate) fn remove(&self, id: BufferId) -> Option<Arc<Allocation>> {
        lock(&self.0).remove(&id)
    }

    pub(crate) fn get(&self, id: BufferId) -> Option<Arc<Allocation>> {
        lock(&self.0).get(&id).cloned()
    }

    /// The buffer of a range that lies inside it.
    pub(crate) fn resolve(&self, range: BufferRange) -> Result<Arc<Allocation>, DeviceError> {
        let found = self.get(range.buffer);
        let size = found.as_ref().map_or(0, |allocation| allocation.bytes);
        let end = range.offset_bytes.saturating_add(range.bytes);
        let outside =
            || DeviceError::OutOfRange { buffer: range.buffer, offset: range.offset_bytes, end, size };
        found.filter(|_| end <= size).ok_or_else(outside)
    }

    /// Number and bytes of the live buffers.
    pub(crate) fn in_use(&self) -> (usize, u64) {
        let live = lock(&self.0);
        (live.len(), live.values().map(|allocation| allocation.bytes).sum())
    }
}
