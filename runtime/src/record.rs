//! Recording many commands once, with the barriers their accesses need, to submit them any number of times.

use std::sync::Arc;

use ash::vk;
use kiln_abi::{Access, BufferRange, Device, DeviceError, Dispatch, LaunchArgs, LaunchError, launch};

use crate::{
    Gpu, Prepared, Recorded,
    command::Commands,
    hazard::{Hazards, Stages, Touch},
    memory::Allocation,
    replay::Held,
};

/// How a recording is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecordOptions {
    /// Times every command.
    pub timestamps: bool,
    /// A full barrier before every command, whatever the hazards say.
    pub paranoid: bool,
}

/// A command buffer that is being recorded.
pub struct Recorder {
    gpu: Gpu,
    commands: Commands,
    name: String,
    label: String,
    options: RecordOptions,
    hazards: Hazards,
    barriers: usize,
    /// Label and command of every recorded command.
    steps: Vec<(String, String)>,
    kernels: Vec<Prepared>,
    held: Held,
}

impl Recorder {
    pub(crate) fn new(gpu: &Gpu, name: &str, options: RecordOptions) -> Result<Self, DeviceError> {
        let commands = Commands::begin(&gpu.0.device, name)?;
        let options = RecordOptions {
            timestamps: options.timestamps && gpu.info().timestamps.is_some(),
            paranoid: options.paranoid || gpu.0.options.paranoid,
        };
        let mut recorder = Self {
            gpu: gpu.clone(),
            commands,
            name: name.into(),
            label: String::new(),
            options,
            hazards: Hazards::default(),
            barriers: 0,
            steps: Vec::new(),
            kernels: Vec::new(),
            held: Held::default(),
        };
        // Submits of one queue start in order; only this makes them wait for one another.
        let before = Stages::COMPUTE | Stages::TRANSFER | Stages::INDIRECT;
        recorder.commands.barrier(before, before);
        if options.timestamps {
            recorder.commands.stamp(name)?;
        }
        Ok(recorder)
    }

    /// The label of the commands that follow, in timings.
    pub fn label(&mut self, label: &str) {
        label.clone_into(&mut self.label);
    }

    /// Records a checked launch; an empty grid records nothing.
    ///
    /// # Errors
    /// Every refusal of [`launch::check`], or what recording finds.
    pub fn launch(&mut self, kernel: &Prepared, args: &LaunchArgs) -> Result<(), LaunchError> {
        launch::check(&self.gpu, kernel.kernel(), args)?;
        if args.grid.is_empty() {
            return Ok(());
        }
        let (found, touches) = self.check(kernel, args)?;
        self.bind(kernel, &found, args, &touches)?;
        // SAFETY: the pipeline was just bound and the grid checked.
        unsafe { self.commands.dispatch(args.grid.0) };
        Ok(self.step(kernel.name())?)
    }

    /// As [`Recorder::launch`], but the device reads the workgroup counts from `grid`, three u32 at a multiple of 4 bytes;
    /// those of `args` are not used.
    ///
    /// # Errors
    /// As for [`Recorder::launch`].
    pub fn launch_indirect(
        &mut self,
        kernel: &Prepared,
        args: &LaunchArgs,
        grid: BufferRange,
    ) -> Result<(), LaunchError> {
        launch::check(&self.gpu, kernel.kernel(), args)?;
        if grid.bytes != 12 || !grid.offset_bytes.is_multiple_of(4) {
            let reason = format!(
                "an indirect grid is 12 bytes at a multiple of 4, not {} at {}",
                grid.bytes, grid.offset_bytes
            );
            return Err(refused(kernel.name(), reason).into());
        }
        let counts = self.gpu.0.buffers.resolve(grid)?;
        let (found, mut touches) = self.check(kernel, args)?;
        touches.push(touch(grid, Access::Read, Stages::INDIRECT));
        self.bind(kernel, &found, args, &touches)?;
        self.held.add(&counts);
        // SAFETY: the pipeline was just bound; the counts were checked and are held.
        unsafe { self.commands.dispatch_indirect(counts.buffer(), counts.offset() + grid.offset_bytes) };
        Ok(self.step(kernel.name())?)
    }

    /// Records a copy between two ranges of the same length.
    ///
    /// # Errors
    /// [`DeviceError::OutOfRange`], [`DeviceError::Refused`], or a Vulkan failure; nothing is recorded then.
    pub fn copy(&mut self, from: BufferRange, to: BufferRange) -> Result<(), DeviceError> {
        let overlap = from.buffer == to.buffer
            && from.offset_bytes < to.offset_bytes.saturating_add(to.bytes)
            && to.offset_bytes < from.offset_bytes.saturating_add(from.bytes);
        if from.bytes != to.bytes || overlap {
            return Err(refused(
                "copy",
                format!("{from:?} to {to:?}: the ranges differ in length or overlap"),
            ));
        }
        let (source, target) = (self.gpu.0.buffers.resolve(from)?, self.gpu.0.buffers.resolve(to)?);
        if from.bytes == 0 {
            return Ok(());
        }
        self.wait_for(&[
            touch(from, Access::Read, Stages::TRANSFER),
            touch(to, Access::Write, Stages::TRANSFER),
        ]);
        // SAFETY: both ranges were resolved and do not overlap; the barrier was just recorded.
        unsafe { self.copy_between((&source, from.offset_bytes), (&target, to.offset_bytes), from.bytes) };
        self.step("copy")
    }

    /// # Safety
    /// The ranges are inside the allocations and do not overlap, and no earlier command makes them wait.
    pub(crate) unsafe fn copy_between(
        &mut self,
        (from, from_offset): (&Arc<Allocation>, u64),
        (to, to_offset): (&Arc<Allocation>, u64),
        bytes: u64,
    ) {
        self.held.add(from);
        self.held.add(to);
        let region = vk::BufferCopy {
            src_offset: from.offset() + from_offset,
            dst_offset: to.offset() + to_offset,
            size: bytes,
        };
        // SAFETY: by this function's contract; both are held.
        unsafe { self.commands.copy(from.buffer(), to.buffer(), region) };
    }

    /// Records setting a range to copies of one word; its start and length are multiples of 4 bytes.
    ///
    /// # Errors
    /// As for [`Recorder::copy`].
    pub fn fill(&mut self, range: BufferRange, word: u32) -> Result<(), DeviceError> {
        if !range.offset_bytes.is_multiple_of(4) || !range.bytes.is_multiple_of(4) {
            return Err(refused("fill", format!("{range:?} does not start and end at multiples of 4 bytes")));
        }
        let target = self.gpu.0.buffers.resolve(range)?;
        if range.bytes == 0 {
            return Ok(());
        }
        self.wait_for(&[touch(range, Access::Write, Stages::TRANSFER)]);
        let start = target.offset() + range.offset_bytes;
        self.held.add(&target);
        // SAFETY: the range was resolved and is aligned; its buffer is held.
        unsafe { self.commands.fill(target.buffer(), start, range.bytes, word) };
        self.step("fill")
    }

    /// Barriers recorded so far, the one at the start not counted.
    pub fn barriers(&self) -> usize {
        self.barriers
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// A Vulkan failure.
    pub fn finish(self) -> Result<Recorded, DeviceError> {
        self.commands.barrier_to_host();
        self.commands.end(&self.name)?;
        let held = (self.kernels, self.held);
        Ok(Recorded::new(self.gpu, &self.name, self.steps, self.options.timestamps, self.commands, held))
    }

    /// Everything that Vulkan leaves undefined is an error here.
    fn check(
        &self,
        kernel: &Prepared,
        args: &LaunchArgs,
    ) -> Result<(Vec<Arc<Allocation>>, Vec<Touch>), DeviceError> {
        let LaunchArgs { bindings, push, .. } = args;
        if !kernel.is_of(&self.gpu.0.device) {
            return Err(refused(kernel.name(), "it was prepared for another device".into()));
        }
        let (name, layout, limits) = (kernel.name(), kernel.layout(), &self.gpu.caps().limits);
        if bindings.len() != layout.bindings.len() {
            let (needed, given) = (layout.bindings.len(), bindings.len());
            return Err(refused(name, format!("it has {needed} buffers, {given} were given")));
        }
        if push.len() != layout.push_bytes() as usize {
            let (needed, given) = (layout.push_bytes(), push.len());
            return Err(refused(
                name,
                format!("it has {needed} bytes of push constants, {given} were given"),
            ));
        }
        let mut found = Vec::with_capacity(bindings.len());
        let mut touches = Vec::with_capacity(bindings.len() + 1);
        for (range, binding) in bindings.iter().zip(&layout.bindings) {
            let alignment = u64::from(limits.binding_offset_alignment.max(1));
            if range.bytes == 0
                || range.bytes > limits.max_binding_bytes
                || !range.offset_bytes.is_multiple_of(alignment)
            {
                let reason = format!(
                    "argument {} is {} bytes at {}; the device binds 1 to {} bytes at a multiple of {alignment}",
                    binding.name, range.bytes, range.offset_bytes, limits.max_binding_bytes
                );
                return Err(refused(name, reason));
            }
            found.push(self.gpu.0.buffers.resolve(*range)?);
            touches.push(touch(*range, binding.access, Stages::COMPUTE));
        }
        Ok((found, touches))
    }

    fn bind(
        &mut self,
        kernel: &Prepared,
        found: &[Arc<Allocation>],
        args: &LaunchArgs,
        touches: &[Touch],
    ) -> Result<(), DeviceError> {
        let info = |(range, allocation): (&BufferRange, &Arc<Allocation>)| vk::DescriptorBufferInfo {
            buffer: allocation.buffer(),
            offset: allocation.offset() + range.offset_bytes,
            range: range.bytes,
        };
        let infos: Vec<_> = args.bindings.iter().zip(found).map(info).collect();
        self.wait_for(touches);
        found.iter().for_each(|allocation| self.held.add(allocation));
        self.kernels.push(kernel.clone());
        // SAFETY: `check` compared buffers and push constants with the layout; kernel and buffers are held.
        unsafe { self.commands.bind(&kernel.0, &infos, &args.push) }
    }

    fn wait_for(&mut self, touches: &[Touch]) {
        let needed = self.hazards.before(touches);
        if self.options.paranoid {
            self.commands.full_barrier();
        } else if let Some(barrier) = needed.filter(|_| !self.gpu.0.options.faults.drop_barriers) {
            self.commands.barrier(barrier.from, barrier.to);
        } else {
            return;
        }
        self.barriers += 1;
    }

    fn step(&mut self, command: &str) -> Result<(), DeviceError> {
        self.steps.push((self.label.clone(), command.into()));
        if self.options.timestamps { self.commands.stamp(command) } else { Ok(()) }
    }
}

fn touch(range: BufferRange, access: Access, stage: Stages) -> Touch {
    let end = range.offset_bytes.saturating_add(range.bytes);
    Touch { buffer: range.buffer, start: range.offset_bytes, end, access, stage }
}

fn refused(kernel: &str, reason: String) -> DeviceError {
    DeviceError::Refused { kernel: kernel.into(), reason }
}

/// Runs one dispatch to its end.
pub(crate) fn run_one(gpu: &Gpu, dispatch: &Dispatch<'_>) -> Result<(), DeviceError> {
    let name = &dispatch.kernel.name;
    let device = |error| match error {
        LaunchError::Device(error) => error,
        other => refused(name, other.to_string()),
    };
    let kernel = gpu.prepare(dispatch.kernel).map_err(device)?;
    let mut recorder = Recorder::new(gpu, name, RecordOptions::default())?;
    let args = LaunchArgs {
        bindings: dispatch.bindings.to_vec(),
        needed_bytes: dispatch.needed_bytes.to_vec(),
        push: dispatch.push.to_vec(),
        grid: dispatch.grid,
    };
    recorder.launch(&kernel, &args).map_err(device)?;
    recorder.finish()?.run()
}
