//! Runs recorded steps: seeds the step block where the device has not left it right, submits once, lets steps run ahead
//! of what the host has read, and reads choices.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kiln_abi::{BufferId, Device, DeviceError, DeviceKind, LaunchError};
use kiln_kernels::{
    advance::ring_choice,
    sample::{Chain, NO_CHOICE, SAMPLER_WORDS},
    step::StepRow,
};
use kiln_runtime::{Gpu, Placement, RecordOptions, Recorded, Ticket};

use super::step::{MAX_PARTS, Part};
use crate::plan::{Holds, Plan, PlannedBuffer, RING_LINES, Width};
use crate::record::{Pipelines, record};
use crate::upload::Shared;

/// How often things were done that a decode step must not do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StepCounts {
    /// Steps submitted, each by one submit; also those that ran ahead and were taken back.
    pub steps: u64,
    /// Commands recorded.
    pub recordings: u64,
    /// Step blocks written by the host; a step that follows on the device's own choices needs none.
    pub seeds: u64,
    /// Page tables written by the host, one for each new page or so.
    pub tables: u64,
    /// Slots whose sampler the host wrote; a sequence that follows the device's own choices needs it once.
    pub samplers: u64,
    /// Times that logits were read.
    pub logits: u64,
    /// Steps that ran ahead of an id which the host had not read, and became the sequence's own.
    pub ahead: u64,
    /// Steps that ran ahead and were taken back.
    pub taken_back: u64,
}

/// Steps that may run ahead of the ids that the host has read, at most: the ring has a line for each, and one for the
/// step that the host waits for.
pub const MAX_AHEAD: usize = RING_LINES as usize - 1;
/// Looks at the ring between looks at the clock.
const LOOKS: u32 = 256;
/// How long the host looks at the ring of a GPU before it goes to sleep. A CPU that is looked at does not compute.
const LOOKING: Duration = Duration::from_millis(20);

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
    /// Of each group.
    tables: Vec<BufferId>,
    samplers: BufferId,
}

/// Where a part of a step is: the first where all steps are, others beside it.
struct Place {
    /// By index in the plan.
    buffers: Vec<BufferId>,
    step: BufferId,
    logits: BufferId,
    ring: BufferId,
    /// Choices of the last step's outputs.
    chosen: Vec<u32>,
}

/// The classes of a step's parts, by index in the plan.
type Classes = [Option<usize>; MAX_PARTS];

/// A step that was submitted and whose choices nobody has read.
struct Flight {
    ticket: Ticket,
    /// Steps done before it: which line of the ring it writes, and how it marks it.
    done: u32,
    /// Position and slot of each output's choice.
    next: Vec<(u32, u32)>,
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
    /// Commands of each class and of each mixture, recorded when first needed. Dropped before the buffers that they use.
    recorded: BTreeMap<Classes, Recorded>,
    places: Vec<Place>,
    ports: Ports,
    /// What the step block holds after the last step that was waited for; none where a choice is missing.
    left: Option<Vec<StepRow>>,
    /// Steps that followed it on the device's own choices.
    flights: VecDeque<Flight>,
    /// Steps that the device's ring has seen.
    done: u32,
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
        let port = |holds: &Holds, of: &[BufferId]| plan.find(holds).map_or(BufferId(u64::MAX), |i| of[i]);
        let ports = Ports {
            tables: (0..plan.groups.len()).map(|group| port(&Holds::PageTable { group }, &buffers)).collect(),
            samplers: port(&Holds::Samplers, &buffers),
        };
        let place = |own: &[(usize, usize)]| {
            let mut of = buffers.clone();
            own.iter().for_each(|(instead, own)| of[*instead] = buffers[*own]);
            let (step, logits) = (port(&Holds::Step, &of), port(&Holds::Logits, &of));
            Place { step, logits, ring: port(&Holds::Ring, &of), buffers: of, chosen: Vec::new() }
        };
        let places: Vec<Place> =
            std::iter::once(place(&[])).chain(plan.beside.iter().map(|own| place(own))).collect();
        // Every slot chooses, also where nobody asks; the ring is of no step yet.
        gpu.write(
            ports.samplers,
            0,
            &bytes(&Chain::GREEDY.words(&[], 0).repeat(plan.context.n_slots as usize)),
        )?;
        for place in &places {
            gpu.write(place.ring, 0, &vec![0; 4 * (RING_LINES * plan.n_choices) as usize])?;
        }
        Ok(Self {
            gpu: gpu.clone(),
            plan: Arc::clone(plan),
            pipelines: Arc::clone(&weights.pipelines),
            record,
            recorded: BTreeMap::new(),
            places,
            ports,
            left: None,
            flights: VecDeque::new(),
            done: 0,
            counts: StepCounts::default(),
            _own: own,
            _weights: weights,
        })
    }

    pub(super) fn counts(&self) -> StepCounts {
        self.counts
    }

    /// Runs the parts of a step in one command, until its choices are here, or its end where there are none.
    ///
    /// While the host waits for a step of one part, up to `ahead` more are submitted, each on the choices of the one
    /// before; they become steps when they are asked for. `None` where logits are wanted, which a later step would
    /// overwrite.
    pub(super) fn run(&mut self, parts: &[Part], ahead: Option<usize>) -> Result<(), LaunchError> {
        self.places.iter_mut().for_each(|place| place.chosen.clear());
        let [part] = parts else { return self.run_beside(parts) };
        if ahead.is_some() && self.flew(parts) {
            self.counts.ahead += 1;
        } else {
            self.submit_first(part)?;
        }
        let most = ahead.unwrap_or(0).min(MAX_AHEAD);
        while self.flights.len() <= most && part.outputs.len() <= self.plan.n_choices as usize {
            let Some(last) = self.flights.back() else { break };
            let n = last.next.len();
            let next = last.next.iter().map(|(position, slot)| (position + 1, *slot)).collect();
            let class = self.class(Width::Narrow, n, n);
            self.submit(alone(class), next)?;
        }
        self.land(part)?;
        if self.places[0].chosen.contains(&NO_CHOICE) && !self.flights.is_empty() {
            // Its logits, which say why, are gone.
            self.submit_first(part)?;
            self.land(part)?;
        }
        Ok(())
    }

    /// Runs parts beside each other; what follows is not on the device then.
    fn run_beside(&mut self, parts: &[Part]) -> Result<(), LaunchError> {
        self.settle()?;
        self.left = None;
        let mut classes = [None; MAX_PARTS];
        for (class, part) in classes.iter_mut().zip(parts) {
            *class = Some(self.class(part.width, part.ids.len(), part.outputs.len()));
        }
        self.record(classes)?;
        for (place, part) in self.places.iter().zip(parts) {
            self.counts.seeds += 1;
            self.gpu.write(place.step, 0, &bytes(&part.block(self.plan.window, self.done)))?;
        }
        self.submit(classes, Vec::new())?;
        let Some(flight) = self.flights.pop_front() else { return Ok(()) };
        self.gpu.wait(&flight.ticket, None)?;
        for (at, part) in parts.iter().enumerate() {
            let n = part.outputs.len().min(self.plan.n_choices as usize);
            self.read_ring(at, flight.done, n)?;
            self.has_all(at, n)?;
        }
        Ok(())
    }

    /// Whether a part is what the last step left.
    fn follows(&self, part: &Part) -> bool {
        self.left.as_ref().is_some_and(|left| {
            left.iter().copied().eq(part.rows()) && part.outputs.iter().copied().eq(0..count(left.len()))
        })
    }

    /// Whether steps run ahead of the last.
    pub(super) fn is_ahead(&self) -> bool {
        !self.flights.is_empty()
    }

    /// Whether a step runs already.
    pub(super) fn flew(&self, parts: &[Part]) -> bool {
        self.is_ahead() && matches!(parts, [part] if self.follows(part))
    }

    /// Waits for what ran ahead, and takes it back; the step block then holds nothing.
    pub(super) fn settle(&mut self) -> Result<(), LaunchError> {
        let Some(last) = self.flights.back() else { return Ok(()) };
        self.gpu.wait(&last.ticket, None)?;
        self.counts.taken_back += self.flights.len() as u64;
        self.flights.clear();
        self.left = None;
        Ok(())
    }

    /// Submits a step of one part with nothing before it that the host has not read.
    fn submit_first(&mut self, part: &Part) -> Result<(), LaunchError> {
        let classes = alone(self.class(part.width, part.ids.len(), part.outputs.len()));
        self.record(classes)?;
        self.settle()?;
        if !self.follows(part) {
            self.counts.seeds += 1;
            let block = part.block(self.plan.window, self.done);
            self.gpu.write(self.places[0].step, 0, &bytes(&block))?;
        }
        let rows: Vec<_> = part.rows().collect();
        let place = |row: &u32| (rows[*row as usize].position + 1, rows[*row as usize].slot);
        self.submit(classes, part.outputs.iter().map(place).collect())
    }

    fn submit(&mut self, classes: Classes, next: Vec<(u32, u32)>) -> Result<(), LaunchError> {
        self.record(classes)?;
        let Some(recorded) = self.recorded.get(&classes) else { return Ok(()) };
        let ticket = recorded.submit()?;
        self.counts.steps += 1;
        self.flights.push_back(Flight { ticket, done: self.done, next });
        self.done = self.done.wrapping_add(1);
        Ok(())
    }

    fn class(&self, width: Width, rows: usize, outputs: usize) -> usize {
        self.plan.step_for(width, rows, outputs).unwrap_or(self.plan.steps.len() - 1)
    }

    fn record(&mut self, classes: Classes) -> Result<(), LaunchError> {
        if !self.recorded.contains_key(&classes) {
            let mut pipelines = self.pipelines.lock().unwrap_or_else(PoisonError::into_inner);
            let parts = classes.iter().flatten().zip(&self.places);
            let parts: Vec<_> =
                parts.map(|(class, place)| (&self.plan.steps[*class], &place.buffers[..])).collect();
            let recorded = record(&self.gpu, &parts, &mut pipelines, self.record)?;
            self.recorded.insert(classes, recorded);
            self.counts.recordings += 1;
        }
        Ok(())
    }

    /// Reads what the oldest step in flight chose, which the device has made the rows of the next.
    fn land(&mut self, part: &Part) -> Result<(), LaunchError> {
        self.places[0].chosen.clear();
        self.left = None;
        let Some(flight) = self.flights.pop_front() else { return Ok(()) };
        let n_chosen = flight.next.len().min(self.plan.n_choices as usize);
        if n_chosen == 0 || !self.look(&flight, n_chosen)? {
            self.gpu.wait(&flight.ticket, None)?;
            self.read_ring(0, flight.done, n_chosen)?;
        }
        self.has_all(0, n_chosen)?;
        let chosen = &self.places[0].chosen;
        if !chosen.contains(&NO_CHOICE) && n_chosen == part.outputs.len() {
            let next = |((position, slot), token): (&(u32, u32), &u32)| StepRow {
                token: *token,
                position: *position,
                slot: *slot,
            };
            self.left = Some(flight.next.iter().zip(chosen).map(next).collect());
        }
        Ok(())
    }

    /// Looks at the ring for a while; says whether all choices came.
    fn look(&mut self, flight: &Flight, n_chosen: usize) -> Result<bool, LaunchError> {
        if self.gpu.caps().kind == DeviceKind::Cpu {
            return Ok(false);
        }
        let started = Instant::now();
        while started.elapsed() < LOOKING {
            for _ in 0..LOOKS {
                self.read_ring(0, flight.done, n_chosen)?;
                if self.places[0].chosen.len() == n_chosen {
                    return Ok(true);
                }
                std::hint::spin_loop();
            }
        }
        Ok(false)
    }

    /// The choices of a part, as far as the device has written them.
    fn read_ring(&mut self, place: usize, done: u32, n_chosen: usize) -> Result<(), LaunchError> {
        let Place { ring, chosen, .. } = &mut self.places[place];
        let line = u64::from(done % RING_LINES) * u64::from(self.plan.n_choices);
        while chosen.len() < n_chosen {
            let word = self.gpu.peek(*ring, 4 * (line + chosen.len() as u64))?;
            match ring_choice(done, word) {
                Some(choice) => chosen.push(choice),
                None => break,
            }
        }
        Ok(())
    }

    /// Whether a part whose command has ended has made all its choices.
    fn has_all(&self, place: usize, n_chosen: usize) -> Result<(), LaunchError> {
        if self.places[place].chosen.len() < n_chosen {
            let reason = "its command has ended and the ring of choices has none of it".to_owned();
            return Err(DeviceError::Refused { kernel: "advance".to_owned(), reason }.into());
        }
        Ok(())
    }

    /// The choice of output `o` of a part of the last step; none where its row of logits allows none.
    pub(super) fn chosen(&self, part: usize, o: usize) -> Option<u32> {
        self.places[part].chosen.get(o).copied().filter(|token| *token != NO_CHOICE)
    }

    /// Logits of `n` outputs of a part of the last step from output `first` on, `[n, n_vocab]`.
    pub(super) fn logits(&mut self, part: usize, first: usize, n: usize) -> Result<Vec<f32>, LaunchError> {
        self.counts.logits += 1;
        let row = 4 * self.plan.n_vocab as usize;
        let mut rows = vec![0; n * row];
        self.gpu.read(self.places[part].logits, (first * row) as u64, &mut rows)?;
        Ok(rows.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
    }

    /// Brings new page tables to the device, one of each group.
    pub(super) fn write_tables(&mut self, tables: &[Vec<u32>]) -> Result<(), DeviceError> {
        self.counts.tables += 1;
        let mut all = self.ports.tables.iter().zip(tables);
        all.try_for_each(|(at, table)| self.gpu.write(*at, 0, &bytes(table)))
    }

    /// Tells the device what is asked of a slot's choices, and its latest ids.
    pub(super) fn write_sampler(&mut self, slot: usize, words: &[u32]) -> Result<(), DeviceError> {
        self.counts.samplers += 1;
        self.gpu.write(self.ports.samplers, 4 * (slot * SAMPLER_WORDS as usize) as u64, &bytes(words))
    }

    /// Buffers of keys and values with the bytes of a page in each and the group whose pages it has, layer by layer.
    fn stores(&self) -> impl Iterator<Item = (BufferId, u64, usize)> {
        let all = self.plan.buffers.iter().zip(&self.places[0].buffers);
        all.filter_map(|(b, id)| match b.holds {
            Holds::Keys { group, .. } | Holds::Values { group, .. } => {
                Some((*id, b.bytes / u64::from(self.plan.groups[group].n_pages), group))
            }
            _ => None,
        })
    }

    /// The group of each store, in the order of [`Runner::page_bytes`].
    pub(super) fn store_groups(&self) -> Vec<usize> {
        self.stores().map(|(_, _, group)| group).collect()
    }

    /// Copies a page of every layer of a group.
    pub(super) fn copy_page(&mut self, group: usize, (from, to): (u32, u32)) -> Result<(), DeviceError> {
        let mut recorder = self.gpu.recorder("copy of a page", RecordOptions::default())?;
        for (buffer, bytes, _) in self.stores().filter(|store| store.2 == group) {
            let page =
                |page: u32| kiln_abi::BufferRange { buffer, offset_bytes: u64::from(page) * bytes, bytes };
            recorder.copy(page(from), page(to))?;
        }
        recorder.finish()?.run()
    }

    /// The bytes of a page in store `index`, in the order of [`Runner::page_bytes`].
    pub(super) fn read_page(&self, index: usize, page: u32) -> Result<Vec<u8>, DeviceError> {
        let Some((buffer, bytes, _)) = self.stores().nth(index) else { return Ok(Vec::new()) };
        let mut content = vec![0; usize::try_from(bytes).unwrap_or(0)];
        self.gpu.read(buffer, u64::from(page) * bytes, &mut content)?;
        Ok(content)
    }

    /// Writes a whole page of store `index`.
    pub(super) fn write_page(&self, index: usize, page: u32, content: &[u8]) -> Result<(), DeviceError> {
        let Some((buffer, bytes, _)) = self.stores().nth(index) else { return Ok(()) };
        self.gpu.write(buffer, u64::from(page) * bytes, content)
    }

    /// Bytes of a page in each store: keys and values of each layer.
    pub(super) fn page_bytes(&self) -> Vec<usize> {
        self.stores().map(|(_, bytes, _)| usize::try_from(bytes).unwrap_or(usize::MAX)).collect()
    }
}

/// A step of one part.
const fn alone(class: usize) -> Classes {
    [Some(class), None, None]
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}
