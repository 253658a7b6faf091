//! Vulkan's side of a recording: command buffer, descriptor sets, timestamp queries. Knows no hazards.

use std::sync::Arc;

use ash::vk;
use kiln_abi::DeviceError;

use crate::{handle::DeviceHandle, hazard::Stages, pipeline::Pipeline};

/// Descriptor sets of the first pool; each further pool has twice as many as the last.
const FIRST_SETS: u32 = 16;
/// Timestamps per query pool.
const QUERIES: u32 = 256;

/// One command buffer and the pools that feed it.
pub(crate) struct Commands {
    device: Arc<DeviceHandle>,
    pool: vk::CommandPool,
    pub(crate) buffer: vk::CommandBuffer,
    descriptor_pools: Vec<DescriptorPool>,
    query_pools: Vec<vk::QueryPool>,
    stamps: u32,
}

struct DescriptorPool {
    raw: vk::DescriptorPool,
    sets: u32,
    sets_left: u32,
    buffers_left: u32,
}

impl Commands {
    /// A command buffer that is being recorded.
    pub(crate) fn begin(device: &Arc<DeviceHandle>, name: &str) -> Result<Self, DeviceError> {
        device.check()?;
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(device.queue_family);
        // SAFETY: the device is alive; what is made here belongs to `commands`, which destroys it.
        let pool = unsafe { device.raw.create_command_pool(&info, None) }
            .map_err(|e| device.error("vkCreateCommandPool", name, e))?;
        let mut commands = Self {
            device: device.clone(),
            pool,
            buffer: vk::CommandBuffer::null(),
            descriptor_pools: Vec::new(),
            query_pools: Vec::new(),
            stamps: 0,
        };
        let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(1);
        // SAFETY: the pool was just made.
        let buffers = unsafe { device.raw.allocate_command_buffers(&info) }
            .map_err(|e| device.error("vkAllocateCommandBuffers", name, e))?;
        commands.buffer = buffers.first().copied().unwrap_or_default();
        // A recording may be submitted again before its last run has ended: runs are ordered by their first barrier.
        let info = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::SIMULTANEOUS_USE);
        // SAFETY: the buffer is new.
        unsafe { device.raw.begin_command_buffer(commands.buffer, &info) }
            .map_err(|e| device.error("vkBeginCommandBuffer", name, e))?;
        Ok(commands)
    }

    pub(crate) fn end(&self, name: &str) -> Result<(), DeviceError> {
        // SAFETY: the buffer is being recorded by this thread, here and below.
        unsafe { self.device.raw.end_command_buffer(self.buffer) }
            .map_err(|e| self.device.error("vkEndCommandBuffer", name, e))
    }

    /// Orders everything earlier at the stages `from` before everything later at the stages `to`.
    pub(crate) fn barrier(&self, from: Stages, to: Stages) {
        self.memory_barrier(
            vk::MemoryBarrier2::default()
                .src_stage_mask(stage_mask(from))
                .src_access_mask(write_mask(from))
                .dst_stage_mask(stage_mask(to))
                .dst_access_mask(access_mask(to)),
        );
    }

    /// Orders everything before everything.
    pub(crate) fn full_barrier(&self) {
        let (all, write) = (vk::PipelineStageFlags2::ALL_COMMANDS, vk::AccessFlags2::MEMORY_WRITE);
        self.memory_barrier(
            vk::MemoryBarrier2::default()
                .src_stage_mask(all)
                .src_access_mask(write)
                .dst_stage_mask(all)
                .dst_access_mask(write | vk::AccessFlags2::MEMORY_READ),
        );
    }

    /// Makes everything written so far visible to the host once the submit is done.
    pub(crate) fn barrier_to_host(&self) {
        let from = Stages::COMPUTE | Stages::TRANSFER;
        self.memory_barrier(
            vk::MemoryBarrier2::default()
                .src_stage_mask(stage_mask(from))
                .src_access_mask(write_mask(from))
                .dst_stage_mask(vk::PipelineStageFlags2::HOST)
                .dst_access_mask(vk::AccessFlags2::HOST_READ),
        );
    }

    fn memory_barrier(&self, barrier: vk::MemoryBarrier2<'_>) {
        let barriers = [barrier];
        let info = vk::DependencyInfo::default().memory_barriers(&barriers);
        // SAFETY: the buffer is being recorded; synchronization2 is enabled.
        unsafe { self.device.raw.cmd_pipeline_barrier2(self.buffer, &info) };
    }

    /// Binds a pipeline with its buffers and push constants.
    ///
    /// # Safety
    /// `buffers` has one valid range per binding, in binding order, and `push` the size of the layout's block; both
    /// the pipeline and the buffers outlive the recording.
    pub(crate) unsafe fn bind(
        &mut self,
        pipeline: &Pipeline,
        buffers: &[vk::DescriptorBufferInfo],
        push: &[u8],
    ) -> Result<(), DeviceError> {
        let compute = vk::PipelineBindPoint::COMPUTE;
        let set = if buffers.is_empty() { None } else { Some(self.descriptor_set(pipeline, buffers)?) };
        let (raw, buffer) = (&self.device.raw, self.buffer);
        // SAFETY: the buffer is being recorded; by this function's contract everything bound fits and lives on.
        unsafe {
            raw.cmd_bind_pipeline(buffer, compute, pipeline.raw);
            if let Some(set) = set {
                raw.cmd_bind_descriptor_sets(buffer, compute, pipeline.layout, 0, &[set], &[]);
            }
            if !push.is_empty() {
                raw.cmd_push_constants(buffer, pipeline.layout, vk::ShaderStageFlags::COMPUTE, 0, push);
            }
        }
        Ok(())
    }

    fn descriptor_set(
        &mut self,
        pipeline: &Pipeline,
        buffers: &[vk::DescriptorBufferInfo],
    ) -> Result<vk::DescriptorSet, DeviceError> {
        let (device, name) = (self.device.clone(), &pipeline.kernel.name);
        let count = u32::try_from(buffers.len()).unwrap_or(u32::MAX);
        let has_room = |pool: &DescriptorPool| pool.sets_left > 0 && pool.buffers_left >= count;
        if !self.descriptor_pools.last().is_some_and(has_room) {
            let sets = self.descriptor_pools.last().map_or(FIRST_SETS, |pool| pool.sets.saturating_mul(2));
            self.descriptor_pools.push(DescriptorPool::new(&device, sets, count, name)?);
        }
        let layouts = [pipeline.set_layout];
        let mut info = vk::DescriptorSetAllocateInfo::default().set_layouts(&layouts);
        if let Some(pool) = self.descriptor_pools.last_mut() {
            info = info.descriptor_pool(pool.raw);
            pool.sets_left -= 1;
            pool.buffers_left -= count;
        }
        // SAFETY: the pool was made with room for this set, and that room was just counted off.
        let sets = unsafe { device.raw.allocate_descriptor_sets(&info) }
            .map_err(|e| device.error("vkAllocateDescriptorSets", name, e))?;
        let set = sets.first().copied().unwrap_or_default();
        let write = |(binding, buffer): (&kiln_abi::BindingLayout, &vk::DescriptorBufferInfo)| {
            vk::WriteDescriptorSet { p_buffer_info: buffer, descriptor_count: 1, ..Default::default() }
                .dst_set(set)
                .dst_binding(binding.index)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
        };
        let writes: Vec<_> = pipeline.kernel.layout.bindings.iter().zip(buffers).map(write).collect();
        // SAFETY: the set is new and unused; each write points at one element of `buffers`, alive during the call.
        unsafe { device.raw.update_descriptor_sets(&writes, &[]) };
        Ok(set)
    }

    /// # Safety
    /// A pipeline is bound and the grid is within the device's limits.
    pub(crate) unsafe fn dispatch(&self, [x, y, z]: [u32; 3]) {
        // SAFETY: by this function's contract.
        unsafe { self.device.raw.cmd_dispatch(self.buffer, x, y, z) };
    }

    /// # Safety
    /// A pipeline is bound; 12 bytes at `offset`, a multiple of 4, are inside `grid`, which outlives the recording.
    pub(crate) unsafe fn dispatch_indirect(&self, grid: vk::Buffer, offset: u64) {
        // SAFETY: by this function's contract; every buffer has the indirect usage.
        unsafe { self.device.raw.cmd_dispatch_indirect(self.buffer, grid, offset) };
    }

    /// # Safety
    /// The region is inside both buffers, its ends do not overlap, and both outlive the recording.
    pub(crate) unsafe fn copy(&self, from: vk::Buffer, to: vk::Buffer, region: vk::BufferCopy) {
        // SAFETY: by this function's contract; every buffer has the transfer usages.
        unsafe { self.device.raw.cmd_copy_buffer(self.buffer, from, to, &[region]) };
    }

    /// # Safety
    /// The range is inside the buffer, offset and length are multiples of 4, and it outlives the recording.
    pub(crate) unsafe fn fill(&self, buffer: vk::Buffer, offset: u64, bytes: u64, word: u32) {
        // SAFETY: by this function's contract.
        unsafe { self.device.raw.cmd_fill_buffer(self.buffer, buffer, offset, bytes, word) };
    }

    /// Records the time at which everything before this has ended.
    pub(crate) fn stamp(&mut self, name: &str) -> Result<(), DeviceError> {
        let at = self.stamps % QUERIES;
        if at == 0 {
            let info =
                vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(QUERIES);
            // SAFETY: the device is alive; the pool belongs to self from here on.
            let pool = unsafe { self.device.raw.create_query_pool(&info, None) }
                .map_err(|e| self.device.error("vkCreateQueryPool", name, e))?;
            self.query_pools.push(pool);
            // SAFETY: the buffer is being recorded. Each run resets the pool before it writes there.
            unsafe { self.device.raw.cmd_reset_query_pool(self.buffer, pool, 0, QUERIES) };
        }
        if let Some(&pool) = self.query_pools.last() {
            let stage = vk::PipelineStageFlags2::ALL_COMMANDS;
            // SAFETY: the query is in the pool and was reset above; the queue has timestamps.
            unsafe { self.device.raw.cmd_write_timestamp2(self.buffer, stage, pool, at) };
        }
        self.stamps += 1;
        Ok(())
    }

    /// The stamps of the last run, which must be done.
    pub(crate) fn read_stamps(&self, name: &str) -> Result<Vec<u64>, DeviceError> {
        let mut stamps = vec![0u64; self.stamps as usize];
        for (pool, part) in self.query_pools.iter().zip(stamps.chunks_mut(QUERIES as usize)) {
            let flags = vk::QueryResultFlags::TYPE_64 | vk::QueryResultFlags::WAIT;
            // SAFETY: the run wrote as many queries as `part` has elements, each one a 64-bit result.
            unsafe { self.device.raw.get_query_pool_results(*pool, 0, part, flags) }
                .map_err(|e| self.device.error("vkGetQueryPoolResults", name, e))?;
        }
        Ok(stamps)
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        // SAFETY: whoever drops this has seen its last submit end (or never submitted it).
        unsafe {
            for &pool in &self.query_pools {
                self.device.raw.destroy_query_pool(pool, None);
            }
            for pool in &self.descriptor_pools {
                self.device.raw.destroy_descriptor_pool(pool.raw, None);
            }
            self.device.raw.destroy_command_pool(self.pool, None);
        }
    }
}

impl DescriptorPool {
    /// Room for `sets` sets, at least one of them with `buffers` buffers.
    fn new(device: &DeviceHandle, sets: u32, buffers: u32, kernel: &str) -> Result<Self, DeviceError> {
        let total = sets.saturating_mul(4).max(buffers);
        let sizes =
            [vk::DescriptorPoolSize { ty: vk::DescriptorType::STORAGE_BUFFER, descriptor_count: total }];
        let info = vk::DescriptorPoolCreateInfo::default().max_sets(sets).pool_sizes(&sizes);
        // SAFETY: the device is alive; the caller keeps the pool and destroys it.
        let raw = unsafe { device.raw.create_descriptor_pool(&info, None) }
            .map_err(|e| device.error("vkCreateDescriptorPool", kernel, e))?;
        Ok(Self { raw, sets, sets_left: sets, buffers_left: total })
    }
}

/// Each stage that Kiln uses, with Vulkan's stage, its reads and its writes.
const STAGES: [(Stages, vk::PipelineStageFlags2, vk::AccessFlags2, vk::AccessFlags2); 3] = [
    (
        Stages::COMPUTE,
        vk::PipelineStageFlags2::COMPUTE_SHADER,
        vk::AccessFlags2::SHADER_STORAGE_READ,
        vk::AccessFlags2::SHADER_STORAGE_WRITE,
    ),
    (
        Stages::TRANSFER,
        vk::PipelineStageFlags2::ALL_TRANSFER,
        vk::AccessFlags2::TRANSFER_READ,
        vk::AccessFlags2::TRANSFER_WRITE,
    ),
    (
        Stages::INDIRECT,
        vk::PipelineStageFlags2::DRAW_INDIRECT,
        vk::AccessFlags2::INDIRECT_COMMAND_READ,
        vk::AccessFlags2::NONE,
    ),
];

fn stage_mask(stages: Stages) -> vk::PipelineStageFlags2 {
    STAGES.iter().filter(|s| s.0.meets(stages)).fold(vk::PipelineStageFlags2::NONE, |all, s| all | s.1)
}

fn write_mask(stages: Stages) -> vk::AccessFlags2 {
    STAGES.iter().filter(|s| s.0.meets(stages)).fold(vk::AccessFlags2::NONE, |all, s| all | s.3)
}

fn access_mask(stages: Stages) -> vk::AccessFlags2 {
    STAGES.iter().filter(|s| s.0.meets(stages)).fold(vk::AccessFlags2::NONE, |all, s| all | s.2 | s.3)
}
