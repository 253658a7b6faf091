//! Runs planned steps on a device: one submit per step, only what is asked for comes back.

mod pages;
mod step;

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use kiln_abi::{BufferId, Device, DeviceCaps, DeviceError, LaunchError};
use kiln_kernels::{Registry, argmax::NO_CHOICE, kv_store::PAGE, step::StepRow};
use kiln_runtime::{Gpu, Placement, RecordOptions, Recorded};

use self::pages::Pages;
use self::step::{Span, Step};
use crate::forward::{Backend, Choice, Forward, ForwardError};
use crate::gguf::Gguf;
use crate::graph::{Graph, TensorId};
use crate::plan::{
    Context, ContextReason, ContextWish, Holds, Plan, PlanError, PlanOptions, PlannedBuffer, RING_WORDS,
    Target,
};
use crate::record::{Pipelines, record};
use crate::upload::{Shared, UploadError, upload};

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
}

/// A model on a device.
pub struct DeviceModel {
    gpu: Gpu,
    plan: Arc<Plan>,
    shared: Arc<Shared>,
    /// Where each shared buffer of the plan is, by index in the plan.
    places: Vec<Option<BufferId>>,
    pipelines: Arc<Mutex<Pipelines>>,
    record: RecordOptions,
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
        let plan = Plan::new(graph, &type_id, registry, &Target::of(gpu), options)?;
        if let ContextReason::Shortened { .. } = plan.context_reason {
            tracing::warn!("the context has {} positions, {}", plan.context.n_ctx, plan.context_reason);
        }
        let shared = upload(gpu, &plan, gguf, graph, registry, progress)?;
        let places = (0..plan.buffers.len()).map(|index| shared.get(index)).collect();
        Ok(Self {
            gpu: gpu.clone(),
            plan: Arc::new(plan),
            shared: Arc::new(shared),
            places,
            pipelines: Arc::default(),
            record: RecordOptions::default(),
        })
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
        let options = PlanOptions { context, n_slots, n_pages: Some(n_pages), kv_type, plain: true };
        let plan = Plan::new(graph, &type_id, registry, &target, options)?;
        let place = |buffer: &PlannedBuffer| {
            let same = |known: &PlannedBuffer| known.holds == buffer.holds;
            let at = self.plan.buffers.iter().position(same).filter(|_| buffer.holds.is_shared());
            at.and_then(|at| self.places[at])
        };
        Ok(Self {
            gpu: self.gpu.clone(),
            places: plan.buffers.iter().map(place).collect(),
            plan: Arc::new(plan),
            shared: Arc::clone(&self.shared),
            pipelines: Arc::clone(&self.pipelines),
            record: RecordOptions { paranoid: true, ..self.record },
        })
    }

    /// What the device can do.
    pub fn caps(&self) -> &DeviceCaps {
        self.gpu.caps()
    }

    /// Where a buffer of the plan is, if all sequences share it.
    pub fn shared_buffer(&self, index: usize) -> Option<BufferId> {
        self.places.get(index).copied().flatten()
    }

    /// What was planned.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }
}

impl Backend for DeviceModel {
    fn sequence(&self, n_ctx: usize) -> Result<Box<dyn Forward>, ForwardError> {
        Ok(Box::new(DeviceSequence::new(self, n_ctx)?))
    }
}

/// Buffers of one sequence; dropping them gives the memory back.
struct Own {
    gpu: Gpu,
    buffers: Vec<BufferId>,
}

impl Own {
    fn allocate(&mut self, buffer: &PlannedBuffer) -> Result<BufferId, DeviceError> {
        let id = match buffer.holds {
            Holds::Ring => self.gpu.allocate_in(Placement::Host, buffer.bytes, &buffer.name),
            _ => self.gpu.allocate(buffer.bytes, &buffer.name),
        }?;
        self.buffers.push(id);
        Ok(id)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.buffers.iter().for_each(|id| self.gpu.free(*id));
    }
}

/// Where the host writes and reads.
struct Ports {
    step: BufferId,
    table: BufferId,
    logits: BufferId,
    chosen: BufferId,
    ring: BufferId,
}

/// One sequence on a device.
struct DeviceSequence {
    gpu: Gpu,
    plan: Arc<Plan>,
    pipelines: Arc<Mutex<Pipelines>>,
    record: RecordOptions,
    /// Commands of each class, recorded when first needed. Dropped before the buffers that they use.
    recorded: Vec<Option<Recorded>>,
    /// By index in the plan.
    buffers: Vec<BufferId>,
    ports: Ports,
    pages: Pages,
    n_ctx: usize,
    n_past: usize,
    /// What the step block's one row holds after a decode step, so that the next needs no write.
    ahead: Option<StepRow>,
    /// Decode steps done since the step block was last written.
    steps_done: u32,
    _own: Own,
    _shared: Arc<Shared>,
}

/// The sequence's only slot.
const SLOT: u32 = 0;

impl DeviceSequence {
    fn new(model: &DeviceModel, n_ctx: usize) -> Result<Self, ForwardError> {
        let (gpu, plan) = (model.gpu.clone(), Arc::clone(&model.plan));
        let mut own = Own { gpu: gpu.clone(), buffers: Vec::new() };
        let mut buffers = Vec::with_capacity(plan.buffers.len());
        for (index, buffer) in plan.buffers.iter().enumerate() {
            buffers.push(match model.shared_buffer(index) {
                Some(shared) => shared,
                None => own.allocate(buffer).map_err(LaunchError::from)?,
            });
        }
        let port = |holds: &Holds| plan.find(holds).map_or(BufferId(u64::MAX), |i| buffers[i]);
        let ports = Ports {
            step: port(&Holds::Step),
            table: port(&Holds::PageTable),
            logits: port(&Holds::Logits),
            chosen: port(&Holds::Chosen),
            ring: port(&Holds::Ring),
        };
        let context = plan.context;
        let sequence = Self {
            pages: Pages::new(context.n_slots, context.n_pages, PAGE),
            recorded: plan.steps.iter().map(|_| None).collect(),
            pipelines: Arc::clone(&model.pipelines),
            record: model.record,
            n_ctx: n_ctx.min(context.n_ctx as usize),
            n_past: 0,
            ahead: None,
            steps_done: 0,
            gpu,
            plan,
            buffers,
            ports,
            _own: own,
            _shared: Arc::clone(&model.shared),
        };
        Ok(sequence)
    }

    /// Feeds at most a window's rows; without outputs, the last row's choice is wanted.
    fn window<'a>(&self, ids: &'a [u32], outputs: Range<usize>) -> Step<'a> {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let outputs = if outputs.is_empty() { ids.len().saturating_sub(1)..ids.len() } else { outputs };
        let span = Span { slot: SLOT, pos0: count(self.n_past), n_rows: count(ids.len()) };
        Step { spans: vec![span], ids, outputs: outputs.map(count).collect() }
    }

    /// Runs one step.
    fn step(&mut self, step: &Step<'_>) -> Result<(), LaunchError> {
        let (n_rows, n_outputs) = (step.ids.len(), step.outputs.len());
        let class = self.plan.step_for(n_rows, n_outputs).unwrap_or(self.plan.steps.len() - 1);
        self.reserve(n_rows)?;
        self.seed(step, class)?;
        if self.recorded[class].is_none() {
            let mut pipelines = self.pipelines.lock().unwrap_or_else(PoisonError::into_inner);
            let planned = &self.plan.steps[class];
            let recorded = record(&self.gpu, planned, &self.buffers, &mut pipelines, self.record)?;
            self.recorded[class] = Some(recorded);
        }
        let Some(recorded) = &self.recorded[class] else { return Ok(()) };
        let ticket = recorded.submit()?;
        // Spinning sees the end of a short step sooner than waiting does.
        for _ in 0..SPINS {
            if self.gpu.is_done(&ticket)? {
                break;
            }
            std::hint::spin_loop();
        }
        self.gpu.wait(&ticket, None)?;
        Ok(())
    }

    fn reserve(&mut self, n: usize) -> Result<(), DeviceError> {
        match self.pages.reserve(SLOT as usize, self.n_past + n) {
            Some(true) => {
                let table = self.pages.table(self.plan.context.max_pages);
                self.gpu.write(self.ports.table, 0, &bytes(&table))
            }
            // The context was checked before, and the plan has pages for all of it.
            Some(false) | None => Ok(()),
        }
    }

    /// Writes the step block, unless the last step left it as it has to be.
    fn seed(&mut self, step: &Step<'_>, class: usize) -> Result<(), DeviceError> {
        if self.ahead.is_some_and(|row| step.rows() == [row]) {
            return Ok(());
        }
        self.steps_done = 0;
        self.gpu.write(self.ports.step, 0, &bytes(&step.block(self.plan.steps[class].class.rows)))
    }

    /// Bookkeeping after a step; a step of one row has moved its block on by its own choice.
    fn fed(&mut self, n: usize) -> Result<(), LaunchError> {
        self.n_past += n;
        self.ahead = None;
        if n == 1 {
            let line = self.steps_done % RING_WORDS;
            let token = self.gpu.peek(self.ports.ring, 4 * u64::from(line))?;
            self.steps_done += 1;
            self.ahead = Some(StepRow { token, position: self.n_past as u32, slot: SLOT });
        }
        Ok(())
    }

    /// The first `n` rows of logits of the last step.
    fn logits(&self, n: usize) -> Result<Vec<f32>, LaunchError> {
        let mut rows = vec![0; 4 * n * self.n_vocab()];
        self.gpu.read(self.ports.logits, 0, &mut rows)?;
        Ok(rows.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
    }

    fn run(&mut self, ids: &[u32], outputs: Range<usize>) -> Result<(), ForwardError> {
        let step = self.window(ids, outputs);
        self.step(&step)?;
        Ok(self.fed(ids.len())?)
    }
}

/// Looks at a running step before the host goes to sleep: some tens of microseconds.
const SPINS: u32 = 2_000;

impl Forward for DeviceSequence {
    fn n_past(&self) -> usize {
        self.n_past
    }

    fn n_ctx(&self) -> usize {
        self.n_ctx
    }

    fn n_vocab(&self) -> usize {
        self.plan.n_vocab as usize
    }

    fn feed(&mut self, ids: &[u32], outputs: Range<usize>) -> Result<Vec<f32>, ForwardError> {
        let n_vocab = self.n_vocab();
        ForwardError::check(ids, self.n_past, self.n_ctx, n_vocab)?;
        let mut logits = Vec::with_capacity(outputs.len() * n_vocab);
        let window = self.plan.window as usize;
        for (at, ids) in ids.chunks(window).enumerate().map(|(i, ids)| (i * window, ids)) {
            let within = |row: usize| row.saturating_sub(at).min(ids.len());
            let outputs = within(outputs.start)..within(outputs.end);
            let n = outputs.len();
            self.run(ids, outputs)?;
            logits.extend(self.logits(n)?);
        }
        Ok(logits)
    }

    fn feed_greedy(&mut self, ids: &[u32]) -> Result<Choice, ForwardError> {
        ForwardError::check(ids, self.n_past, self.n_ctx, self.n_vocab())?;
        for ids in ids.chunks(self.plan.window as usize) {
            self.run(ids, 0..0)?;
        }
        let token = match self.ahead {
            Some(row) => row.token,
            None => {
                let mut word = [0; 4];
                self.gpu.read(self.ports.chosen, 0, &mut word).map_err(LaunchError::from)?;
                u32::from_le_bytes(word)
            }
        };
        if token == NO_CHOICE {
            self.ahead = None;
            return Ok(Choice::Logits(self.logits(1)?));
        }
        Ok(Choice::Token(token))
    }

    fn rewind(&mut self, n_past: usize) {
        self.n_past = self.n_past.min(n_past);
        self.pages.rewind(SLOT as usize, self.n_past);
        self.ahead = None;
    }
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}
