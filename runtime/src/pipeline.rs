//! From a staged kernel to a compute pipeline, each made once.

use std::{
    collections::HashMap,
    ffi::CString,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use ash::vk;
use kiln_abi::{Device, DeviceError, KernelLayout, LaunchError, StagedKernel, launch};

use crate::{
    cache::{DiskCache, fingerprint},
    gpu::Gpu,
    handle::DeviceHandle,
    statistics::{self, Statistic},
    sync::lock,
};

/// A kernel with its pipeline, ready to be recorded. Cloning it is cheap.
#[derive(Clone)]
pub struct Prepared(pub(crate) Arc<Pipeline>);

impl Prepared {
    /// The kernel variant's name.
    pub fn name(&self) -> &str {
        &self.0.kernel.name
    }

    /// The kernel's interface.
    pub fn layout(&self) -> &KernelLayout {
        &self.0.kernel.layout
    }

    pub(crate) fn is_of(&self, device: &Arc<DeviceHandle>) -> bool {
        Arc::ptr_eq(&self.0.device, device)
    }

    /// What the driver says of its code: nothing unless the device was opened for it and the driver says something.
    pub fn statistics(&self) -> &[Statistic] {
        &self.0.statistics
    }

    /// The kernel it was made from.
    pub fn kernel(&self) -> &StagedKernel {
        &self.0.kernel
    }
}

/// How often pipelines were found, and where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheUse {
    /// Found in memory.
    pub memory: u64,
    /// Made from what the disk cache holds.
    pub disk: u64,
    /// Compiled by the driver.
    pub compiled: u64,
}

/// Every pipeline of a device.
pub(crate) struct Pipelines {
    device: Arc<DeviceHandle>,
    disk: DiskCache,
    /// By fingerprint and name: two kernels may be staged to the same words.
    made: Mutex<HashMap<(u128, String), Arc<Pipeline>>>,
    counts: [AtomicU64; 3],
    /// The kernel whose pipeline is made to fail.
    fail: Option<String>,
}

impl Pipelines {
    pub(crate) fn new(device: Arc<DeviceHandle>, disk: DiskCache, fail: Option<String>) -> Self {
        Self { device, disk, made: Mutex::default(), counts: Default::default(), fail }
    }

    pub(crate) fn counts(&self) -> CacheUse {
        let [memory, disk, compiled] = [0, 1, 2].map(|at: usize| self.counts[at].load(Ordering::Relaxed));
        CacheUse { memory, disk, compiled }
    }

    fn count(&self, at: usize) {
        self.counts[at].fetch_add(1, Ordering::Relaxed);
    }

    /// The kernel's pipeline; refuses what the device cannot run before anything is made.
    pub(crate) fn prepare(&self, gpu: &Gpu, kernel: &StagedKernel) -> Result<Prepared, LaunchError> {
        self.device.check()?;
        let key = (key(kernel, self.device.tells_checks), kernel.name.clone());
        let known = lock(&self.made).get(&key).filter(|pipeline| pipeline.kernel == *kernel).cloned();
        if let Some(pipeline) = known {
            self.count(0);
            return Ok(Prepared(pipeline));
        }
        launch::check_device(gpu, kernel)?;
        check_subgroups(gpu, kernel)?;
        // Compiling is slow and runs unlocked; two threads that want one kernel may both compile it.
        let pipeline = Arc::new(self.create(gpu, kernel, key.0)?);
        lock(&self.made).insert(key, pipeline.clone());
        Ok(Prepared(pipeline))
    }

    fn create(&self, gpu: &Gpu, kernel: &StagedKernel, key: u128) -> Result<Pipeline, DeviceError> {
        if self.fail.as_deref() == Some(kernel.name.as_str()) {
            let result = vk::Result::ERROR_OUT_OF_HOST_MEMORY;
            return Err(self.device.error("vkCreateComputePipelines", &kernel.name, result));
        }
        let mut pipeline = Pipeline::with_layout(&self.device, kernel)?;
        let stored = self.disk.load(key);
        let cache = DriverCache::new(&self.device, stored.as_deref().unwrap_or_default(), &kernel.name)?;
        pipeline.compile(gpu, cache.raw)?;
        self.count(if stored.is_some() { 1 } else { 2 });
        if stored.is_none()
            && let Some(data) = cache.data()
        {
            self.disk.store(key, &data);
        }
        Ok(pipeline)
    }
}

/// Names everything that the compiled pipeline depends on.
fn key(kernel: &StagedKernel, tells_checks: bool) -> u128 {
    let layout = &kernel.layout;
    let mut bytes: Vec<u8> = kernel.words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.extend(layout.entry.bytes());
    for number in [layout.subgroup_size.unwrap_or(0), layout.push_bytes(), layout.local_size[0]] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(layout.bindings.iter().flat_map(|binding| binding.index.to_le_bytes()));
    bytes.push(if tells_checks { 1 + u8::from(layout.checked) } else { 0 });
    fingerprint(&bytes)
}

/// What a driver checks: a launch has checked its buffers' lengths, and the kernel keeps within those unless it says that
/// memory decides.
fn checks(layout: &KernelLayout) -> vk::PipelineRobustnessCreateInfoEXT<'static> {
    type Buffers = vk::PipelineRobustnessBufferBehaviorEXT;
    let storage = if layout.checked { Buffers::ROBUST_BUFFER_ACCESS } else { Buffers::DISABLED };
    vk::PipelineRobustnessCreateInfoEXT::default()
        .storage_buffers(storage)
        .uniform_buffers(Buffers::DISABLED)
        .vertex_inputs(Buffers::DISABLED)
        .images(vk::PipelineRobustnessImageBehaviorEXT::DISABLED)
}

/// Vulkan's rules for required subgroup sizes, beyond the range that every launch checks.
fn check_subgroups(gpu: &Gpu, kernel: &StagedKernel) -> Result<(), LaunchError> {
    let Some(needed) = kernel.layout.subgroup_size else { return Ok(()) };
    let (info, caps) = (gpu.info(), gpu.caps());
    let (name, device) = (kernel.name.clone(), caps.name.clone());
    if !needed.is_power_of_two() {
        let (lowest, highest) = caps.subgroup_sizes;
        return Err(LaunchError::SubgroupSize { kernel: name, needed, lowest, highest, device });
    }
    let subgroups = kernel.layout.invocations().div_ceil(needed);
    if info.requires_subgroup_size && subgroups > info.max_subgroups {
        let (needed, allowed) = (subgroups.into(), info.max_subgroups.into());
        let what = "subgroups per workgroup";
        return Err(LaunchError::OverLimit { kernel: name, what, needed, allowed, device });
    }
    Ok(())
}

/// A pipeline with its layout; any part may still be null while it is made.
pub(crate) struct Pipeline {
    device: Arc<DeviceHandle>,
    pub(crate) kernel: StagedKernel,
    pub(crate) set_layout: vk::DescriptorSetLayout,
    pub(crate) layout: vk::PipelineLayout,
    pub(crate) raw: vk::Pipeline,
    statistics: Vec<Statistic>,
}

impl Pipeline {
    fn with_layout(device: &Arc<DeviceHandle>, kernel: &StagedKernel) -> Result<Self, DeviceError> {
        let stage = vk::ShaderStageFlags::COMPUTE;
        let binding = |index: u32| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(index)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .descriptor_count(1)
                .stage_flags(stage)
        };
        let bindings: Vec<_> = kernel.layout.bindings.iter().map(|b| binding(b.index)).collect();
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        let mut made = Self {
            device: device.clone(),
            kernel: kernel.clone(),
            set_layout: vk::DescriptorSetLayout::null(),
            layout: vk::PipelineLayout::null(),
            raw: vk::Pipeline::null(),
            statistics: Vec::new(),
        };
        // SAFETY: the device is alive; `made` owns each object as soon as it exists.
        made.set_layout = unsafe { device.raw.create_descriptor_set_layout(&info, None) }
            .map_err(|e| device.error("vkCreateDescriptorSetLayout", &kernel.name, e))?;
        let sets = [made.set_layout];
        let ranges = [vk::PushConstantRange::default().stage_flags(stage).size(kernel.layout.push_bytes())];
        let ranges = if kernel.layout.push.is_empty() { &[][..] } else { &ranges };
        let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets).push_constant_ranges(ranges);
        // SAFETY: as above.
        made.layout = unsafe { device.raw.create_pipeline_layout(&info, None) }
            .map_err(|e| device.error("vkCreatePipelineLayout", &kernel.name, e))?;
        Ok(made)
    }

    fn compile(&mut self, gpu: &Gpu, cache: vk::PipelineCache) -> Result<(), DeviceError> {
        let (device, name, layout) = (&self.device, &self.kernel.name, &self.kernel.layout);
        let entry = CString::new(layout.entry.as_str()).map_err(|_| DeviceError::Refused {
            kernel: name.clone(),
            reason: "its entry point's name has a zero byte".into(),
        })?;
        let info = vk::ShaderModuleCreateInfo::default().code(&self.kernel.words);
        // SAFETY: the device is alive; the words come from a verified module (or fail in the driver's own checks).
        let module = unsafe { device.raw.create_shader_module(&info, None) }
            .map_err(|e| device.error("vkCreateShaderModule", name, e))?;
        let mut stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(&entry);
        let size = layout.subgroup_size.filter(|_| gpu.info().requires_subgroup_size);
        let mut required = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo::default()
            .required_subgroup_size(size.unwrap_or(0));
        if let Some(size) = size {
            stage = stage.push_next(&mut required);
            if gpu.info().full_subgroups && layout.local_size[0].is_multiple_of(size) {
                stage = stage.flags(vk::PipelineShaderStageCreateFlags::REQUIRE_FULL_SUBGROUPS);
            }
        }
        let mut info = vk::ComputePipelineCreateInfo::default().layout(self.layout).stage(stage);
        let mut checks = checks(layout);
        if device.tells_statistics {
            info = info.flags(vk::PipelineCreateFlags::CAPTURE_STATISTICS_KHR);
        }
        if device.tells_checks {
            info = info.push_next(&mut checks);
        }
        // SAFETY: module and layout are alive and the device's; the module may go once the pipeline is made.
        let made = unsafe {
            let made = device.raw.create_compute_pipelines(cache, &[info], None);
            device.raw.destroy_shader_module(module, None);
            made
        };
        let pipelines = made.map_err(|(_, e)| device.error("vkCreateComputePipelines", name, e))?;
        self.raw = pipelines.first().copied().unwrap_or_default();
        if device.tells_statistics {
            self.statistics = statistics::of(device, self.raw, name)?;
        }
        Ok(())
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        // SAFETY: recordings hold their pipelines until they have run. Null handles are allowed.
        unsafe {
            self.device.raw.destroy_pipeline(self.raw, None);
            self.device.raw.destroy_pipeline_layout(self.layout, None);
            self.device.raw.destroy_descriptor_set_layout(self.set_layout, None);
        }
    }
}

/// The driver's cache object, for the length of one compilation.
struct DriverCache<'a> {
    device: &'a DeviceHandle,
    raw: vk::PipelineCache,
}

impl<'a> DriverCache<'a> {
    fn new(device: &'a DeviceHandle, data: &[u8], kernel: &str) -> Result<Self, DeviceError> {
        let info = vk::PipelineCacheCreateInfo::default().initial_data(data);
        // SAFETY: the device is alive; the data is what this driver gave out, checked by its fingerprint.
        let raw = unsafe { device.raw.create_pipeline_cache(&info, None) }
            .map_err(|e| device.error("vkCreatePipelineCache", kernel, e))?;
        Ok(Self { device, raw })
    }

    fn data(&self) -> Option<Vec<u8>> {
        // SAFETY: the cache is alive.
        unsafe { self.device.raw.get_pipeline_cache_data(self.raw) }.ok().filter(|data| !data.is_empty())
    }
}

impl Drop for DriverCache<'_> {
    fn drop(&mut self) {
        // SAFETY: the compilation that used it is over.
        unsafe { self.device.raw.destroy_pipeline_cache(self.raw, None) };
    }
}

#[cfg(test)]
mod tests {
    use kiln_abi::SourceMap;

    use super::*;

    fn kernel(checked: bool) -> StagedKernel {
        let layout = KernelLayout {
            entry: "main".into(),
            bindings: Vec::new(),
            push: Vec::new(),
            local_size: [64, 1, 1],
            subgroup_size: None,
            workgroup_bytes: 0,
            capabilities: Vec::new(),
            products: Vec::new(),
            checked,
            fragments: false,
        };
        StagedKernel { name: "a kernel".into(), words: vec![1, 2, 3], source: SourceMap::default(), layout }
    }

    #[test]
    fn a_driver_checks_what_says_so() {
        type Buffers = vk::PipelineRobustnessBufferBehaviorEXT;
        assert_eq!(checks(&kernel(true).layout).storage_buffers, Buffers::ROBUST_BUFFER_ACCESS);
        assert_eq!(checks(&kernel(false).layout).storage_buffers, Buffers::DISABLED);
    }

    #[test]
    fn pipelines_with_and_without_checks_are_two_where_a_device_tells_them_apart() {
        assert_ne!(key(&kernel(true), true), key(&kernel(false), true));
        assert_ne!(key(&kernel(false), false), key(&kernel(false), true));
        assert_eq!(key(&kernel(true), false), key(&kernel(false), false));
    }
}
