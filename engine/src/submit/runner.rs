//! Runs recorded steps: seeds the step block where the device has not left it right, submits once, reads choices.

use std::sync::{Arc, Mutex, PoisonError};

use kiln_abi::{BufferId, Device, DeviceError, LaunchError};
use kiln_kernels::{argmax::NO_CHOICE, step::StepRow};
use kiln_runtime::{Gpu, Placement, RecordOptions, Recorded};

use super::step::Step;
use crate::plan::{Holds, Plan, PlannedBuffer, RING_LINES};
use crate::record::{Pipelines, record};
use crate::upload::Shared;

/// How often things were done that a decode step must not do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StepCounts {
    /// Steps run, each one submit.
    pub steps: u64,
    /// Commands recorded.
    pub recordings: u64,
    /// Step blocks written by the host; a step that follows on the device's own choices needs none.
    pub seeds: u64,
    /// Page tables written by the host, one for each new page or so.
    pub tables: u64,
}

/// Looks at a running step before the host goes to sleep: some tens of microseconds.
const SPINS: u32 = 2_000;

/// Buffers that steps write; dropping them gives the memory back.
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
    ring: BufferId,
}

/// What all sequences share, on the device since the model was loaded.
#[derive(Clone)]
pub(super) struct Weights {
    pub(super) _shared: Arc<Shared>,
    /// Where each shared buffer of the plan is, by index in the plan.
    pub(super) places: Vec<Option<BufferId>>,
    pub(super) pipelines: Arc<Mutex<Pipelines>>,
}

/// A model's commands and the buffers they work on.
pub(super) struct Runner {
    gpu: Gpu,
    plan: Arc<Plan>,
    pipelines: Arc<Mutex<Pipelines>>,
    record: RecordOptions,
    /// Commands of each class, recorded when first needed. Dropped before the buffers that they use.
    recorded: Vec<Option<Recorded>>,
    /// By index in the plan.
    buffers: Vec<BufferId>,
    ports: Ports,
    /// What the step block holds after the last step; none where a choice is missing.
    ahead: Option<Vec<StepRow>>,
    /// Choices of the last step's outputs.
    chosen: Vec<u32>,
    /// Steps done since the step block was last written.
    steps_done: u32,
    counts: StepCounts,
    _own: Own,
    /// Freed after everything that uses them.
    _weights: Weights,
}

impl Runner {
    /// Allocates what steps write.
    pub(super) fn new(
        gpu: &Gpu,
        plan: &Arc<Plan>,
        weights: Weights,
        record: RecordOptions,
    ) -> Result<Self, DeviceError> {
        let mut own = Own { gpu: gpu.clone(), buffers: Vec::new() };
        let mut buffers = Vec::with_capacity(plan.buffers.len());
        for (index, buffer) in plan.buffers.iter().enumerate() {
            buffers.push(match weights.places[index] {
                Some(shared) => shared,
                None => own.allocate(buffer)?,
            });
        }
        let port = |holds: &Holds| plan.find(holds).map_or(BufferId(u64::MAX), |i| buffers[i]);
        let ports = Ports {
            step: port(&Holds::Step),
            table: port(&Holds::PageTable),
            logits: port(&Holds::Logits),
            ring: port(&Holds::Ring),
        };
        Ok(Self {
            gpu: gpu.clone(),
            plan: Arc::clone(plan),
            pipelines: Arc::clone(&weights.pipelines),
            record,
            recorded: plan.steps.iter().map(|_| None).collect(),
            buffers,
            ports,
            ahead: None,
            chosen: Vec::new(),
            steps_done: 0,
            counts: StepCounts::default(),
            _own: own,
            _weights: weights,
        })
    }

    pub(super) fn counts(&self) -> StepCounts {
        self.counts
    }

    /// Runs one step to its end.
    pub(super) fn run(&mut self, step: &Step) -> Result<(), LaunchError> {
        let class = self.plan.step_for(step.ids.len(), step.outputs.len());
        let class = class.unwrap_or(self.plan.steps.len() - 1);
        self.record(class)?;
        self.seed(step)?;
        self.ahead = None;
        let Some(recorded) = &self.recorded[class] else { return Ok(()) };
        let ticket = recorded.submit()?;
        self.counts.steps += 1;
        // Spinning sees the end of a short step sooner than waiting does.
        for _ in 0..SPINS {
            if self.gpu.is_done(&ticket)? {
                break;
            }
            std::hint::spin_loop();
        }
        self.gpu.wait(&ticket, None)?;
        self.read_choices(step)
    }

    fn record(&mut self, class: usize) -> Result<(), LaunchError> {
        if self.recorded[class].is_none() {
            let mut pipelines = self.pipelines.lock().unwrap_or_else(PoisonError::into_inner);
            let planned = &self.plan.steps[class];
            self.recorded[class] =
                Some(record(&self.gpu, planned, &self.buffers, &mut pipelines, self.record)?);
            self.counts.recordings += 1;
        }
        Ok(())
    }

    /// Writes the step block, unless the last step left it as it has to be.
    fn seed(&mut self, step: &Step) -> Result<(), DeviceError> {
        let left = self.ahead.as_ref().is_some_and(|ahead| {
            ahead.iter().copied().eq(step.rows()) && step.outputs.iter().copied().eq(0..count(ahead.len()))
        });
        if left {
            return Ok(());
        }
        self.steps_done = 0;
        self.counts.seeds += 1;
        self.gpu.write(self.ports.step, 0, &bytes(&step.block(self.plan.window)))
    }

    /// Reads what the step chose for its outputs, which the device has made the rows of the next step.
    fn read_choices(&mut self, step: &Step) -> Result<(), LaunchError> {
        let line = self.steps_done % RING_LINES * self.plan.window;
        self.steps_done += 1;
        self.chosen.clear();
        for o in 0..count(step.outputs.len()) {
            let offset = 4 * u64::from(line + o);
            self.chosen.push(self.gpu.peek(self.ports.ring, offset)?);
        }
        if !self.chosen.contains(&NO_CHOICE) {
            let rows: Vec<_> = step.rows().collect();
            let next = |(o, token): (&u32, &u32)| {
                let row = rows[*o as usize];
                StepRow { token: *token, position: row.position + 1, slot: row.slot }
            };
            self.ahead = Some(step.outputs.iter().zip(&self.chosen).map(next).collect());
        }
        Ok(())
    }

    /// The choice of output `o` of the last step; none where its row of logits allows none.
    pub(super) fn chosen(&self, o: usize) -> Option<u32> {
        self.chosen.get(o).copied().filter(|token| *token != NO_CHOICE)
    }

    /// Logits of `n` outputs of the last step from output `first` on, `[n, n_vocab]`.
    pub(super) fn logits(&self, first: usize, n: usize) -> Result<Vec<f32>, LaunchError> {
        let row = 4 * self.plan.n_vocab as usize;
        let mut rows = vec![0; n * row];
        self.gpu.read(self.ports.logits, (first * row) as u64, &mut rows)?;
        Ok(rows.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
    }

    /// Brings a new page table to the device.
    pub(super) fn write_table(&mut self, table: &[u32]) -> Result<(), DeviceError> {
        self.counts.tables += 1;
        self.gpu.write(self.ports.table, 0, &bytes(table))
    }

    /// Buffers of keys and values with the bytes of a page in each, layer by layer.
    fn stores(&self) -> impl Iterator<Item = (BufferId, u64)> {
        let n_pages = u64::from(self.plan.context.n_pages);
        let kept = self.plan.buffers.iter().zip(&self.buffers);
        kept.filter(|(b, _)| matches!(b.holds, Holds::Keys { .. } | Holds::Values { .. }))
            .map(move |(b, id)| (*id, b.bytes / n_pages))
    }

    /// Copies a page of every layer.
    pub(super) fn copy_page(&mut self, (from, to): (u32, u32)) -> Result<(), DeviceError> {
        let mut recorder = self.gpu.recorder("copy of a page", RecordOptions::default())?;
        for (buffer, bytes) in self.stores() {
            let page =
                |page: u32| kiln_abi::BufferRange { buffer, offset_bytes: u64::from(page) * bytes, bytes };
            recorder.copy(page(from), page(to))?;
        }
        recorder.finish()?.run()
    }

    /// The bytes of a page in store `index`, in the order of [`Runner::page_bytes`].
    pub(super) fn read_page(&self, index: usize, page: u32) -> Result<Vec<u8>, DeviceError> {
        let Some((buffer, bytes)) = self.stores().nth(index) else { return Ok(Vec::new()) };
        let mut content = vec![0; usize::try_from(bytes).unwrap_or(0)];
        self.gpu.read(buffer, u64::from(page) * bytes, &mut content)?;
        Ok(content)
    }

    /// Writes a whole page of store `index`.
    pub(super) fn write_page(&self, index: usize, page: u32, content: &[u8]) -> Result<(), DeviceError> {
        let Some((buffer, bytes)) = self.stores().nth(index) else { return Ok(()) };
        self.gpu.write(buffer, u64::from(page) * bytes, content)
    }

    /// Bytes of a page in each store: keys and values of each layer.
    pub(super) fn page_bytes(&self) -> Vec<usize> {
        self.stores().map(|(_, bytes)| usize::try_from(bytes).unwrap_or(usize::MAX)).collect()
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}
