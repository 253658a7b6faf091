//! What a device will hold and do for a model: a pure function of graph, tensor formats, device and options.
//!
//! A [`Plan`] is data: buffers, and for each class of step a list of launches over them. It has no handles, so it is
//! made, printed and tested without a GPU. Buffers are numbered: `BufferId(i)` in a launch is `buffers[i]`.

mod error;
mod hazards;
mod kernels;
mod lower;
mod matrices;
mod memory;
mod runs;
mod scratch;
mod target;
mod text;

use std::{collections::BTreeSet, ops::Range};

use kiln_abi::spirv::Capability;
use kiln_kernels::{Call, Registry, gemv::Exact, kv_type::KvType};
use kiln_runtime::Room;

pub use self::error::PlanError;
pub use self::kernels::{PlannedKernel, PlannedKernels};
pub use self::memory::{ContextReason, ContextWish, Need, Remedy};
pub use self::target::{CapsFileError, Target};
use crate::graph::{Graph, Rope, TensorId, ValueId};

/// How the rows of a feed are multiplied: decided by the feed alone, so that who else is in a step changes no bit of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Width {
    /// At most [`NARROW`] ids, or a device without matrices: row by row.
    Narrow,
    /// More ids: on matrices; the output head, of at most [`NARROW`] outputs, row by row.
    Wide,
    /// More ids and more outputs: on matrices, the output head too.
    Whole,
}

/// Ids or outputs of a feed from which on it is multiplied on matrices, less one.
pub const NARROW: usize = 16;

impl std::fmt::Display for Width {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Width::Narrow => write!(f, "feeds of up to {NARROW} rows"),
            Width::Wide => write!(f, "longer feeds of up to {NARROW} outputs"),
            Width::Whole => write!(f, "longer feeds of more outputs"),
        }
    }
}

/// How many rows and outputs a recorded command has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepClass {
    /// Whose rows they are.
    pub width: Width,
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
        /// The group whose pages it uses, by index.
        group: usize,
    },
    /// Values of a layer, in pages.
    Values {
        /// The layer.
        layer: usize,
        /// The group whose pages it uses, by index.
        group: usize,
    },
    /// Pages of each slot in the layers of a group.
    PageTable {
        /// The group, by index.
        group: usize,
    },
    /// The step block.
    Step,
    /// The step block of the outputs.
    OutputStep,
    /// Activations between words.
    Scratch,
    /// Parts of attention, between its two launches.
    Parts,
    /// Logits of the outputs.
    Logits,
    /// What is asked of each slot's choices, and its latest ids.
    Samplers,
    /// What is left to choose from.
    Candidates,
    /// The choice of each output.
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
    /// Why this kernel, where others could have served.
    pub reason: Option<String>,
}

/// The launches of one class of step.
#[derive(Debug, Clone)]
pub struct PlannedStep {
    /// Its room.
    pub class: StepClass,
    /// In order.
    pub launches: Vec<PlannedLaunch>,
    /// What the launches are for, in their order; the choice of a token after the last word is no word of the graph.
    pub words: Vec<PlannedWord>,
}

/// Graph words and the launches that serve them.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedWord {
    /// Nodes of the graph.
    pub nodes: Range<usize>,
    /// Operands that come from other words, and where they are.
    pub reads: Vec<(ValueId, Kept)>,
    /// Where values are made, each with its node's place among `nodes`; a value nobody else reads may be nowhere.
    pub writes: Vec<(usize, Kept)>,
    /// Launches of the step.
    pub launches: Range<usize>,
}

/// The buffer of a value, by index, and what it is there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kept {
    /// Rows of f32.
    Rows(usize),
    /// Rows of blocks of integers.
    Blocks(usize),
    /// The same of a norm whose scale comes late.
    Late {
        /// The blocks.
        blocks: usize,
        /// What the scale is made of.
        late: Late,
    },
}

/// What the scale of a norm is made of by who multiplies its rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Late {
    /// Sums of squares.
    pub squares: usize,
    /// Added to their mean.
    pub eps: f32,
}

impl Kept {
    /// The buffer.
    pub const fn buffer(self) -> usize {
        match self {
            Kept::Rows(buffer) | Kept::Blocks(buffer) | Kept::Late { blocks: buffer, .. } => buffer,
        }
    }
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
    /// Pages of a layer that sees all positions.
    pub n_pages: u32,
    /// How keys and values lie in them.
    pub kv_type: KvType,
}

/// Layers that see as far back as each other, and so keep the same positions in the same pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageGroup {
    /// Positions that a row sees, itself included; none for all.
    pub window: Option<usize>,
    /// Pages of a layer.
    pub n_pages: u32,
}

impl PageGroup {
    /// The group of layers that see `window` positions: their own, or the one that keeps all.
    pub fn of(groups: &[Self], window: Option<usize>) -> Option<usize> {
        let of = |window| groups.iter().position(|group| group.window == window);
        of(window).or_else(|| of(None))
    }
}

/// Sequences at once, where nobody says.
pub const N_SLOTS: u32 = 16;

/// What a caller decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanOptions {
    /// How long the context shall be.
    pub context: ContextWish,
    /// Sequences at once.
    pub n_slots: u32,
    /// Pages of a layer; none for as many as one sequence needs at most, for all to share.
    pub n_pages: Option<u32>,
    /// How keys and values are kept.
    pub kv_type: KvType,
    /// How exact the arithmetic is.
    pub class: AccuracyClass,
    /// Each graph word by launches of its own: slower, and what the usual plan is held against.
    pub plain: bool,
    /// Layers with a window keep what no row sees any more: larger, and what giving pages back is held against.
    pub keep_all: bool,
    /// Attention never takes keys in parts: slower where rows are few and see much, and what parts are held against,
    /// to the bit.
    pub whole_keys: bool,
}

impl PlanOptions {
    /// The usual plan: up to [`N_SLOTS`] sequences that share the pages of one, keys and values as f16.
    pub const fn new(context: ContextWish) -> Self {
        Self {
            context,
            n_slots: N_SLOTS,
            n_pages: None,
            kv_type: KvType::F16,
            class: AccuracyClass::F16,
            plain: false,
            keep_all: false,
            whole_keys: false,
        }
    }
}

/// 1.25 times the 0.198 that llama.cpp's CPU backend, whose activations have eight bits too, is off on SmolLM2, of a
/// spread of 2.4.
const INT8_SHARE: f64 = 0.1;

/// How exact the arithmetic is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccuracyClass {
    /// Activations of at least 16-bit floats.
    F16,
    /// Activations of one byte, a scale for 32 of them, where they meet packed weights.
    Int8,
}

impl AccuracyClass {
    /// How exact rows of x are for packed weights.
    pub const fn exact(self) -> Exact {
        match self {
            AccuracyClass::F16 => Exact::Two,
            AccuracyClass::Int8 => Exact::One,
        }
    }

    /// The same for the last product, whose errors are the logits' own.
    pub const fn head(self) -> Exact {
        Exact::Two
    }

    /// Root mean square that logits may be off those of the f32 reference, as a share of the logits' spread: their own
    /// root mean square around each row's mean.
    ///
    /// An error counts by what it can do to a choice between tokens, so it is measured by how far the tokens' logits
    /// lie apart: a model whose logits are ten times as large may be off by ten times as much. On SmolLM2, whose
    /// spread is 2.4 to 2.7, this share is the 0.015 that the class is stated for; f16 weights, inputs, keys and
    /// values with exact arithmetic between them cost 0.004 to 0.005 of it there.
    pub const fn rms_share(self) -> f64 {
        match self {
            AccuracyClass::F16 => 0.006,
            AccuracyClass::Int8 => INT8_SHARE,
        }
    }

    /// How far the plain plan's best logit leads, as a share of that spread, where no other may win: what is closer, an error
    /// of the class may turn around.
    pub const fn decided_share(self) -> f64 {
        match self {
            AccuracyClass::F16 => 0.02,
            AccuracyClass::Int8 => 0.02 / 0.006 * INT8_SHARE,
        }
    }
}

impl std::fmt::Display for AccuracyClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AccuracyClass::F16 => write!(f, "f16: activations of 11 bits and more"),
            AccuracyClass::Int8 => {
                write!(
                    f,
                    "int8: activations of 8 bits where rows meet packed weights, but for the last product"
                )
            }
        }
    }
}

/// The plan of one model on one device.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The device, on one line.
    pub device: String,
    /// Capabilities that the device's description names and Kiln has no use for.
    pub unused: Vec<String>,
    /// Capabilities that the device has and that are left out as asked.
    pub left_out: BTreeSet<Capability>,
    /// Memory that may be used.
    pub room: Room,
    /// Every kernel that a step launches.
    pub kernels: PlannedKernels,
    /// Why the context is as long as it is.
    pub context_reason: ContextReason,
    /// How exact it is.
    pub class: AccuracyClass,
    /// Buffers; a launch names one by its index.
    pub buffers: Vec<PlannedBuffer>,
    /// What the device's faster ways decline, each once.
    pub declines: Vec<String>,
    /// Why nothing is done as the class that was asked for says, if so.
    pub unmet: Option<String>,
    /// By width, smallest class first.
    pub steps: Vec<PlannedStep>,
    /// Whether wide feeds are multiplied on matrices; where not, every feed is narrow.
    pub matrices: bool,
    /// For each part of a step beside its first: buffers, by index, and which it has in their stead.
    pub beside: Vec<Vec<(usize, usize)>>,
    /// Outputs of such a part, at most.
    pub outputs_beside: u32,
    /// Positions.
    pub context: Context,
    /// How each kind of layer keeps them.
    pub groups: Vec<PageGroup>,
    /// Number of logits in a row.
    pub n_vocab: u32,
    /// Rows fed in one step, at most.
    pub window: u32,
    /// Rows of a step whose logits are computed, at most.
    pub outputs: u32,
    /// Outputs of a step that get a choice, the first ones: one for each sequence.
    pub n_choices: u32,
}

/// Logs what a plan declines, or why there is none; whoever loads a model does it once.
pub(crate) fn log_declines(plan: &Result<Plan, PlanError>) {
    match plan {
        Ok(plan) => {
            plan.unmet.iter().for_each(|reason| tracing::warn!("declined: {reason}"));
            plan.declines.iter().for_each(|reason| tracing::info!("declined: {reason}"));
        }
        Err(reason) => tracing::info!("declined: {reason}"),
    }
}

/// Steps whose choices the ring holds; a line has a choice for each of a step's outputs that get one.
pub const RING_LINES: u32 = 4;

impl Plan {
    /// Plans `graph` for a device; `type_id` gives each tensor's format.
    ///
    /// # Errors
    /// What the device path lacks, what the device's limits forbid, or what has no room, by name.
    pub fn new(
        graph: &Graph,
        type_id: &dyn Fn(TensorId) -> Option<u32>,
        registry: &Registry,
        target: &Target,
        options: PlanOptions,
    ) -> Result<Self, PlanError> {
        let lower = |n_ctx| lower::lower(graph, type_id, registry, &target.caps, options, n_ctx);
        let (lowered, context_reason) = memory::fitted(options.context, &target.caps, target.room, lower)?;
        let kernels = kernels::stage(&lowered.steps, registry, &target.caps)?;
        let lower::Lowered {
            buffers,
            declines,
            unmet,
            steps,
            matrices,
            beside,
            outputs_beside,
            context,
            groups,
            n_vocab,
            window,
            outputs,
            n_choices,
        } = lowered;
        Ok(Self {
            device: target.line(),
            unused: target.unused.clone(),
            left_out: target.caps.left_out.clone(),
            room: target.room,
            kernels,
            context_reason,
            class: options.class,
            buffers,
            declines,
            unmet,
            steps,
            matrices,
            beside,
            outputs_beside,
            context,
            groups,
            n_vocab,
            window,
            outputs,
            n_choices,
        })
    }

    /// Bytes by what they hold.
    pub fn need(&self) -> Need {
        Need::of(&self.buffers)
    }

    /// How a feed is multiplied.
    pub const fn width(&self, ids: usize, outputs: usize) -> Width {
        match (self.matrices && ids > NARROW, outputs > NARROW) {
            (false, _) => Width::Narrow,
            (true, false) => Width::Wide,
            (true, true) => Width::Whole,
        }
    }

    /// The smallest class with room for feeds of a width, by its index.
    pub fn step_for(&self, width: Width, rows: usize, outputs: usize) -> Option<usize> {
        let fits =
            |c: StepClass| width == c.width && rows <= c.rows as usize && outputs <= c.outputs as usize;
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
