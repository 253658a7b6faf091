//! Which Vulkan features a device has, which of them Kiln enables, and the SPIR-V capabilities they give.

use std::{collections::BTreeSet, ffi::CStr};

use ash::vk;
use kiln_abi::spirv::Capability;

use crate::{instance::Instance, matrix::MatrixFeatures};

const ROBUSTNESS: &CStr = ash::ext::pipeline_robustness::NAME;
const STATISTICS: &CStr = ash::khr::pipeline_executable_properties::NAME;

/// The features Kiln knows of, as a device reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Features {
    pub(crate) shader_int16: bool,
    pub(crate) shader_int8: bool,
    pub(crate) shader_float16: bool,
    pub(crate) storage_16bit: bool,
    pub(crate) storage_8bit: bool,
    pub(crate) memory_model: bool,
    pub(crate) memory_model_device_scope: bool,
    pub(crate) subgroup_extended_types: bool,
    pub(crate) scalar_block_layout: bool,
    pub(crate) timeline_semaphore: bool,
    pub(crate) synchronization2: bool,
    pub(crate) subgroup_size_control: bool,
    pub(crate) full_subgroups: bool,
    pub(crate) integer_dot_product: bool,
    pub(crate) maintenance4: bool,
    pub(crate) buffer_device_address: bool,
    pub(crate) pipeline_robustness: bool,
    pub(crate) pipeline_statistics: bool,
    pub(crate) matrix: MatrixFeatures,
}

impl Features {
    /// Asks a device that speaks Vulkan 1.3.
    pub(crate) fn query(
        instance: &Instance,
        device: vk::PhysicalDevice,
        has: &dyn Fn(&CStr) -> bool,
    ) -> Self {
        let mut v11 = vk::PhysicalDeviceVulkan11Features::default();
        let mut v12 = vk::PhysicalDeviceVulkan12Features::default();
        let mut v13 = vk::PhysicalDeviceVulkan13Features::default();
        let mut robustness = vk::PhysicalDevicePipelineRobustnessFeaturesEXT::default();
        let mut statistics = vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR::default();
        let mut all = vk::PhysicalDeviceFeatures2::default()
            .push_next(&mut v11)
            .push_next(&mut v12)
            .push_next(&mut v13);
        if has(STATISTICS) {
            all = all.push_next(&mut statistics);
        }
        if has(ROBUSTNESS) {
            all = all.push_next(&mut robustness);
        }
        // SAFETY: the device is this instance's, and the chain, linked only where its extensions are there, lives
        // during the call.
        unsafe { instance.raw.get_physical_device_features2(device, &mut all) };
        let core = all.features;
        let on = |flag: vk::Bool32| flag != vk::FALSE;
        Self {
            shader_int16: on(core.shader_int16),
            shader_int8: on(v12.shader_int8),
            shader_float16: on(v12.shader_float16),
            storage_16bit: on(v11.storage_buffer16_bit_access),
            storage_8bit: on(v12.storage_buffer8_bit_access),
            memory_model: on(v12.vulkan_memory_model),
            memory_model_device_scope: on(v12.vulkan_memory_model_device_scope),
            subgroup_extended_types: on(v12.shader_subgroup_extended_types),
            scalar_block_layout: on(v12.scalar_block_layout),
            timeline_semaphore: on(v12.timeline_semaphore),
            synchronization2: on(v13.synchronization2),
            subgroup_size_control: on(v13.subgroup_size_control),
            full_subgroups: on(v13.compute_full_subgroups),
            integer_dot_product: on(v13.shader_integer_dot_product),
            maintenance4: on(v13.maintenance4),
            buffer_device_address: on(v12.buffer_device_address),
            pipeline_robustness: on(robustness.pipeline_robustness),
            pipeline_statistics: on(statistics.pipeline_executable_info),
            matrix: MatrixFeatures::query(instance, device, has),
        }
    }

    /// The features without which Kiln cannot use a device, each with whether it is there.
    pub(crate) fn required(&self) -> [(&'static str, bool); 4] {
        [
            ("the Vulkan memory model (vulkanMemoryModel)", self.memory_model),
            ("timeline semaphores (timelineSemaphore)", self.timeline_semaphore),
            ("synchronization2", self.synchronization2),
            ("maintenance4", self.maintenance4),
        ]
    }

    /// The device extensions that hold what was reported.
    pub(crate) fn extensions(&self) -> Vec<&'static CStr> {
        let robustness = self.pipeline_robustness.then_some(ROBUSTNESS);
        let statistics = self.pipeline_statistics.then_some(STATISTICS);
        self.matrix.extensions().into_iter().chain(robustness).chain(statistics).collect()
    }

    /// Runs `create` with the chain that enables exactly what was reported. Features Kiln has no use for (robust
    /// buffer access among them, which costs speed) stay off.
    pub(crate) fn enable<R>(&self, create: impl FnOnce(&mut vk::PhysicalDeviceFeatures2<'_>) -> R) -> R {
        let core = vk::PhysicalDeviceFeatures::default().shader_int16(self.shader_int16);
        let mut v11 =
            vk::PhysicalDeviceVulkan11Features::default().storage_buffer16_bit_access(self.storage_16bit);
        let mut v12 = vk::PhysicalDeviceVulkan12Features::default()
            .shader_int8(self.shader_int8)
            .shader_float16(self.shader_float16)
            .storage_buffer8_bit_access(self.storage_8bit)
            .vulkan_memory_model(self.memory_model)
            .vulkan_memory_model_device_scope(self.memory_model_device_scope)
            .shader_subgroup_extended_types(self.subgroup_extended_types)
            .scalar_block_layout(self.scalar_block_layout)
            .timeline_semaphore(self.timeline_semaphore)
            .buffer_device_address(self.buffer_device_address);
        let mut v13 = vk::PhysicalDeviceVulkan13Features::default()
            .synchronization2(self.synchronization2)
            .subgroup_size_control(self.subgroup_size_control)
            .compute_full_subgroups(self.full_subgroups)
            .shader_integer_dot_product(self.integer_dot_product)
            .maintenance4(self.maintenance4);
        let mut robustness =
            vk::PhysicalDevicePipelineRobustnessFeaturesEXT::default().pipeline_robustness(true);
        let mut all = vk::PhysicalDeviceFeatures2::default()
            .features(core)
            .push_next(&mut v11)
            .push_next(&mut v12)
            .push_next(&mut v13);
        let mut statistics = vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR::default()
            .pipeline_executable_info(true);
        if self.pipeline_statistics {
            all = all.push_next(&mut statistics);
        }
        if self.pipeline_robustness {
            all = all.push_next(&mut robustness);
        }
        self.matrix.enable(all, create)
    }

    /// The SPIR-V capabilities that enabling these features allows; `subgroup` holds what compute stages support.
    pub(crate) fn capabilities(&self, subgroup: vk::SubgroupFeatureFlags) -> BTreeSet<Capability> {
        let has = |flag| subgroup.contains(flag);
        Capability::ALL
            .iter()
            .copied()
            .filter(|capability| match capability {
                Capability::Shader => true,
                Capability::Float16 => self.shader_float16,
                Capability::Int16 => self.shader_int16,
                Capability::Int8 => self.shader_int8,
                Capability::GroupNonUniform => has(vk::SubgroupFeatureFlags::BASIC),
                Capability::GroupNonUniformVote => has(vk::SubgroupFeatureFlags::VOTE),
                Capability::GroupNonUniformArithmetic => has(vk::SubgroupFeatureFlags::ARITHMETIC),
                Capability::GroupNonUniformBallot => has(vk::SubgroupFeatureFlags::BALLOT),
                Capability::GroupNonUniformShuffle => has(vk::SubgroupFeatureFlags::SHUFFLE),
                Capability::GroupNonUniformShuffleRelative => has(vk::SubgroupFeatureFlags::SHUFFLE_RELATIVE),
                Capability::StorageBuffer16BitAccess => self.storage_16bit,
                Capability::StorageBuffer8BitAccess => self.storage_8bit,
                Capability::VulkanMemoryModel => self.memory_model,
                Capability::VulkanMemoryModelDeviceScope => self.memory_model_device_scope,
                Capability::DotProductInput4x8BitPacked | Capability::DotProduct => self.integer_dot_product,
                Capability::PhysicalStorageBufferAddresses => self.buffer_device_address,
                other => self.matrix.gives(*other).unwrap_or(false),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Features;
    use ash::vk::SubgroupFeatureFlags as Subgroup;
    use kiln_abi::spirv::Capability;
    use std::collections::BTreeSet;

    #[test]
    fn a_device_without_features_has_the_base_capability_alone() {
        let found = Features::default().capabilities(Subgroup::empty());
        assert_eq!(found, BTreeSet::from([Capability::Shader]));
    }

    #[test]
    fn a_feature_of_an_extension_asks_for_it() {
        assert_eq!(Features::default().extensions(), [c""; 0]);
        let features = Features { pipeline_robustness: true, ..Features::default() };
        assert_eq!(features.extensions(), [c"VK_EXT_pipeline_robustness"]);
        features.enable(|all| assert!(!all.p_next.is_null()));
        let features = Features { pipeline_statistics: true, ..Features::default() };
        assert_eq!(features.extensions(), [c"VK_KHR_pipeline_executable_properties"]);
    }

    #[test]
    fn each_feature_gives_its_own_capabilities() {
        let none = Features::default();
        for (features, expected) in [
            (Features { shader_float16: true, ..none }, vec![Capability::Float16]),
            (Features { storage_8bit: true, ..none }, vec![Capability::StorageBuffer8BitAccess]),
            (Features { storage_16bit: true, ..none }, vec![Capability::StorageBuffer16BitAccess]),
            (
                Features { integer_dot_product: true, ..none },
                vec![Capability::DotProductInput4x8BitPacked, Capability::DotProduct],
            ),
        ] {
            let mut found = features.capabilities(Subgroup::empty());
            assert!(found.remove(&Capability::Shader));
            assert_eq!(found.into_iter().collect::<Vec<_>>(), expected);
        }
        let found = none.capabilities(Subgroup::BASIC | Subgroup::SHUFFLE);
        let expected = [Capability::Shader, Capability::GroupNonUniform, Capability::GroupNonUniformShuffle];
        assert_eq!(found, BTreeSet::from(expected), "relative shuffles are another capability");
    }
}
