//! A device as tests, tools and the launcher see it: allocate, write, launch, read.

use std::sync::atomic::{AtomicU64, Ordering};

use thiserror::Error;

use crate::{DeviceCaps, Grid, StagedKernel};

/// A buffer of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferId(pub u64);

impl BufferId {
    /// One that no buffer of any device of this process has had: a device knows its own buffers by them, so that it never
    /// takes a stale one or another device's for one of these.
    pub fn unique() -> Self {
        static MADE: AtomicU64 = AtomicU64::new(0);
        BufferId(MADE.fetch_add(1, Ordering::Relaxed))
    }
}

/// A range of a buffer, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BufferRange {
    /// The buffer.
    pub buffer: BufferId,
    /// First byte.
    pub offset_bytes: u64,
    /// Length.
    pub bytes: u64,
}

/// One dispatch, after [`crate::launch()`] has checked it.
#[derive(Clone, Copy, Debug)]
pub struct Dispatch<'a> {
    /// The kernel.
    pub kernel: &'a StagedKernel,
    /// One range per binding, in binding order.
    pub bindings: &'a [BufferRange],
    /// Bytes that each binding must at least have, as [`crate::LaunchArgs`] has them; a device that checks every load and
    /// store itself needs none.
    pub needed_bytes: &'a [Option<u64>],
    /// The push-constant block.
    pub push: &'a [u8],
    /// Workgroup counts; never empty.
    pub grid: Grid,
}

/// What a device reports when it cannot do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// No memory for a buffer.
    #[error("cannot allocate {bytes} bytes for {label}: {reason}")]
    OutOfMemory {
        /// What the buffer was for.
        label: String,
        /// Bytes asked for.
        bytes: u64,
        /// What the device said.
        reason: String,
    },
    /// A range outside its buffer, or a buffer the device does not have.
    #[error("bytes {offset}..{end} are outside buffer {buffer:?} of {size} bytes")]
    OutOfRange {
        /// The buffer.
        buffer: BufferId,
        /// First byte asked for.
        offset: u64,
        /// One past the last byte asked for.
        end: u64,
        /// The buffer's size (0 when there is no such buffer).
        size: u64,
    },
    /// A command that cannot be recorded: its arguments do not fit the kernel or the device.
    #[error("{kernel} was refused: {reason}")]
    Refused {
        /// The kernel, or `copy` or `fill`.
        kernel: String,
        /// What was expected, and what was given.
        reason: String,
    },
    /// A kernel that did what the interpreter forbids.
    #[error("{kernel}: {trap}")]
    Trap {
        /// The kernel.
        kernel: String,
        /// What happened, with the source place.
        trap: String,
    },
    /// A Vulkan call that failed.
    #[error("{call} failed for {object}: {result}")]
    Vulkan {
        /// The call.
        call: &'static str,
        /// Kernel or buffer it was for.
        object: String,
        /// The result code's name.
        result: String,
    },
    /// The device was lost while this kernel ran.
    #[error("the device was lost while running {kernel}; its buffers are gone, open it again")]
    Lost {
        /// The kernel.
        kernel: String,
    },
}

/// Somewhere kernels run: the Vulkan runtime, the interpreter, or a test's stand-in.
pub trait Device {
    /// What the device can do.
    fn caps(&self) -> &DeviceCaps;

    /// A new buffer of `bytes` bytes (more than 0). Its content is undefined.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    fn allocate(&self, bytes: u64, label: &str) -> Result<BufferId, DeviceError>;

    /// Gives a buffer back; an unknown id is ignored.
    fn free(&self, buffer: BufferId);

    /// Copies `data` into the buffer at `offset_bytes`.
    ///
    /// # Errors
    /// [`DeviceError::OutOfRange`], or the device's own failure.
    fn write(&self, buffer: BufferId, offset_bytes: u64, data: &[u8]) -> Result<(), DeviceError>;

    /// Copies from the buffer at `offset_bytes` into `out`.
    ///
    /// # Errors
    /// [`DeviceError::OutOfRange`], or the device's own failure.
    fn read(&self, buffer: BufferId, offset_bytes: u64, out: &mut [u8]) -> Result<(), DeviceError>;

    /// Runs one dispatch to its end. Callers use [`crate::launch()`], which checks the arguments first.
    ///
    /// # Errors
    /// The device's own failure, with the kernel's name.
    fn dispatch(&self, dispatch: &Dispatch<'_>) -> Result<(), DeviceError>;
}
