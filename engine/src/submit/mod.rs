//! Runs planned steps on a device: one submit per step, only what is asked for comes back.

mod pages;
mod runner;
mod saved;
mod shared;
mod slots;
mod step;

use std::ops::Range;
use std::sync::Arc;

use kiln_abi::{BufferId, Device, DeviceCaps, DeviceError};
use kiln_kernels::Registry;
use kiln_runtime::{Gpu, RecordOptions};

pub use self::runner::{MAX_AHEAD, StepCounts};
use self::runner::{Runner, Weights};
use self::saved::Layout;
pub use self::shared::{Draw, Feed, Got, RUN_AHEAD, SlotId, Slots, Want};
use self::slots::Sequences;
use crate::forward::{Backend, Choice, Forward, ForwardError, check_outputs};
use crate::gguf::Gguf;
use crate::graph::{Graph, TensorId};
use crate::plan::{
    Context, ContextReason, ContextWish, Plan, PlanError, PlanOptions, PlannedBuffer, Target, log_declines,
};
use crate::sample::Sampler;
use crate::upload::{UploadError, upload};

/// Why a model is not on the device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceLoadError {
    /// What the device path lacks for the model.
    #[error("{0}; `--device reference` runs it on the CPU")]
    Plan(#[from] PlanError),
    /// The weights.
    #[error(transparent)]
    Upload(#[from] UploadError),
    /// Room for the sequences.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// A model on a device.
pub struct DeviceModel {
    gpu: Gpu,
    plan: Arc<Plan>,
    weights: Weights,
    layout: Layout,
    slots: Slots,
}

impl DeviceModel {
    /// Plans for sequences and uploads; `progress` is told bytes done and in all.
    ///
    /// # Errors
    /// A model that the device path declines, no room, or a tensor that cannot be read.
    pub fn load(
        gpu: &Gpu,
        gguf: &Gguf,
        graph: &Graph,
        registry: &Registry,
        options: PlanOptions,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Self, DeviceLoadError> {
        let type_id = |t: TensorId| gguf.tensor(&graph.tensors[t.0].name).map(|t| t.type_id);
        let plan = Plan::new(graph, &type_id, registry, &Target::of(gpu), options);
        log_declines(&plan);
        let plan = plan?;
        if let ContextReason::Shortened { .. } = plan.context_reason {
            tracing::warn!("the context has {} positions, {}", plan.context.n_ctx, plan.context_reason);
        }
        let shared = upload(gpu, &plan, gguf, graph, registry, progress)?;
        let places = (0..plan.buffers.len()).map(|index| shared.get(index)).collect();
        let weights = Weights { _shared: Arc::new(shared), places, pipelines: Arc::default() };
        let layout = Layout::of(gguf, graph, &plan);
        Self::over(gpu, plan, weights, layout, RecordOptions::default())
    }

    /// The same weights under the plain plan, with a barrier before every command: what this plan is held against.
    ///
    /// # Errors
    /// As for [`DeviceModel::load`].
    pub fn plain(&self, gguf: &Gguf, graph: &Graph, registry: &Registry) -> Result<Self, DeviceLoadError> {
        let type_id = |t: TensorId| gguf.tensor(&graph.tensors[t.0].name).map(|t| t.type_id);
        let context = ContextWish::Exactly(self.plan.context.n_ctx as usize);
        let mut target = Target::of(&self.gpu);
        // The weights are there already.
        target.room.bytes += self.plan.bytes().0;
        let Context { n_slots, n_pages, kv_type, .. } = self.plan.context;
        let options = PlanOptions {
            context,
            n_slots,
            n_pages: Some(n_pages),
            kv_type,
            class: self.plan.class,
            plain: true,
            keep_all: false,
            whole_keys: true,
        };
        let plan = Plan::new(graph, &type_id, registry, &target, options)?;
        let place = |buffer: &PlannedBuffer| {
            let same = |known: &PlannedBuffer| known.holds == buffer.holds;
            let at = self.plan.buffers.iter().position(same).filter(|_| buffer.holds.is_shared());
            at.and_then(|at| self.weights.places[at])
        };
        let weights = Weights { places: plan.buffers.iter().map(place).collect(), ..self.weights.clone() };
        let record = RecordOptions { paranoid: true, ..RecordOptions::default() };
        Self::over(&self.gpu, plan, weights, self.layout.clone(), record)
    }

    fn over(
        gpu: &Gpu,
        plan: Plan,
        weights: Weights,
        layout: Layout,
        record: RecordOptions,
    ) -> Result<Self, DeviceLoadError> {
        let plan = Arc::new(plan);
        let runner = Runner::new(gpu, &plan, weights.clone(), record)?;
        let slots = Slots::new(Sequences::new(runner, &plan, layout.clone()));
        Ok(Self { gpu: gpu.clone(), plan, weights, layout, slots })
    }

    /// What the device can do.
    pub fn caps(&self) -> &DeviceCaps {
        self.gpu.caps()
    }

    /// Where a buffer of the plan is, if all sequences share it.
    pub fn shared_buffer(&self, index: usize) -> Option<BufferId> {
        self.weights.places.get(index).copied().flatten()
    }

    /// What was planned.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The model's sequences, to feed several in one command.
    pub const fn slots(&self) -> &Slots {
        &self.slots
    }
}

impl Backend for DeviceModel {
    fn sequence(&self, n_ctx: usize) -> Result<Box<dyn Forward>, ForwardError> {
        let slot = self.slots.start(n_ctx)?;
        let n_ctx = n_ctx.min(self.plan.context.n_ctx as usize);
        let n_vocab = self.plan.n_vocab as usize;
        let (window, outputs) = (self.plan.window as usize, self.plan.outputs as usize);
        let slots = self.slots.clone();
        Ok(Box::new(DeviceSequence { slots, slot, n_past: 0, n_ctx, n_vocab, window, outputs }))
    }
}

/// One sequence of a model, on its own.
struct DeviceSequence {
    slots: Slots,
    slot: SlotId,
    n_past: usize,
    n_ctx: usize,
    n_vocab: usize,
    /// Ids that a step takes, and outputs that it gives.
    window: usize,
    outputs: usize,
}

impl DeviceSequence {
    fn step(&mut self, ids: &[u32], want: Want) -> Result<Got, ForwardError> {
        let got = self.slots.step(&[Feed { slot: self.slot, ids, want }])?;
        self.n_past = self.slots.n_past(self.slot)?;
        Ok(got.into_iter().next().unwrap_or(Got::Nothing))
    }
}

impl Forward for DeviceSequence {
    fn n_past(&self) -> usize {
        self.n_past
    }

    fn n_ctx(&self) -> usize {
        self.n_ctx
    }

    fn n_vocab(&self) -> usize {
        self.n_vocab
    }

    fn feed(&mut self, ids: &[u32], outputs: Range<usize>) -> Result<Vec<f32>, ForwardError> {
        ForwardError::check(ids, self.n_past, self.n_ctx, self.n_vocab)?;
        check_outputs(&outputs, ids.len())?;
        let mut logits = Vec::with_capacity(outputs.len() * self.n_vocab);
        let window = if outputs.len() > self.outputs { self.window.min(self.outputs) } else { self.window };
        for (at, ids) in windows(ids, window) {
            let within = |row: usize| row.saturating_sub(at).min(ids.len());
            if let Got::Logits(rows) =
                self.step(ids, Want::Logits(within(outputs.start)..within(outputs.end)))?
            {
                logits.extend(rows);
            }
        }
        Ok(logits)
    }

    fn feed_choose(&mut self, ids: &[u32], sampler: &Sampler, ahead: usize) -> Result<Choice, ForwardError> {
        ForwardError::check(ids, self.n_past, self.n_ctx, self.n_vocab)?;
        for (at, piece) in windows(ids, self.window) {
            let draw = || Draw { chain: sampler.chain(), recent: sampler.recent(), ahead };
            let last = at + piece.len() == ids.len();
            let want = if last { Want::Draw(draw()) } else { Want::Nothing };
            if let Got::Choice(choice) = self.step(piece, want)? {
                return Ok(choice);
            }
        }
        Ok(Choice::Logits(Vec::new()))
    }

    fn rewind(&mut self, n_past: usize) -> usize {
        let rewound = match self.slots.rewind(self.slot, n_past) {
            Err(ForwardError::Forgotten { .. }) => self.slots.rewind(self.slot, 0).map(|()| 0),
            other => other.map(|()| self.n_past.min(n_past)),
        };
        // A sequence that cannot come back from the host's memory says so when it is fed.
        self.n_past = rewound.unwrap_or(self.n_past);
        self.n_past.min(n_past)
    }
}

impl Drop for DeviceSequence {
    fn drop(&mut self) {
        self.slots.end(self.slot);
    }
}

/// Pieces of `ids` that fit a step, each with the number of ids before it.
fn windows(ids: &[u32], window: usize) -> impl Iterator<Item = (usize, &[u32])> {
    ids.chunks(window).enumerate().map(move |(i, ids)| (i * window, ids))
}
