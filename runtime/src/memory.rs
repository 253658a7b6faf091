//! Device memory: slabs of one buffer each, and the ranges handed out of them.

use std::{
    ptr::NonNull,
    sync::{
        Arc, Mutex,
        atomic::{Ordering, fence},
    },
};

use ash::vk;
use kiln_abi::{DeviceError, Limits};

use crate::{handle::DeviceHandle, ranges::Ranges, room::Room, sync::lock};

/// Bytes of a device slab that small buffers share.
const DEVICE_SLAB_BYTES: u64 = 64 << 20;
/// The same in host memory, which holds little: it is pinned.
const HOST_SLAB_BYTES: u64 = 4 << 20;
/// From this size on a buffer has a slab of its own, so that little is lost between large tensors.
const OWN_SLAB_BYTES: u64 = 16 << 20;
/// Every range starts and ends at a multiple of this: no device asks for more of a binding's offset.
const ALIGNMENT: u64 = 256;

/// Where a buffer lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Placement {
    /// The device's own memory.
    Device,
    /// Host memory that kernels can reach and the host can look into while they run.
    Host,
}

/// Which memory types are used, and whether the host can copy straight into device buffers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryTypes {
    device: u32,
    device_mapped: bool,
    host: u32,
}

impl MemoryTypes {
    /// Picks among the types in the driver's order, which puts the faster of two alike first.
    ///
    /// Device memory is mapped only where the host reads it through its caches; over a bus, staging is faster.
    pub(crate) fn choose(types: &[vk::MemoryType], allow_mapped: bool) -> Option<Self> {
        use vk::MemoryPropertyFlags as Flags;
        let coherent = Flags::HOST_VISIBLE | Flags::HOST_COHERENT;
        let avoided = Flags::PROTECTED | Flags::DEVICE_COHERENT_AMD | Flags::LAZILY_ALLOCATED;
        let first = |wanted: Flags, unwanted: Flags| {
            let at = types.iter().position(|t| {
                t.property_flags.contains(wanted) && !t.property_flags.intersects(unwanted | avoided)
            })?;
            u32::try_from(at).ok()
        };
        let mapped = allow_mapped
            .then(|| first(Flags::DEVICE_LOCAL | coherent | Flags::HOST_CACHED, Flags::empty()))
            .flatten();
        let device = mapped
            .or_else(|| first(Flags::DEVICE_LOCAL, Flags::HOST_VISIBLE))
            .or_else(|| first(Flags::DEVICE_LOCAL, Flags::empty()))?;
        let host = first(coherent | Flags::HOST_CACHED, Flags::empty())
            .or_else(|| first(coherent, Flags::empty()))?;
        Some(Self { device, device_mapped: mapped.is_some(), host })
    }
}

/// Bytes in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Buffers that are allocated.
    pub buffers: usize,
    /// Bytes they were asked for.
    pub buffer_bytes: u64,
    /// Slabs of device memory; host memory is not counted.
    pub slabs: usize,
    /// Bytes of them.
    pub slab_bytes: u64,
}

/// The allocator.
pub(crate) struct Memory {
    device: Arc<DeviceHandle>,
    types: MemoryTypes,
    limits: Limits,
    slabs: Mutex<Vec<Arc<Slab>>>,
}

impl Memory {
    pub(crate) fn new(device: Arc<DeviceHandle>, types: MemoryTypes, limits: Limits) -> Self {
        Self { device, types, limits, slabs: Mutex::default() }
    }

    /// The largest buffer that can exist: it must be bindable as a whole and fit one allocation.
    pub(crate) fn largest_buffer(&self) -> u64 {
        self.limits.max_binding_bytes.min(self.slab_limit())
    }

    fn slab_limit(&self) -> u64 {
        self.limits.max_allocation_bytes.min(self.limits.max_buffer_bytes) / ALIGNMENT * ALIGNMENT
    }

    /// `bytes` bytes, at most [`Memory::largest_buffer`]. `room` is asked only when a new slab is needed.
    pub(crate) fn take(
        &self,
        placement: Placement,
        bytes: u64,
        label: &str,
        room: impl FnOnce() -> Option<Room>,
    ) -> Result<Allocation, DeviceError> {
        let out_of_memory = |reason| DeviceError::OutOfMemory { label: label.into(), bytes, reason };
        let largest = self.largest_buffer();
        if bytes == 0 {
            return Err(out_of_memory("a buffer has at least one byte".into()));
        }
        if bytes > largest {
            return Err(out_of_memory(format!(
                "one buffer of this device holds at most {largest} bytes; split it by rows"
            )));
        }
        let rounded = bytes.next_multiple_of(ALIGNMENT);
        let mut slabs = lock(&self.slabs);
        let shared = slabs.iter().filter(|slab| slab.placement == placement && slab.shared);
        let found = if rounded >= OWN_SLAB_BYTES {
            None
        } else {
            shared.into_iter().find_map(|slab| Some((slab.clone(), lock(&slab.ranges).take(rounded)?)))
        };
        if let Some((slab, offset)) = found {
            return Ok(Allocation { slab, offset, bytes, rounded, label: label.into() });
        }
        let shared = rounded < OWN_SLAB_BYTES;
        let room = room();
        let most = room.map_or(u64::MAX, |room| room.bytes / ALIGNMENT * ALIGNMENT).min(self.slab_limit());
        let usual = match placement {
            Placement::Device => DEVICE_SLAB_BYTES,
            Placement::Host => HOST_SLAB_BYTES,
        };
        let slab_bytes = if shared { usual.min(most).max(rounded) } else { rounded };
        if let Some(room) = room.filter(|room| slab_bytes > room.bytes) {
            return Err(out_of_memory(format!("{room}; free buffers, or ask for less")));
        }
        let made = Slab::new(&self.device, placement, self.types, slab_bytes, shared);
        let slab = Arc::new(made.map_err(|(call, result)| match result {
            vk::Result::ERROR_OUT_OF_DEVICE_MEMORY | vk::Result::ERROR_OUT_OF_HOST_MEMORY => {
                out_of_memory(format!(
                    "{call} says {result:?} for a slab of {slab_bytes} bytes; free buffers, or ask for less"
                ))
            }
            other => self.device.error(call, label, other),
        })?);
        // A fresh slab is one free range of at least `rounded` bytes.
        let offset = lock(&slab.ranges).take(rounded).unwrap_or_default();
        slabs.push(slab.clone());
        Ok(Allocation { slab, offset, bytes, rounded, label: label.into() })
    }

    /// Gives unused slabs back, but for one shared slab of each placement.
    pub(crate) fn trim(&self) {
        let mut kept = Vec::new();
        lock(&self.slabs).retain(|slab| {
            if !lock(&slab.ranges).is_unused() {
                return true;
            }
            let keep = slab.shared && !kept.contains(&slab.placement);
            kept.push(slab.placement);
            keep
        });
    }

    /// Number and bytes of the slabs of device memory.
    pub(crate) fn slab_use(&self) -> (usize, u64) {
        let slabs = lock(&self.slabs);
        let device = slabs.iter().filter(|slab| slab.placement == Placement::Device);
        device.fold((0, 0), |(count, bytes), slab| (count + 1, bytes + slab.bytes))
    }
}

/// The start of a slab's mapping; it stays until the slab goes.
struct Mapping(NonNull<u8>);

// SAFETY: the pointer is plain memory of the process; `Allocation` says who may touch it when.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

/// One buffer over one allocation.
struct Slab {
    device: Arc<DeviceHandle>,
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    bytes: u64,
    placement: Placement,
    /// Whether several buffers may live in it.
    shared: bool,
    mapping: Option<Mapping>,
    ranges: Mutex<Ranges>,
}

impl Slab {
    fn new(
        device: &Arc<DeviceHandle>,
        placement: Placement,
        types: MemoryTypes,
        bytes: u64,
        shared: bool,
    ) -> Result<Self, (&'static str, vk::Result)> {
        let (memory_type, mapped) = match placement {
            Placement::Device => (types.device, types.device_mapped),
            Placement::Host => (types.host, true),
        };
        let usage = vk::BufferUsageFlags::STORAGE_BUFFER
            | vk::BufferUsageFlags::INDIRECT_BUFFER
            | vk::BufferUsageFlags::TRANSFER_SRC
            | vk::BufferUsageFlags::TRANSFER_DST;
        let info = vk::BufferCreateInfo::default().size(bytes).usage(usage);
        // SAFETY: the device is alive. The slab owns each object from here on and destroys it however this ends.
        let buffer = unsafe { device.raw.create_buffer(&info, None) }.map_err(|e| ("vkCreateBuffer", e))?;
        let mut slab = Self {
            device: device.clone(),
            buffer,
            memory: vk::DeviceMemory::null(),
            bytes,
            placement,
            shared,
            mapping: None,
            ranges: Mutex::new(Ranges::new(bytes)),
        };
        // SAFETY: the buffer was just made by this device.
        let needed = unsafe { device.raw.get_buffer_memory_requirements(buffer) };
        let info =
            vk::MemoryAllocateInfo::default().allocation_size(needed.size).memory_type_index(memory_type);
        // SAFETY: the memory type is one of the device's.
        slab.memory =
            unsafe { device.raw.allocate_memory(&info, None) }.map_err(|e| ("vkAllocateMemory", e))?;
        // SAFETY: both are this device's and unbound; the memory has the size the buffer asks for.
        unsafe { device.raw.bind_buffer_memory(buffer, slab.memory, 0) }
            .map_err(|e| ("vkBindBufferMemory", e))?;
        if mapped {
            let flags = vk::MemoryMapFlags::empty();
            // SAFETY: the memory is host visible and not mapped yet.
            let start = unsafe { device.raw.map_memory(slab.memory, 0, vk::WHOLE_SIZE, flags) }
                .map_err(|e| ("vkMapMemory", e))?;
            slab.mapping = NonNull::new(start.cast()).map(Mapping);
        }
        Ok(slab)
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: allocations hold the slab, recordings hold their allocations until they have run; so nothing
        // uses either object. Destroying a null handle and freeing mapped memory are both allowed.
        unsafe {
            self.device.raw.destroy_buffer(self.buffer, None);
            self.device.raw.free_memory(self.memory, None);
        }
    }
}

/// A buffer's range of a slab. It is given back when the last holder (table entry or recording) drops it.
pub(crate) struct Allocation {
    slab: Arc<Slab>,
    offset: u64,
    pub(crate) bytes: u64,
    rounded: u64,
    pub(crate) label: String,
}

impl Allocation {
    pub(crate) fn buffer(&self) -> vk::Buffer {
        self.slab.buffer
    }

    /// Where byte 0 lies in the slab's buffer.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    pub(crate) fn is_mapped(&self) -> bool {
        self.slab.mapping.is_some()
    }

    /// The address of `start` in the mapping, if there is one and `start..start + length` is inside the buffer.
    fn address(&self, start: u64, length: usize) -> Option<NonNull<u8>> {
        let end = start.checked_add(length as u64)?;
        let mapping = self.slab.mapping.as_ref().filter(|_| end <= self.bytes)?;
        let at = usize::try_from(self.offset + start).ok()?;
        // SAFETY: the range was just checked against the buffer, which lies inside the mapping.
        Some(unsafe { mapping.0.add(at) })
    }

    /// Copies into the mapping; false when the buffer is not mapped or too short.
    ///
    /// # Safety
    /// No other thread copies to or from this buffer through its mapping during the call.
    pub(crate) unsafe fn copy_in(&self, start: u64, data: &[u8]) -> bool {
        let Some(to) = self.address(start, data.len()) else { return false };
        // SAFETY: `address` checked the range; the caller keeps other threads away; Rust memory does not alias it.
        unsafe { to.as_ptr().copy_from_nonoverlapping(data.as_ptr(), data.len()) };
        true
    }

    /// Copies out of the mapping; false when the buffer is not mapped or too short.
    ///
    /// # Safety
    /// As for [`Allocation::copy_in`].
    pub(crate) unsafe fn copy_out(&self, start: u64, out: &mut [u8]) -> bool {
        let Some(from) = self.address(start, out.len()) else { return false };
        // SAFETY: as in `copy_in`.
        unsafe { from.as_ptr().copy_to_nonoverlapping(out.as_mut_ptr(), out.len()) };
        true
    }

    /// The word at `start`, which a running kernel may be changing.
    pub(crate) fn peek(&self, start: u64) -> Option<u32> {
        let at = self.address(start, 4).filter(|at| at.cast::<u32>().is_aligned())?;
        // SAFETY: the range is inside the mapping and aligned; the load is volatile, as the device may write there.
        let word = u32::from_le(unsafe { at.cast::<u32>().read_volatile() });
        // A reader that sees a sequence number here then sees what was written before it.
        fence(Ordering::Acquire);
        Some(word)
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        lock(&self.slab.ranges).give(self.offset, self.rounded);
    }
}

#[cfg(test)]
mod tests {
    use super::MemoryTypes;
    use ash::vk::{MemoryPropertyFlags as Flags, MemoryType};

    fn types(flags: &[Flags]) -> Vec<MemoryType> {
        flags.iter().map(|&property_flags| MemoryType { property_flags, heap_index: 0 }).collect()
    }

    #[test]
    fn a_card_keeps_its_buffers_in_its_own_memory_and_stages_through_cached_host_memory() {
        let coherent = Flags::HOST_VISIBLE | Flags::HOST_COHERENT;
        let card = types(&[
            Flags::empty(),
            Flags::DEVICE_LOCAL,
            coherent,
            coherent | Flags::HOST_CACHED,
            Flags::DEVICE_LOCAL | coherent,
        ]);
        let found = MemoryTypes::choose(&card, true).unwrap();
        assert_eq!((found.device, found.device_mapped, found.host), (1, false, 3));
    }

    #[test]
    fn shared_memory_is_mapped_unless_that_is_switched_off() {
        let all = Flags::DEVICE_LOCAL | Flags::HOST_VISIBLE | Flags::HOST_COHERENT | Flags::HOST_CACHED;
        let found = MemoryTypes::choose(&types(&[all]), true).unwrap();
        assert_eq!((found.device, found.device_mapped, found.host), (0, true, 0));
        let found = MemoryTypes::choose(&types(&[all]), false).unwrap();
        assert_eq!((found.device, found.device_mapped, found.host), (0, false, 0));
    }

    #[test]
    fn memory_with_strings_attached_is_not_used() {
        let coherent = Flags::HOST_VISIBLE | Flags::HOST_COHERENT;
        let odd = types(&[Flags::DEVICE_LOCAL | Flags::PROTECTED, Flags::DEVICE_LOCAL, coherent]);
        assert_eq!(MemoryTypes::choose(&odd, true).unwrap().device, 1);
        assert!(MemoryTypes::choose(&odd[..1], true).is_none());
    }
}
