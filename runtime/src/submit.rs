//! The one queue: submits in order, each numbered on a timeline that waits look at.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ash::vk;
use kiln_abi::DeviceError;

use crate::{handle::DeviceHandle, sync::lock};

/// A submit: done once the queue's timeline has reached its number.
#[derive(Clone, Debug)]
pub struct Ticket {
    /// The queue whose submits are counted.
    queue: u64,
    value: u64,
    /// The kernels it runs, for errors.
    what: Arc<str>,
}

pub(crate) struct Queue {
    device: Arc<DeviceHandle>,
    /// No other queue of this process has it.
    number: u64,
    raw: vk::Queue,
    timeline: vk::Semaphore,
    last: Mutex<Last>,
    timeout: Duration,
    lose_at: Option<u64>,
}

/// The newest submit. The lock around it is also what makes submits from several threads take turns.
#[derive(Clone, Default)]
struct Last {
    value: u64,
    what: Arc<str>,
}

impl Queue {
    pub(crate) fn new(
        device: Arc<DeviceHandle>,
        timeout: Duration,
        lose_at: Option<u64>,
    ) -> Result<Self, DeviceError> {
        let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: the device is alive, has one queue of this family, and enables timeline semaphores.
        let (raw, made) = unsafe {
            (device.raw.get_device_queue(device.queue_family, 0), device.raw.create_semaphore(&info, None))
        };
        let timeline = made.map_err(|e| device.error("vkCreateSemaphore", "the queue", e))?;
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        Ok(Self { device, number, raw, timeline, last: Mutex::default(), timeout, lose_at })
    }

    /// Submits a recorded command buffer.
    ///
    /// # Safety
    /// The command buffer is executable, may be pending more than once, and stays alive until the ticket is done.
    pub(crate) unsafe fn submit(
        &self,
        commands: vk::CommandBuffer,
        what: &Arc<str>,
    ) -> Result<Ticket, DeviceError> {
        let mut last = lock(&self.last);
        self.device.check()?;
        let value = last.value + 1;
        let buffers = [vk::CommandBufferSubmitInfo::default().command_buffer(commands)];
        let signals = [vk::SemaphoreSubmitInfo::default()
            .semaphore(self.timeline)
            .value(value)
            .stage_mask(vk::PipelineStageFlags2::ALL_COMMANDS)];
        let info = vk::SubmitInfo2::default().command_buffer_infos(&buffers).signal_semaphore_infos(&signals);
        let submitted = if self.lose_at.is_some_and(|at| at <= value) {
            Err(vk::Result::ERROR_DEVICE_LOST)
        } else {
            // SAFETY: the caller vouches for the command buffer, the lock for the queue and for rising values.
            unsafe { self.device.raw.queue_submit2(self.raw, &[info], vk::Fence::null()) }
        };
        submitted.map_err(|e| self.device.error("vkQueueSubmit2", what, e))?;
        *last = Last { value, what: what.clone() };
        Ok(Ticket { queue: self.number, value, what: what.clone() })
    }

    pub(crate) fn wait(&self, ticket: &Ticket, timeout: Option<Duration>) -> Result<(), DeviceError> {
        self.device.check()?;
        self.check(ticket)?;
        let timeout = timeout.unwrap_or(self.timeout);
        let nanoseconds = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        let (semaphores, values) = ([self.timeline], [ticket.value]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        // SAFETY: the semaphore is this device's timeline.
        match unsafe { self.device.raw.wait_semaphores(&info, nanoseconds) } {
            Ok(()) => Ok(()),
            Err(vk::Result::TIMEOUT) => Err(DeviceError::Vulkan {
                call: "vkWaitSemaphores",
                object: ticket.what.to_string(),
                result: format!("TIMEOUT, it still runs after {timeout:?}"),
            }),
            Err(e) => Err(self.device.error("vkWaitSemaphores", &ticket.what, e)),
        }
    }

    /// Whether a submit is one of this queue's.
    fn check(&self, ticket: &Ticket) -> Result<(), DeviceError> {
        if ticket.queue == self.number {
            return Ok(());
        }
        let reason = "it was submitted to another device: wait for it there".to_owned();
        Err(DeviceError::Refused { kernel: ticket.what.to_string(), reason })
    }

    /// Waits for everything submitted so far.
    pub(crate) fn drain(&self) -> Result<(), DeviceError> {
        let Last { value, what } = lock(&self.last).clone();
        if value == 0 {
            self.device.check()
        } else {
            self.wait(&Ticket { queue: self.number, value, what }, None)
        }
    }

    pub(crate) fn is_done(&self, ticket: &Ticket) -> Result<bool, DeviceError> {
        self.device.check()?;
        self.check(ticket)?;
        // SAFETY: the semaphore is this device's timeline.
        let value = unsafe { self.device.raw.get_semaphore_counter_value(self.timeline) };
        let value = value.map_err(|e| self.device.error("vkGetSemaphoreCounterValue", &ticket.what, e))?;
        Ok(value >= ticket.value)
    }

    /// Whether a submit can no longer touch anything: it is done, or the device is gone.
    pub(crate) fn is_over(&self, ticket: &Ticket) -> bool {
        matches!(self.wait_past_loss(ticket), Ok(()) | Err(vk::Result::ERROR_DEVICE_LOST))
    }

    /// As [`Queue::wait`], also when the device counts as lost: a simulated loss leaves real work running.
    fn wait_past_loss(&self, ticket: &Ticket) -> Result<(), vk::Result> {
        let (semaphores, values) = ([self.timeline], [ticket.value]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        let nanoseconds = u64::try_from(self.timeout.as_nanos()).unwrap_or(u64::MAX);
        // SAFETY: the semaphore is this device's timeline.
        unsafe { self.device.raw.wait_semaphores(&info, nanoseconds) }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: recordings hold the queue and wait for their submits, so the semaphore has no work left; a wait
        // that fails means that the device is gone.
        unsafe {
            let _ = self.device.raw.device_wait_idle();
            self.device.raw.destroy_semaphore(self.timeline, None);
        }
    }
}
