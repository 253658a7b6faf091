//! The logical device that every Vulkan object holds on to, and what becomes of it when it is lost.

use std::sync::{Arc, OnceLock};

use ash::vk;
use kiln_abi::DeviceError;

use crate::{RuntimeError, caps::Probe, instance::Instance, sync::lifecycle};

/// A logical device with its one queue's family. Objects made from it keep it alive.
pub(crate) struct DeviceHandle {
    pub(crate) raw: ash::Device,
    pub(crate) physical: vk::PhysicalDevice,
    pub(crate) queue_family: u32,
    pub(crate) instance: Arc<Instance>,
    /// Whether a pipeline can say whether its driver checks accesses to buffers.
    pub(crate) tells_checks: bool,
    /// Whether each pipeline's code is described as it is made.
    pub(crate) tells_statistics: bool,
    /// What ran when the device was lost.
    lost: OnceLock<String>,
}

impl DeviceHandle {
    pub(crate) fn open(
        instance: Arc<Instance>,
        probe: &Probe,
        queue_family: u32,
        statistics: bool,
    ) -> Result<Self, RuntimeError> {
        let priorities = [1.0];
        let queues = [vk::DeviceQueueCreateInfo::default()
            .queue_family_index(queue_family)
            .queue_priorities(&priorities)];
        let mut extensions = Vec::new();
        if probe.memory_budget {
            extensions.push(ash::ext::memory_budget::NAME.as_ptr());
        }
        extensions.extend(probe.features.extensions().into_iter().map(|name| name.as_ptr()));
        let created = probe.features.enable(|features| {
            let info = vk::DeviceCreateInfo::default()
                .queue_create_infos(&queues)
                .enabled_extension_names(&extensions)
                .push_next(features);
            let _turn = lifecycle();
            // SAFETY: the device is this instance's, has the queue family, the extensions and the features.
            unsafe { instance.raw.create_device(probe.physical, &info, None) }
        });
        let raw = created.map_err(|e| failed("vkCreateDevice", &probe.info.caps.name, e))?;
        let tells_checks = probe.features.pipeline_robustness;
        let tells_statistics = statistics && probe.features.pipeline_statistics;
        let physical = probe.physical;
        Ok(Self {
            raw,
            physical,
            queue_family,
            instance,
            tells_checks,
            tells_statistics,
            lost: OnceLock::new(),
        })
    }

    /// An error once the device is lost: nothing more is asked of it then.
    pub(crate) fn check(&self) -> Result<(), DeviceError> {
        match self.lost.get() {
            Some(kernel) => Err(DeviceError::Lost { kernel: kernel.clone() }),
            None => Ok(()),
        }
    }

    /// The error of a failed call; a lost device stays lost.
    pub(crate) fn error(&self, call: &'static str, object: &str, result: vk::Result) -> DeviceError {
        if result != vk::Result::ERROR_DEVICE_LOST {
            return failed(call, object, result);
        }
        DeviceError::Lost { kernel: self.lost.get_or_init(|| object.to_string()).clone() }
    }
}

impl Drop for DeviceHandle {
    fn drop(&mut self) {
        let _turn = lifecycle();
        // SAFETY: every object holds the device through an Arc, so none is left and nothing runs.
        unsafe { self.raw.destroy_device(None) };
    }
}

/// The error of a failed call on no device or on a healthy one.
pub(crate) fn failed(call: &'static str, object: &str, result: vk::Result) -> DeviceError {
    DeviceError::Vulkan { call, object: object.into(), result: format!("{result:?}") }
}
