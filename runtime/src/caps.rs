//! From what Vulkan reports of a device to plain data: the only place where that is translated.

use std::{collections::BTreeSet, ffi::CStr};

use ash::vk;
use kiln_abi::{DeviceCaps, DeviceKind, Limits};

use crate::{
    RuntimeError, TimestampClock,
    features::Features,
    info::{ApiVersion, Cooperative, CooperativeShape, DeviceInfo, Heap},
    instance::Instance,
    matrix::BFLOAT16,
    room::{Room, system_bytes},
};

const NV2: &CStr = c"VK_NV_cooperative_matrix2";
/// Extensions younger than validation layers in use, with the version of Vulkan that they came with.
const YOUNG: [(&CStr, ApiVersion); 1] = [(BFLOAT16, ApiVersion { major: 1, minor: 4, patch: 311 })];

/// A physical device with everything that opening it needs.
pub(crate) struct Probe {
    pub(crate) physical: vk::PhysicalDevice,
    pub(crate) features: Features,
    pub(crate) queue_family: Option<u32>,
    pub(crate) memory_budget: bool,
    pub(crate) info: DeviceInfo,
}

/// Probes every device of the instance, in the loader's order.
pub(crate) fn probe_all(instance: &Instance) -> Result<Vec<Probe>, RuntimeError> {
    let devices = instance.physical_devices()?;
    Ok(devices.into_iter().enumerate().map(|(index, device)| probe(instance, device, index)).collect())
}

fn probe(instance: &Instance, physical: vk::PhysicalDevice, index: usize) -> Probe {
    // SAFETY: the device is this instance's, here and in the calls below.
    let base = unsafe { instance.raw.get_physical_device_properties(physical) };
    let modern = base.api_version >= vk::API_VERSION_1_3;
    let mut extensions = extensions(instance, physical);
    let left_off = instance.layer.map_or_else(Vec::new, |layer| leave_off(&mut extensions, layer));
    let has = |name: &CStr| extensions.contains(name);
    let (features, details) = if modern {
        (Features::query(instance, physical, &has), Details::query(instance, physical, &base))
    } else {
        (Features::default(), Details::base(&base))
    };
    let queue = compute_queue(instance, physical);
    let memory_budget = has(ash::ext::memory_budget::NAME);
    let heaps = heaps(instance, physical, memory_budget);
    let kind = device_kind(base.device_type);
    let room = device_room(&heaps, kind);
    let requires_subgroup_size = features.subgroup_size_control && details.required_in_compute;
    let (smallest, largest) = details.subgroup_sizes;
    let required = if requires_subgroup_size { smallest..=largest } else { 0..=0 };
    let info = DeviceInfo {
        index,
        caps: DeviceCaps {
            name: text(base.device_name_as_c_str().ok()),
            driver: details.driver.clone(),
            kind,
            capabilities: features.capabilities(details.subgroup_operations),
            left_out: BTreeSet::new(),
            subgroup_size: details.subgroup_size,
            subgroup_sizes: details.subgroup_sizes,
            matrix: features.matrix.caps(instance, physical, (details.driver_id, required)),
            limits: limits(&base.limits, &details),
        },
        api: ApiVersion::from_raw(base.api_version),
        ids: [base.vendor_id, base.device_id],
        device_uuid: details.device_uuid,
        driver_uuid: details.driver_uuid,
        heaps,
        room,
        timestamps: queue.and_then(|(_, valid_bits)| {
            let period_ns = base.limits.timestamp_period;
            (valid_bits > 0 && period_ns > 0.0).then_some(TimestampClock { period_ns, valid_bits })
        }),
        requires_subgroup_size,
        full_subgroups: features.full_subgroups,
        max_subgroups: details.max_subgroups,
        dot4_accelerated: features.integer_dot_product && details.dot4_accelerated,
        cooperative: Cooperative {
            khr: if modern && has(ash::khr::cooperative_matrix::NAME) {
                cooperative_shapes(instance, physical)
            } else {
                Vec::new()
            },
            nv2: modern && has(NV2),
        },
        left_off,
        unusable: reasons(base.api_version, &features, queue.is_some()),
    };
    Probe { physical, features, queue_family: queue.map(|(family, _)| family), memory_budget, info }
}

/// Takes out what a validation layer is too old to know, which it would call an error wherever it is used.
fn leave_off(extensions: &mut BTreeSet<std::ffi::CString>, layer: ApiVersion) -> Vec<String> {
    let older = |since: ApiVersion| layer < since;
    let unknown = YOUNG.into_iter().filter(|(name, since)| older(*since) && extensions.remove(*name));
    let say = |(name, since): (&CStr, ApiVersion)| {
        let name = name.to_string_lossy();
        format!(
            "{name} stays off: the validation layer knows Vulkan {layer}, the extension came with {since}"
        )
    };
    unknown.map(say).collect()
}

/// Everything a device lacks that Kiln cannot do without.
fn reasons(api_version: u32, features: &Features, has_queue: bool) -> Vec<String> {
    if api_version < vk::API_VERSION_1_3 {
        return vec![format!(
            "it speaks Vulkan {}, Kiln needs 1.3 (update its driver)",
            ApiVersion::from_raw(api_version)
        )];
    }
    let missing = features.required().into_iter().filter(|(_, there)| !there);
    let mut reasons: Vec<_> = missing.map(|(name, _)| format!("it lacks {name}")).collect();
    if !has_queue {
        reasons.push("it has no compute queue".into());
    }
    reasons
}

/// What newer property structures say; older devices get the least that Vulkan promises.
struct Details {
    driver: String,
    driver_id: vk::DriverId,
    device_uuid: [u8; 16],
    driver_uuid: [u8; 16],
    subgroup_operations: vk::SubgroupFeatureFlags,
    subgroup_size: u32,
    subgroup_sizes: (u32, u32),
    required_in_compute: bool,
    max_subgroups: u32,
    dot4_accelerated: bool,
    max_buffer_bytes: u64,
    max_allocation_bytes: u64,
}

impl Details {
    fn base(base: &vk::PhysicalDeviceProperties) -> Self {
        Self {
            driver: format!("version {:#x}", base.driver_version),
            driver_id: vk::DriverId::default(),
            device_uuid: [0; 16],
            driver_uuid: base.pipeline_cache_uuid,
            subgroup_operations: vk::SubgroupFeatureFlags::empty(),
            subgroup_size: 1,
            subgroup_sizes: (1, 1),
            required_in_compute: false,
            max_subgroups: 1,
            dot4_accelerated: false,
            max_buffer_bytes: 1 << 30,
            max_allocation_bytes: 1 << 30,
        }
    }

    fn query(instance: &Instance, physical: vk::PhysicalDevice, base: &vk::PhysicalDeviceProperties) -> Self {
        let mut v11 = vk::PhysicalDeviceVulkan11Properties::default();
        let mut v12 = vk::PhysicalDeviceVulkan12Properties::default();
        let mut v13 = vk::PhysicalDeviceVulkan13Properties::default();
        let mut all = vk::PhysicalDeviceProperties2::default()
            .push_next(&mut v11)
            .push_next(&mut v12)
            .push_next(&mut v13);
        // SAFETY: the device is this instance's, and the chain lives during the call.
        unsafe { instance.raw.get_physical_device_properties2(physical, &mut all) };
        let compute = vk::ShaderStageFlags::COMPUTE;
        let in_compute = v11.subgroup_supported_stages.contains(compute);
        let required_in_compute = v13.required_subgroup_size_stages.contains(compute);
        let (name, more) = (text(v12.driver_name_as_c_str().ok()), text(v12.driver_info_as_c_str().ok()));
        let driver = if name.is_empty() {
            format!("version {:#x}", base.driver_version)
        } else {
            format!("{name} {more}")
        };
        Self {
            driver: driver.trim_end().to_string(),
            driver_id: v12.driver_id,
            device_uuid: v11.device_uuid,
            driver_uuid: v11.driver_uuid,
            subgroup_operations: if in_compute {
                v11.subgroup_supported_operations
            } else {
                vk::SubgroupFeatureFlags::empty()
            },
            subgroup_size: v11.subgroup_size,
            subgroup_sizes: if required_in_compute {
                (v13.min_subgroup_size, v13.max_subgroup_size)
            } else {
                (v11.subgroup_size, v11.subgroup_size)
            },
            required_in_compute,
            max_subgroups: v13.max_compute_workgroup_subgroups,
            dot4_accelerated: v13.integer_dot_product4x8_bit_packed_signed_accelerated != vk::FALSE,
            max_buffer_bytes: v13.max_buffer_size,
            max_allocation_bytes: v11.max_memory_allocation_size,
        }
    }
}

fn limits(base: &vk::PhysicalDeviceLimits, details: &Details) -> Limits {
    Limits {
        max_invocations: base.max_compute_work_group_invocations,
        max_local_size: base.max_compute_work_group_size,
        max_grid: base.max_compute_work_group_count,
        max_workgroup_bytes: base.max_compute_shared_memory_size,
        max_push_bytes: base.max_push_constants_size,
        max_binding_bytes: base.max_storage_buffer_range.into(),
        max_buffer_bytes: details.max_buffer_bytes,
        max_allocation_bytes: details.max_allocation_bytes,
        max_bindings: base
            .max_per_stage_descriptor_storage_buffers
            .min(base.max_descriptor_set_storage_buffers),
        // Vulkan promises a power of two of at most 256.
        binding_offset_alignment: u32::try_from(base.min_storage_buffer_offset_alignment).unwrap_or(256),
    }
}

fn device_kind(kind: vk::PhysicalDeviceType) -> DeviceKind {
    match kind {
        vk::PhysicalDeviceType::DISCRETE_GPU => DeviceKind::Discrete,
        vk::PhysicalDeviceType::INTEGRATED_GPU => DeviceKind::Integrated,
        vk::PhysicalDeviceType::VIRTUAL_GPU => DeviceKind::Virtual,
        vk::PhysicalDeviceType::CPU => DeviceKind::Cpu,
        _ => DeviceKind::Other,
    }
}

/// The family that computes, and its timestamps' valid bits. One without graphics runs beside a desktop's work.
fn compute_queue(instance: &Instance, physical: vk::PhysicalDevice) -> Option<(u32, u32)> {
    // SAFETY: the device is this instance's.
    let families = unsafe { instance.raw.get_physical_device_queue_family_properties(physical) };
    let computing = (0u32..)
        .zip(&families)
        .filter(|(_, family)| family.queue_count > 0 && family.queue_flags.contains(vk::QueueFlags::COMPUTE));
    let best = computing.min_by_key(|(_, family)| {
        (family.timestamp_valid_bits == 0, family.queue_flags.contains(vk::QueueFlags::GRAPHICS))
    });
    best.map(|(index, family)| (index, family.timestamp_valid_bits))
}

fn extensions(instance: &Instance, physical: vk::PhysicalDevice) -> BTreeSet<std::ffi::CString> {
    // SAFETY: the device is this instance's.
    let listed = unsafe { instance.raw.enumerate_device_extension_properties(physical) }.unwrap_or_default();
    listed.iter().filter_map(|e| e.extension_name_as_c_str().ok().map(CStr::to_owned)).collect()
}

pub(crate) fn heaps(instance: &Instance, physical: vk::PhysicalDevice, with_budget: bool) -> Vec<Heap> {
    let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
    let mut all = vk::PhysicalDeviceMemoryProperties2::default();
    if with_budget {
        all = all.push_next(&mut budget);
    }
    // SAFETY: the device is this instance's; the budget structure is linked only where its extension is there.
    unsafe { instance.raw.get_physical_device_memory_properties2(physical, &mut all) };
    let properties = all.memory_properties;
    let heap = |(at, heap): (usize, &vk::MemoryHeap)| Heap {
        bytes: heap.size,
        device_local: heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL),
        // A driver that answers 0 has not answered.
        budget_bytes: (with_budget && budget.heap_budget[at] > 0).then(|| budget.heap_budget[at]),
        used_bytes: with_budget.then(|| budget.heap_usage[at]),
    };
    properties.memory_heaps_as_slice().iter().enumerate().map(heap).collect()
}

/// The room of the largest device-local heap.
pub(crate) fn device_room(heaps: &[Heap], kind: DeviceKind) -> Room {
    Room::of_heaps(heaps, system_bytes(kind))
}

fn cooperative_shapes(instance: &Instance, physical: vk::PhysicalDevice) -> Vec<CooperativeShape> {
    let api = ash::khr::cooperative_matrix::Instance::new(&instance.entry, &instance.raw);
    // SAFETY: the device is this instance's and has the extension.
    let shapes =
        unsafe { api.get_physical_device_cooperative_matrix_properties(physical) }.unwrap_or_default();
    let element = |kind: vk::ComponentTypeKHR| format!("{kind:?}");
    let shape = |s: &vk::CooperativeMatrixPropertiesKHR<'_>| CooperativeShape {
        mnk: [s.m_size, s.n_size, s.k_size],
        elements: [s.a_type, s.b_type, s.c_type, s.result_type].map(element),
        subgroup_scope: s.scope == vk::ScopeKHR::SUBGROUP,
    };
    shapes.iter().map(shape).collect()
}

fn text(name: Option<&CStr>) -> String {
    name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{leave_off, reasons};
    use crate::{
        ApiVersion,
        features::Features,
        matrix::{BFLOAT16, MatrixFeatures},
    };
    use ash::vk;

    const WHOLE: Features = Features {
        memory_model: true,
        timeline_semaphore: true,
        synchronization2: true,
        maintenance4: true,
        shader_int16: false,
        shader_int8: false,
        shader_float16: false,
        storage_16bit: false,
        storage_8bit: false,
        memory_model_device_scope: false,
        subgroup_extended_types: false,
        scalar_block_layout: false,
        subgroup_size_control: false,
        full_subgroups: false,
        integer_dot_product: false,
        buffer_device_address: false,
        pipeline_robustness: false,
        pipeline_statistics: false,
        matrix: MatrixFeatures::NONE,
    };

    #[test]
    fn what_an_old_validation_layer_does_not_know_stays_off_and_is_said() {
        let device = || std::collections::BTreeSet::from([BFLOAT16.to_owned(), c"VK_other".to_owned()]);
        let layer = |patch| ApiVersion { major: 1, minor: 4, patch };
        let mut extensions = device();
        let said = leave_off(&mut extensions, layer(309));
        assert_eq!(said.len(), 1);
        assert!(said[0].contains("1.4.309") && said[0].contains("VK_KHR_shader_bfloat16"), "{said:?}");
        assert!(!extensions.contains(BFLOAT16) && extensions.len() == 1);
        let mut extensions = device();
        assert_eq!(leave_off(&mut extensions, layer(311)), [""; 0]);
        assert_eq!(extensions, device());
    }

    #[test]
    fn a_device_is_usable_or_says_everything_it_lacks() {
        assert_eq!(reasons(vk::API_VERSION_1_3, &WHOLE, true), [""; 0]);
        let lacking = Features { memory_model: false, ..WHOLE };
        assert_eq!(
            reasons(vk::API_VERSION_1_3, &lacking, false),
            ["it lacks the Vulkan memory model (vulkanMemoryModel)", "it has no compute queue"]
        );
        let old = vk::make_api_version(0, 1, 2, 7);
        assert_eq!(
            reasons(old, &Features::default(), true),
            ["it speaks Vulkan 1.2.7, Kiln needs 1.3 (update its driver)"]
        );
    }
}
