//! What a device will hold and do for a model: a pure function of graph, tensor formats, limits and context.
//!
//! A [`Plan`] is data: buffers, and for each class of step a list of launches over them. It has no handles, so it is
//! made, printed and tested without a GPU. Buffers are numbered: `BufferId(i)` in a launch is `buffers[i]`.

mod error;
mod lower;
mod scratch;
mod text;

use kiln_abi::Limits;
use kiln_kernels::{Call, Registry};

pub use self::error::PlanError;
use crate::graph::{Graph, Rope, TensorId};

/// How many rows and outputs a recorded command has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepClass {
    /// Rows: token ids fed.
    pub rows: u32,
    /// Rows whose logits are computed.
    pub outputs: u32,
}

/// What a buffer holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Holds {
    /// Rows of a matrix or embedding table, as the file has them.
    Blocks {
        /// The tensor.
        tensor: TensorId,
        /// First row of this piece.
        first: u32,
        /// Rows of this piece.
        m: u32,
    },
    /// A tensor as f32, whatever its format in the file.
    Floats(TensorId),
    /// Cosine and sine of every position's angles.
    Angles(Rope),
    /// Keys of a layer, in pages.
    Keys {
        /// The layer.
        layer: usize,
    },
    /// Values of a layer, in pages.
    Values {
        /// The layer.
        layer: usize,
    },
    /// Pages of each slot.
    PageTable,
    /// The step block.
    Step,
    /// The step block of the outputs.
    OutputStep,
    /// Activations between words.
    Scratch,
    /// Logits of the outputs.
    Logits,
    /// The greedy choice of each output.
    Chosen,
    /// Choices of the last steps, for the host to read while the device goes on.
    Ring,
}

impl Holds {
    /// Whether all sequences share it: it is written once, when the model is loaded.
    pub const fn is_shared(&self) -> bool {
        matches!(self, Holds::Blocks { .. } | Holds::Floats(_) | Holds::Angles(_))
    }
}

/// One buffer.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedBuffer {
    /// For people, and for errors.
    pub name: String,
    /// Size.
    pub bytes: u64,
    /// Content.
    pub holds: Holds,
}

/// One launch.
#[derive(Debug, Clone)]
pub struct PlannedLaunch {
    /// The graph word it serves.
    pub label: String,
    /// Kernel and arguments.
    pub call: Call,
}

/// The launches of one class of step.
#[derive(Debug, Clone)]
pub struct PlannedStep {
    /// Its room.
    pub class: StepClass,
    /// In order.
    pub launches: Vec<PlannedLaunch>,
}

/// Positions, and how they are kept in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    /// Most positions of a sequence.
    pub n_ctx: u32,
    /// Sequences.
    pub n_slots: u32,
    /// Pages of a slot, at most.
    pub max_pages: u32,
    /// Pages of a layer.
    pub n_pages: u32,
}

/// The plan of one model on one device.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Buffers; a launch names one by its index.
    pub buffers: Vec<PlannedBuffer>,
    /// Smallest class first.
    pub steps: Vec<PlannedStep>,
    /// Positions.
    pub context: Context,
    /// Number of logits in a row.
    pub n_vocab: u32,
    /// Rows fed in one step, at most.
    pub window: u32,
}

/// Words of the ring of choices.
pub const RING_WORDS: u32 = 64;

impl Plan {
    /// Plans `graph` for a device; `type_id` gives each tensor's format.
    ///
    /// # Errors
    /// What the device path lacks or the device's limits forbid, by name.
    pub fn new(
        graph: &Graph,
        type_id: &dyn Fn(TensorId) -> Option<u32>,
        registry: &Registry,
        limits: &Limits,
        n_ctx: usize,
    ) -> Result<Self, PlanError> {
        lower::plan(graph, type_id, registry, limits, n_ctx)
    }

    /// The smallest class with room for a step, by its index.
    pub fn step_for(&self, rows: usize, outputs: usize) -> Option<usize> {
        let fits = |c: StepClass| rows <= c.rows as usize && outputs <= c.outputs as usize;
        self.steps.iter().position(|s| fits(s.class))
    }

    /// The buffer of a kind that there is one of.
    pub fn find(&self, holds: &Holds) -> Option<usize> {
        self.buffers.iter().position(|b| b.holds == *holds)
    }

    /// Bytes of all buffers, shared and per sequence.
    pub fn bytes(&self) -> (u64, u64) {
        let sum =
            |shared| self.buffers.iter().filter(|b| b.holds.is_shared() == shared).map(|b| b.bytes).sum();
        (sum(true), sum(false))
    }
}
