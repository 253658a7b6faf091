//! What a plan takes of a device's memory, and the context that fits.

use kiln_abi::DeviceCaps;
use kiln_runtime::Room;

use super::{Holds, PlanError, PlannedBuffer, lower::Lowered};
use crate::size::size;

/// Buffers start at multiples of this many bytes.
const ALIGNMENT: u64 = 256;
/// Fewer positions than these are no context to work with; a plan that nobody asked a length of goes no lower.
const LEAST_CTX: usize = 512;
/// A context is cut in steps of as many positions.
const CTX_STEP: usize = 256;

/// How long the context shall be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextWish {
    /// So many positions, or as many of them as fit.
    AtMost(usize),
    /// So many positions, or no plan.
    Exactly(usize),
}

impl ContextWish {
    /// The positions.
    pub const fn positions(self) -> usize {
        match self {
            ContextWish::AtMost(n) | ContextWish::Exactly(n) => n,
        }
    }
}

/// Why the context is as long as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextReason {
    /// It was asked for.
    Asked,
    /// The default length fits.
    Default,
    /// The longest that fits, where more was wished for.
    Shortened {
        /// Positions wished for.
        wished: usize,
        /// Bytes that those would need; none where a limit other than memory forbids them.
        needed: Option<u64>,
        /// Bytes that there are.
        room: u64,
    },
}

impl std::fmt::Display for ContextReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            ContextReason::Asked => write!(f, "as asked"),
            ContextReason::Default => write!(f, "the default"),
            ContextReason::Shortened { wished, needed: Some(needed), room } => {
                write!(f, "the most that fit: {wished} need {} of {}", size(needed), size(room))
            }
            ContextReason::Shortened { wished, needed: None, room: _ } => {
                write!(f, "the most that fit: {wished} need a buffer larger than the device binds")
            }
        }
    }
}

/// Bytes of a plan, by what they hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Need {
    /// Matrices, embeddings, norms.
    pub weights: u64,
    /// Rotation angles.
    pub angles: u64,
    /// Keys and values of a sequence.
    pub kv: u64,
    /// Activations and logits of a sequence.
    pub activations: u64,
    /// Step blocks, page tables, what choices are made of.
    pub step: u64,
}

impl Need {
    /// Of all buffers, each rounded up to where the next may start.
    pub fn of(buffers: &[PlannedBuffer]) -> Self {
        let mut need = Self::default();
        for buffer in buffers {
            *need.part(&buffer.holds) += buffer.bytes.next_multiple_of(ALIGNMENT);
        }
        need
    }

    fn part(&mut self, holds: &Holds) -> &mut u64 {
        match holds {
            Holds::Blocks { .. } | Holds::Floats(_) => &mut self.weights,
            Holds::Angles(_) => &mut self.angles,
            Holds::Keys { .. } | Holds::Values { .. } => &mut self.kv,
            Holds::Scratch | Holds::Parts | Holds::Logits => &mut self.activations,
            Holds::PageTable { .. }
            | Holds::Step
            | Holds::OutputStep
            | Holds::Samplers
            | Holds::Candidates
            | Holds::Chosen
            | Holds::Ring => &mut self.step,
        }
    }

    /// All of it.
    pub const fn total(&self) -> u64 {
        self.weights + self.angles + self.kv + self.activations + self.step
    }
}

/// What the longest context that is wished for and fits lowers to, and why it is that long.
pub(super) fn fitted(
    wish: ContextWish,
    caps: &DeviceCaps,
    room: Room,
    lower: impl Fn(usize) -> Result<Lowered, PlanError>,
) -> Result<(Lowered, ContextReason), PlanError> {
    let needs = |lowered: &Lowered| Need::of(&lowered.buffers);
    let fits = |n_ctx: usize| lower(n_ctx).ok().filter(|lowered| needs(lowered).total() <= room.bytes);
    let wished = wish.positions();
    let needed = match lower(wished) {
        Ok(lowered) if needs(&lowered).total() <= room.bytes => {
            let asked = matches!(wish, ContextWish::Exactly(_));
            return Ok((lowered, if asked { ContextReason::Asked } else { ContextReason::Default }));
        }
        Ok(lowered) => Ok(needs(&lowered)),
        // Of all refusals only the size of one buffer and of the context itself depend on the context.
        Err(refusal @ (PlanError::Binding { .. } | PlanError::TooLarge { .. })) => Err(refusal),
        Err(refusal) => return Err(refusal),
    };
    match (wish, longest(wished, fits)) {
        (ContextWish::AtMost(_), Some(lowered)) => {
            let needed = needed.ok().map(|need| need.total());
            Ok((lowered, ContextReason::Shortened { wished, needed, room: room.bytes }))
        }
        (_, shorter) => {
            let need = needed?;
            let fits = shorter.map(|lowered| lowered.context.n_ctx as usize);
            let remedy = Remedy { fits, weights: need.weights, room: room.bytes };
            Err(PlanError::Memory { device: caps.name.clone(), needed: need.total(), n_ctx: wished, remedy })
        }
    }
}

/// What would fit instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remedy {
    /// The most positions that do, if any do.
    pub fits: Option<usize>,
    /// Bytes of the weights.
    pub weights: u64,
    /// Bytes that there are.
    pub room: u64,
}

impl std::fmt::Display for Remedy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Remedy { fits: Some(n_ctx), .. } => write!(f, "`--ctx {n_ctx}` would fit"),
            Remedy { weights, room, .. } if weights > room => {
                write!(f, "a file whose weights take less than {} would fit", size(room))
            }
            Remedy { room, .. } => {
                write!(f, "a smaller file would fit, or a device with more than {}", size(room))
            }
        }
    }
}

/// The longest context below `wished` that fits, in steps; a shorter one never needs more.
fn longest(wished: usize, fits: impl Fn(usize) -> Option<Lowered>) -> Option<Lowered> {
    let mut best = None;
    let (mut low, mut high) = (LEAST_CTX / CTX_STEP, wished.saturating_sub(1) / CTX_STEP);
    while low <= high {
        let middle = low + (high - low) / 2;
        match fits(middle * CTX_STEP) {
            Some(found) => (best, low) = (Some(found), middle + 1),
            None => high = middle - 1,
        }
    }
    best
}
