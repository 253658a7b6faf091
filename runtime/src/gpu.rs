//! An open device: the value that everything else of the engine holds.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use kiln_abi::{BufferId, BufferRange, Device, DeviceCaps, DeviceError, Dispatch, LaunchError, StagedKernel};

use crate::{
    CacheUse, DeviceInfo, MemoryUse, Placement, Prepared, RecordOptions, Recorder, Room, RuntimeError,
    RuntimeOptions, Ticket, ValidationLog,
    buffers::Buffers,
    cache::DiskCache,
    caps, choose,
    handle::DeviceHandle,
    instance::Instance,
    memory::{Memory, MemoryTypes},
    pipeline::Pipelines,
    record,
    submit::Queue,
    transfer::{self, HostCopies},
};

/// An open device. Clones share it; it may be used from several threads.
#[derive(Clone)]
pub struct Gpu(pub(crate) Arc<Shared>);

/// Fields that use the queue come before it: they are dropped in this order.
pub(crate) struct Shared {
    pub(crate) host_copies: Mutex<HostCopies>,
    pub(crate) buffers: Buffers,
    pub(crate) pipelines: Pipelines,
    pub(crate) memory: Memory,
    pub(crate) queue: Queue,
    allocations: AtomicU64,
    memory_budget: bool,
    info: DeviceInfo,
    pub(crate) options: RuntimeOptions,
    pub(crate) device: Arc<DeviceHandle>,
}

/// Every Vulkan device of this machine in the loader's order, usable or not.
///
/// # Errors
/// [`RuntimeError::NoLoader`], [`RuntimeError::NoDriver`] and their like.
pub fn devices() -> Result<Vec<DeviceInfo>, RuntimeError> {
    let instance = Instance::open(false)?;
    Ok(caps::probe_all(&instance)?.into_iter().map(|probe| probe.info).collect())
}

impl Gpu {
    /// Opens a device.
    ///
    /// # Errors
    /// [`RuntimeError`], each saying what to install or to choose.
    pub fn open(options: &RuntimeOptions) -> Result<Self, RuntimeError> {
        let instance = Instance::open(options.validation)?;
        let mut probes = caps::probe_all(&instance)?;
        let infos: Vec<_> = probes.iter().map(|probe| probe.info.clone()).collect();
        let mut probe = probes.swap_remove(choose::choose(&infos, options.device.as_deref())?);
        probe.info.caps.leave_out(&options.without);
        let unusable = |reasons: &str| RuntimeError::Unusable {
            device: probe.info.caps.name.clone(),
            reasons: reasons.into(),
        };
        let family = probe.queue_family.ok_or_else(|| unusable("it has no compute queue"))?;
        let device = Arc::new(DeviceHandle::open(instance, &probe, family, options.statistics)?);
        // SAFETY: the physical device is the instance's.
        let types = unsafe { device.instance.raw.get_physical_device_memory_properties(device.physical) };
        let types = MemoryTypes::choose(types.memory_types_as_slice(), !options.force_staging)
            .ok_or_else(|| unusable("it has no memory that host and device both reach"))?;
        let info = probe.info;
        let disk = DiskCache::new(&options.cache, info.driver_uuid, info.device_uuid);
        let faults = &options.faults;
        Ok(Self(Arc::new(Shared {
            host_copies: Mutex::default(),
            buffers: Buffers::default(),
            pipelines: Pipelines::new(device.clone(), disk, faults.fail_pipeline.clone()),
            memory: Memory::new(device.clone(), types, info.caps.limits.clone()),
            queue: Queue::new(device.clone(), options.timeout_on(info.caps.kind), faults.lose_at_submit)?,
            allocations: AtomicU64::new(0),
            memory_budget: probe.memory_budget,
            info,
            options: options.clone(),
            device,
        })))
    }

    /// What is known of the device, as it was when it was opened.
    pub fn info(&self) -> &DeviceInfo {
        &self.0.info
    }

    /// Device memory that can still be used, asked for now.
    pub fn room(&self) -> Room {
        let device = &self.0.device;
        let heaps = caps::heaps(&device.instance, device.physical, self.0.memory_budget);
        let room = caps::device_room(&heaps, self.0.info.caps.kind);
        Room { bytes: self.0.options.faults.room_bytes.unwrap_or(room.bytes), ..room }
    }

    /// The largest buffer that [`Device::allocate`] gives, in bytes: bindable as a whole, in one allocation.
    pub fn largest_buffer(&self) -> u64 {
        self.0.memory.largest_buffer()
    }

    /// Buffers and slabs in use.
    pub fn memory_use(&self) -> MemoryUse {
        let (buffers, buffer_bytes) = self.0.buffers.in_use();
        let (slabs, slab_bytes) = self.0.memory.slab_use();
        MemoryUse { buffers, buffer_bytes, slabs, slab_bytes }
    }

    /// As [`Device::allocate`], where the caller says.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`] with what would fit, or [`DeviceError::Lost`].
    pub fn allocate_in(
        &self,
        placement: Placement,
        bytes: u64,
        label: &str,
    ) -> Result<BufferId, DeviceError> {
        self.0.device.check()?;
        let count = self.0.allocations.fetch_add(1, Ordering::Relaxed) + 1;
        if self.0.options.faults.fail_allocation == Some(count) {
            let reason = format!("this is allocation {count}, which is made to fail");
            return Err(DeviceError::OutOfMemory { label: label.into(), bytes, reason });
        }
        let room = || (placement == Placement::Device).then(|| self.room());
        Ok(self.0.buffers.insert(self.0.memory.take(placement, bytes, label, room)?))
    }

    /// The size a live buffer was asked for.
    pub fn buffer_bytes(&self, buffer: BufferId) -> Option<u64> {
        self.0.buffers.get(buffer).map(|allocation| allocation.bytes)
    }

    /// The word at a multiple of 4 bytes in a buffer of [`Placement::Host`], without waiting for anything: what a
    /// running kernel has written by now.
    ///
    /// # Errors
    /// [`DeviceError::OutOfRange`], [`DeviceError::Refused`] for a buffer the host cannot see, [`DeviceError::Lost`].
    pub fn peek(&self, buffer: BufferId, offset_bytes: u64) -> Result<u32, DeviceError> {
        self.0.device.check()?;
        let found = self.0.buffers.resolve(BufferRange { buffer, offset_bytes, bytes: 4 })?;
        found.peek(offset_bytes).ok_or_else(|| DeviceError::Refused {
            kernel: format!("peek into {}", found.label),
            reason: format!("byte {offset_bytes} is not a mapped, aligned word; allocate it in host memory"),
        })
    }

    /// The kernel's pipeline, made or found.
    ///
    /// # Errors
    /// What the device lacks, by name; or the driver's failure with the kernel's name.
    pub fn prepare(&self, kernel: &StagedKernel) -> Result<Prepared, LaunchError> {
        self.0.pipelines.prepare(self, kernel)
    }

    /// How often pipelines were found in memory, on disk, or compiled.
    pub fn cache_use(&self) -> CacheUse {
        self.0.pipelines.counts()
    }

    /// Starts a recording; its name stands in errors.
    ///
    /// # Errors
    /// [`DeviceError::Lost`] or a Vulkan failure.
    pub fn recorder(&self, name: &str, options: RecordOptions) -> Result<Recorder, DeviceError> {
        Recorder::new(self, name, options)
    }

    /// Waits for a submit; without a timeout, as long as the options say.
    ///
    /// # Errors
    /// [`DeviceError::Lost`], or [`DeviceError::Vulkan`] with `TIMEOUT` (the submit still runs and can be waited for
    /// again).
    pub fn wait(&self, ticket: &Ticket, timeout: Option<Duration>) -> Result<(), DeviceError> {
        self.0.queue.wait(ticket, timeout)
    }

    /// Whether a submit is done; a caller that spins on this is woken sooner than one that waits.
    ///
    /// # Errors
    /// [`DeviceError::Lost`] or a Vulkan failure.
    pub fn is_done(&self, ticket: &Ticket) -> Result<bool, DeviceError> {
        self.0.queue.is_done(ticket)
    }

    /// The validation layer's warnings and errors so far.
    pub fn validation_messages(&self) -> Vec<String> {
        self.validation_log().messages()
    }

    /// The validation layer's log; it can be read after the device is gone.
    pub fn validation_log(&self) -> ValidationLog {
        self.0.device.instance.log.clone()
    }
}

impl Device for Gpu {
    fn caps(&self) -> &DeviceCaps {
        &self.0.info.caps
    }

    fn allocate(&self, bytes: u64, label: &str) -> Result<BufferId, DeviceError> {
        self.allocate_in(Placement::Device, bytes, label)
    }

    fn free(&self, buffer: BufferId) {
        if let Some(allocation) = self.0.buffers.remove(buffer) {
            drop(allocation);
            self.0.memory.trim();
        }
    }

    fn write(&self, buffer: BufferId, offset_bytes: u64, data: &[u8]) -> Result<(), DeviceError> {
        transfer::write(self, buffer, offset_bytes, data)
    }

    fn read(&self, buffer: BufferId, offset_bytes: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        transfer::read(self, buffer, offset_bytes, out)
    }

    fn dispatch(&self, dispatch: &Dispatch<'_>) -> Result<(), DeviceError> {
        record::run_one(self, dispatch)
    }
}
