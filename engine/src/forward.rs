//! What a backend does for a session: token ids in, rows of logits out.

use std::ops::Range;

use kiln_abi::LaunchError;
use kiln_kernels::kv_store::PAGE;

use crate::sample::Sampler;

/// Rows that are fed in one step; bounds the activations a backend holds.
pub const PREFILL_WINDOW: usize = 512;

/// One sequence on one backend.
pub trait Forward: Send {
    /// Positions fed so far.
    fn n_past(&self) -> usize;

    /// Most positions that the sequence may have.
    fn n_ctx(&self) -> usize;

    /// Number of logits in a row.
    fn n_vocab(&self) -> usize;

    /// Appends `ids` to the sequence and returns the logits after those in `outputs`, `[n_outputs, n_vocab]`.
    ///
    /// # Errors
    /// A full context, an id outside the vocabulary, or outputs beyond `ids`; the sequence is then as before.
    fn feed(&mut self, ids: &[u32], outputs: Range<usize>) -> Result<Vec<f32>, ForwardError>;

    /// Appends `ids` and chooses what follows the last, where the backend can; else its logits.
    ///
    /// `sampler` knows the sequence's ids, `ids` with them. At most `ahead` more calls with one id each will follow, the
    /// id that the call before chose: the backend may begin them.
    ///
    /// # Errors
    /// Those of [`Forward::feed`].
    fn feed_choose(
        &mut self,
        ids: &[u32],
        _sampler: &Sampler,
        _ahead: usize,
    ) -> Result<Choice, ForwardError> {
        Ok(Choice::Logits(self.feed(ids, ids.len().saturating_sub(1)..ids.len())?))
    }

    /// Appends `ids` and chooses greedily what follows the last, where the backend can; else its logits.
    ///
    /// # Errors
    /// Those of [`Forward::feed`].
    fn feed_greedy(&mut self, ids: &[u32]) -> Result<Choice, ForwardError> {
        self.feed_choose(ids, &Sampler::greedy(), 0)
    }

    /// Forgets every position from `n_past` on, and says how many are left: fewer, down to none, where what earlier ones
    /// left was given back since.
    fn rewind(&mut self, n_past: usize) -> usize;
}

/// What follows a sequence.
#[derive(Debug, Clone, PartialEq)]
pub enum Choice {
    /// The id chosen.
    Token(u32),
    /// The last row of logits: the backend leaves the choice, or the finding that there is none, to the host.
    Logits(Vec<f32>),
}

/// A model whose weights are in place; any number of sequences may run on it.
pub trait Backend: Send + Sync {
    /// An empty sequence of at most `n_ctx` positions.
    ///
    /// # Errors
    /// No room for its state.
    fn sequence(&self, n_ctx: usize) -> Result<Box<dyn Forward>, ForwardError>;
}

/// Why a sequence does not go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ForwardError {
    /// The device refused or failed, with the kernel's name.
    #[error(transparent)]
    Device(#[from] LaunchError),
    /// More sequences than were planned for.
    #[error("all {n_slots} sequences are in use: end one first")]
    NoSlot {
        /// Sequences that there may be.
        n_slots: usize,
    },
    /// A sequence that has ended, or one that a step names twice.
    #[error("there is no such sequence, or it is in this step already")]
    UnknownSlot,
    /// More rows than a command has room for.
    #[error("a step of {rows} rows, its command has room for {most}: feed them in several steps")]
    TooManyRows {
        /// Rows of the step.
        rows: usize,
        /// Rows that there may be.
        most: usize,
    },
    /// More outputs than a command has room for.
    #[error("a step of {outputs} outputs, its command has room for {most}: ask for them in several steps")]
    TooManyOutputs {
        /// Outputs of the step.
        outputs: usize,
        /// Outputs that there may be.
        most: usize,
    },
    /// The step's sequences together are longer than the store.
    #[error(
        "the step's sequences need {needed} more pages of {PAGE} positions, {free} are free: feed fewer at once"
    )]
    NoPages {
        /// Pages needed.
        needed: usize,
        /// Pages free after everything else was put aside.
        free: usize,
    },
    /// A rewind to before what layers with a window still have.
    #[error(
        "the sequence cannot go back to {n_past} positions: its layers that see a window only have given back what \
         those saw; go back to {least} or more, or to none and feed it again"
    )]
    Forgotten {
        /// Positions asked for.
        n_past: usize,
        /// The fewest that it can go back to, other than none.
        least: usize,
    },
    /// Bytes that are no saved sequence of this model on such a plan.
    #[error("not a saved sequence of this model: expected {expected}, found {found}")]
    Saved {
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// More positions than the context holds.
    #[error("{needed} positions do not fit the context of {n_ctx}: shorten the prompt or raise --ctx")]
    ContextFull {
        /// Positions that the sequence would have.
        needed: usize,
        /// Positions that it may have.
        n_ctx: usize,
    },
    /// Logits asked for after ids that are not fed.
    #[error("outputs {} to {} are asked for, {fed} ids are fed: ask for some among these", outputs.start, outputs.end)]
    NoSuchOutputs {
        /// What was asked for.
        outputs: Range<usize>,
        /// Ids fed.
        fed: usize,
    },
    /// An id that the model has no embedding for.
    #[error("token id {id} is not below the vocabulary's size of {n_vocab}")]
    UnknownId {
        /// The id.
        id: u32,
        /// Rows of the embedding table.
        n_vocab: usize,
    },
}

impl ForwardError {
    /// Whether `ids` may follow `n_past` positions.
    ///
    /// # Errors
    /// The first reason why not.
    pub fn check(ids: &[u32], n_past: usize, n_ctx: usize, n_vocab: usize) -> Result<(), Self> {
        let needed = n_past + ids.len();
        if needed > n_ctx {
            return Err(Self::ContextFull { needed, n_ctx });
        }
        match ids.iter().find(|&&id| id as usize >= n_vocab) {
            Some(&id) => Err(Self::UnknownId { id, n_vocab }),
            None => Ok(()),
        }
    }
}

/// Whether logits can be had of these of so many ids.
///
/// # Errors
/// [`ForwardError::NoSuchOutputs`]; no outputs can always be had.
pub(crate) fn check_outputs(outputs: &Range<usize>, fed: usize) -> Result<(), ForwardError> {
    match outputs.is_empty() || outputs.end <= fed {
        true => Ok(()),
        false => Err(ForwardError::NoSuchOutputs { outputs: outputs.clone(), fed }),
    }
}

/// Feeds `ids` window by window; `rows` takes the number of ids fed so far and the logits of the window's
/// rows that lie in `outputs`.
///
/// # Errors
/// Those of [`Forward::feed`], before any window is fed, and those of `rows`.
pub fn feed_windows<E: From<ForwardError>>(
    forward: &mut dyn Forward,
    ids: &[u32],
    outputs: Range<usize>,
    mut rows: impl FnMut(usize, Vec<f32>) -> Result<(), E>,
) -> Result<(), E> {
    ForwardError::check(ids, forward.n_past(), forward.n_ctx(), forward.n_vocab())?;
    for (window, ids) in ids.chunks(PREFILL_WINDOW).enumerate() {
        let first = window * PREFILL_WINDOW;
        let within = |row: usize| row.saturating_sub(first).min(ids.len());
        let logits = forward.feed(ids, within(outputs.start)..within(outputs.end))?;
        rows(first + ids.len(), logits)?;
    }
    Ok(())
}
