//! The sequences of a model as their users hold them, each known by an id.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kiln_kernels::sample::Chain;

use super::runner::StepCounts;
use super::slots::Sequences;
use crate::forward::{Choice, ForwardError};

/// A sequence. The id of one that has ended is never given again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SlotId {
    pub(super) index: usize,
    pub(super) generation: u64,
}

/// What a step does for one sequence.
#[derive(Debug, Clone, PartialEq)]
pub struct Feed<'a> {
    /// The sequence.
    pub slot: SlotId,
    /// Ids that follow it.
    pub ids: &'a [u32],
    /// What is asked for.
    pub want: Want,
}

/// What a step shall give.
#[derive(Debug, Clone, PartialEq)]
pub enum Want {
    /// Nothing: the ids are only appended.
    Nothing,
    /// Logits after those of the ids that lie in the range.
    Logits(Range<usize>),
    /// The likeliest id to follow the last.
    Choice,
    /// An id to follow the last, drawn.
    Draw(Draw),
}

/// How an id is drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Draw {
    /// What is asked of it.
    pub chain: Chain,
    /// The sequence's latest ids with those that are fed, the last of them last, as many as penalties look at.
    pub recent: Vec<u32>,
    /// How many more ids may be asked for, each after feeding the one before: as many steps may run ahead.
    pub ahead: usize,
}

/// What a step gave.
#[derive(Debug, Clone, PartialEq)]
pub enum Got {
    /// Nothing was asked for.
    Nothing,
    /// `[n_outputs, n_vocab]`.
    Logits(Vec<f32>),
    /// What follows the last id.
    Choice(Choice),
}

/// Steps that run ahead where nobody says: one keeps a device busy while the host looks at the id before.
pub const RUN_AHEAD: usize = 1;

/// The sequences of a model on a device; every call locks them for its own length.
///
/// All of them share one store of pages. Where that is too small, those that were not fed for longest are put aside in
/// the host's memory, and come back when they are fed again.
///
/// What a sequence gets depends on its own feeds alone, to the bit: on how its ids were cut into feeds, and on how many
/// outputs each asked for. Who else is in a step, and where, changes nothing, since each feed is multiplied as its own
/// length says.
#[derive(Clone)]
pub struct Slots {
    sequences: Arc<Mutex<Sequences>>,
}

impl Slots {
    pub(super) fn new(sequences: Sequences) -> Self {
        Self { sequences: Arc::new(Mutex::new(sequences)) }
    }

    fn lock(&self) -> MutexGuard<'_, Sequences> {
        self.sequences.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets up to `depth` steps run ahead of the ids that were read, at most [`super::MAX_AHEAD`].
    pub fn set_run_ahead(&self, depth: usize) {
        self.lock().set_run_ahead(depth)
    }

    /// Steps that may run ahead.
    pub fn run_ahead(&self) -> usize {
        self.lock().run_ahead()
    }

    /// An empty sequence of at most `n_ctx` positions.
    ///
    /// # Errors
    /// As many as were planned for are there already.
    pub fn start(&self, n_ctx: usize) -> Result<SlotId, ForwardError> {
        self.lock().start(n_ctx)
    }

    /// Ends a sequence; its id names nothing any more.
    pub fn end(&self, slot: SlotId) {
        self.lock().end(slot)
    }

    /// Positions of a sequence.
    ///
    /// # Errors
    /// It has ended.
    pub fn n_past(&self, slot: SlotId) -> Result<usize, ForwardError> {
        self.lock().n_past(slot)
    }

    /// Forgets every position from `n_past` on.
    ///
    /// # Errors
    /// The sequence has ended, cannot come back from where it was put aside, or has given back what it would need.
    pub fn rewind(&self, slot: SlotId, n_past: usize) -> Result<(), ForwardError> {
        self.lock().rewind(slot, n_past)
    }

    /// A second sequence with the same positions. Their pages are the same until one of them writes.
    ///
    /// # Errors
    /// The sequence has ended, or there is no slot left.
    pub fn fork(&self, slot: SlotId) -> Result<SlotId, ForwardError> {
        self.lock().fork(slot)
    }

    /// The sequence's state as bytes, for [`Slots::load`] with the same model and type of keys and values.
    ///
    /// # Errors
    /// The sequence has ended, or the device fails.
    pub fn save(&self, slot: SlotId) -> Result<Vec<u8>, ForwardError> {
        self.lock().save(slot)
    }

    /// A sequence of at most `n_ctx` positions that continues from a saved state.
    ///
    /// # Errors
    /// Bytes of another model or layout, more positions than `n_ctx`, or no slot.
    pub fn load(&self, saved: &[u8], n_ctx: usize) -> Result<SlotId, ForwardError> {
        self.lock().load(saved, n_ctx)
    }

    /// Puts a sequence aside in the host's memory; its pages serve others until it is fed again.
    ///
    /// # Errors
    /// The sequence has ended, or the device fails.
    pub fn evict(&self, slot: SlotId) -> Result<(), ForwardError> {
        self.lock().evict(slot)
    }

    /// Whether a sequence is aside.
    ///
    /// # Errors
    /// It has ended.
    pub fn is_aside(&self, slot: SlotId) -> Result<bool, ForwardError> {
        self.lock().is_aside(slot)
    }

    /// How often what was done.
    pub fn counts(&self) -> StepCounts {
        self.lock().counts()
    }

    /// Feeds any number of sequences in one command and gives what each asked for, in their order.
    ///
    /// # Errors
    /// Sequences or ids that do not fit, or the device's failure; all sequences are then as before.
    pub fn step(&self, feeds: &[Feed<'_>]) -> Result<Vec<Got>, ForwardError> {
        self.lock().step(feeds)
    }
}
