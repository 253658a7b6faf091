//! The buffers of a sequence, for steps that are taken apart.

use kiln_abi::{
    BufferId, BufferRange, Device as _, DeviceError, LaunchArgs, LaunchError, launch::launch_staged,
};
use kiln_kernels::{
    sample::Chain,
    step::{StepRow, step_block},
};
use kiln_runtime::Gpu;

use crate::plan::{Holds, PageGroup, Plan, PlannedLaunch};
use crate::submit::DeviceModel;

/// A plan's buffers, those of a sequence made for the occasion.
pub(super) struct Buffers<'a> {
    gpu: &'a Gpu,
    /// By index in the plan.
    pub(super) ids: Vec<BufferId>,
    own: Vec<BufferId>,
}

impl<'a> Buffers<'a> {
    /// Sequence slots get the pages in order, and again from the first on where there are fewer.
    pub(super) fn new(gpu: &'a Gpu, model: &DeviceModel) -> Result<Self, DeviceError> {
        let mut buffers = Self { gpu, ids: Vec::new(), own: Vec::new() };
        for (index, buffer) in model.plan().buffers.iter().enumerate() {
            let id = match model.shared_buffer(index) {
                Some(id) => id,
                None => {
                    let id = gpu.allocate(buffer.bytes, &buffer.name)?;
                    buffers.own.push(id);
                    id
                }
            };
            buffers.ids.push(id);
        }
        let context = model.plan().context;
        for (group, PageGroup { n_pages, .. }) in model.plan().groups.iter().enumerate() {
            let line = || (0..context.max_pages).map(|page| page % n_pages);
            if let Some(table) = model.plan().find(&Holds::PageTable { group }) {
                buffers.write(table, &(0..context.n_slots).flat_map(|_| line()).collect::<Vec<_>>())?;
            }
        }
        if let Some(samplers) = model.plan().find(&Holds::Samplers) {
            let line = Chain::GREEDY.words(&[], 0);
            buffers.write(samplers, &line.repeat(context.n_slots as usize))?;
        }
        Ok(buffers)
    }

    /// Writes the step block for a command with room for `capacity` rows.
    pub(super) fn seed(
        &self,
        plan: &Plan,
        rows: &[StepRow],
        outputs: &[u32],
        capacity: u32,
    ) -> Result<(), DeviceError> {
        match plan.find(&Holds::Step) {
            Some(block) => self.write(block, &step_block(rows, outputs, capacity)),
            None => Ok(()),
        }
    }

    fn write(&self, index: usize, words: &[u32]) -> Result<(), DeviceError> {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.gpu.write(self.ids[index], 0, &bytes)
    }

    /// Runs one launch to its end.
    pub(super) fn launch(&self, plan: &Plan, launch: &PlannedLaunch) -> Result<(), LaunchError> {
        let place = |range: &BufferRange| BufferRange { buffer: self.ids[range.buffer.0 as usize], ..*range };
        let call = &launch.call;
        let bindings = call.args.bindings.iter().map(place).collect();
        let Some(kernel) = plan.kernels.get(&call.name) else { return Ok(()) };
        launch_staged(self.gpu, &kernel.staged, &LaunchArgs { bindings, ..call.args.clone() })
    }
}

impl Drop for Buffers<'_> {
    fn drop(&mut self) {
        self.own.iter().for_each(|id| self.gpu.free(*id));
    }
}
