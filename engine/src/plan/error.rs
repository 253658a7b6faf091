//! Why a model cannot run on a device, though its file is fine.

use kiln_abi::LaunchError;
use kiln_kernels::{attention::MAX_HEAD_DIM, kv_type::KvType, sample::TOO_MANY_IDS};

use super::memory::Remedy;
use crate::size::size;

/// A named reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A tensor whose format the registry lacks or the host alone decodes.
    #[error("tensor `{tensor}` is in a format that no kernel reads")]
    NoFormat {
        /// Full name.
        tensor: String,
    },
    /// A row that kernels cannot walk.
    #[error("tensor `{tensor}` has rows of {row} elements, kernels need a multiple of {multiple}")]
    RowLength {
        /// Full name.
        tensor: String,
        /// Elements of a row.
        row: usize,
        /// What a row must be whole multiples of.
        multiple: u32,
    },
    /// A head that attention cannot keep.
    #[error(
        "heads of {found} elements cannot be kept as {}: it takes multiples of {} up to {MAX_HEAD_DIM}",
        ty.name(),
        ty.multiple()
    )]
    HeadDim {
        /// The model's.
        found: usize,
        /// The type of keys and values.
        ty: KvType,
    },
    /// A word of the graph that has no kernel.
    #[error("the model uses {word}, which has no kernel yet")]
    Word {
        /// The word.
        word: &'static str,
    },
    /// A state that a layer cannot keep on the device.
    #[error("layer {layer} keeps a state of a kind that has no kernel yet")]
    State {
        /// The layer.
        layer: usize,
    },
    /// A buffer larger than the device binds.
    #[error(
        "{name} needs {needed} bytes in one piece, the device binds {allowed}; a shorter --ctx may help (now {n_ctx})"
    )]
    Binding {
        /// What it is for.
        name: String,
        /// Bytes.
        needed: u64,
        /// What the device allows.
        allowed: u64,
        /// Positions planned for.
        n_ctx: usize,
    },
    /// Nothing to plan for.
    #[error("a plan for no {what}: ask for one at least")]
    Nothing {
        /// Of which there are none.
        what: &'static str,
    },
    /// A number that 32-bit indices cannot hold.
    #[error("{what} is {found}, device indices hold at most {}", u32::MAX)]
    TooLarge {
        /// Which number.
        what: &'static str,
        /// Its value.
        found: usize,
    },
    /// More ids than a choice on the device can tell apart.
    #[error("the vocabulary has {found} ids, a choice on the device is among fewer than {TOO_MANY_IDS}")]
    Vocabulary {
        /// The model's.
        found: u32,
    },
    /// A launch that the device refuses.
    #[error("`{word}`: {source}")]
    Launch {
        /// The graph word it serves.
        word: String,
        /// What the device lacks.
        source: Box<LaunchError>,
    },
    /// More memory than there is.
    #[error(
        "weights of {} and a context of {n_ctx} need {}, {device} has {} to use: {remedy}",
        size(remedy.weights), size(*needed), size(remedy.room)
    )]
    Memory {
        /// The device.
        device: String,
        /// Bytes of everything.
        needed: u64,
        /// Positions planned for.
        n_ctx: usize,
        /// What would fit.
        remedy: Remedy,
    },
}
