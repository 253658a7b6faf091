//! From a row of logits to a token id: penalties → top-k → top-p → min-p → temperature → draw.
//!
//! The arithmetic is [`kiln_kernels::reference::choose`]'s, which devices follow bit for bit.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use kiln_kernels::reference;
pub use kiln_kernels::{reference::Penalties, sample::Chain};

/// How many of the latest ids the penalties look at.
pub const PENALTY_WINDOW: usize = kiln_kernels::sample::PENALTY_WINDOW as usize;

/// The user's choice of chain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampleOptions {
    /// 0 takes the best id, the lowest of equals.
    pub temperature: f32,
    /// Keep this many; 0 keeps all.
    pub top_k: usize,
    /// Keep the likeliest that make up this share; 1 keeps all.
    pub top_p: f32,
    /// Keep those at least this likely relative to the best; 0 keeps all.
    pub min_p: f32,
    /// On ids seen of late.
    pub penalties: Penalties,
    /// Key of the generator.
    pub seed: u64,
}

impl SampleOptions {
    /// Whether each number says something.
    ///
    /// # Errors
    /// [`SampleError::Option`], the first that does not.
    pub fn check(&self) -> Result<(), SampleError> {
        let Penalties { repeat, frequency, presence } = self.penalties;
        let checks = [
            (
                "temperature",
                self.temperature,
                self.temperature >= 0.0 && self.temperature.is_finite(),
                "0 or more",
            ),
            ("top_p", self.top_p, (0.0..=1.0).contains(&self.top_p), "a share from 0 to 1"),
            ("min_p", self.min_p, (0.0..=1.0).contains(&self.min_p), "a share from 0 to 1"),
            ("penalties.repeat", repeat, repeat > 0.0 && repeat.is_finite(), "more than 0"),
            ("penalties.frequency", frequency, frequency.is_finite(), "a finite number"),
            ("penalties.presence", presence, presence.is_finite(), "a finite number"),
        ];
        match checks.into_iter().find(|(_, _, good, _)| !good) {
            Some((name, value, _, expected)) => Err(SampleError::Option { name, value, expected }),
            None => Ok(()),
        }
    }
}

/// Options without a meaning, or a row that no id can be chosen from.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError {
    /// A number of [`SampleOptions`] that says nothing.
    #[error("the sample option {name} is {value}, expected {expected}")]
    Option {
        /// The field.
        name: &'static str,
        /// What it is.
        value: f32,
        /// What it may be.
        expected: &'static str,
    },
    /// NaN or +∞ in the row.
    #[error(
        "the logit of token {id} at position {position} is {value}: the model's numbers broke down; on a device \
         `--kv-type f32` may hold them, or `--device reference`"
    )]
    NotANumber {
        /// First such id.
        id: usize,
        /// Of the token to be chosen.
        position: u64,
        /// NaN or +∞.
        value: f32,
    },
    /// No logit above −∞.
    #[error("every logit at position {position} is minus infinity: no token can be chosen")]
    NothingLeft {
        /// Of the token to be chosen.
        position: u64,
    },
}

/// That a row of logits, which an id for `position` would be chosen from, has neither NaN nor +∞.
///
/// # Errors
/// The first that is.
pub fn check(logits: &[f32], position: u64) -> Result<(), SampleError> {
    match logits.iter().position(|&x| x.is_nan() || x == f32::INFINITY) {
        Some(id) => Err(SampleError::NotANumber { id, position, value: logits[id] }),
        None => Ok(()),
    }
}

/// The sampling state of one sequence: its options, its number and the latest ids.
#[derive(Debug, Clone)]
pub struct Sampler {
    options: SampleOptions,
    sequence: u64,
    recent: VecDeque<u32>,
}

impl Sampler {
    /// A sampler for sequence number `sequence`; equal seeds and numbers draw alike.
    pub fn new(options: SampleOptions, sequence: u64) -> Self {
        Self { options, sequence, recent: VecDeque::with_capacity(PENALTY_WINDOW) }
    }

    /// Takes the best id, whatever came before.
    pub fn greedy() -> Self {
        let Chain { temperature, top_p, min_p, penalties, seed, .. } = Chain::GREEDY;
        Self::new(SampleOptions { temperature, top_k: 0, top_p, min_p, penalties, seed }, 0)
    }

    /// Tells of an id that now belongs to the sequence, from the prompt or chosen.
    pub fn accept(&mut self, id: u32) {
        if self.recent.len() == PENALTY_WINDOW {
            self.recent.pop_front();
        }
        self.recent.push_back(id);
    }

    /// What a device is asked for, to choose as [`Sampler::choose`] does.
    pub fn chain(&self) -> Chain {
        let SampleOptions { temperature, top_k, top_p, min_p, penalties, seed } = self.options;
        let top_k = u32::try_from(top_k).unwrap_or(0);
        Chain { temperature, top_k, top_p, min_p, penalties, seed, sequence: self.sequence }
    }

    /// The ids that penalties look at, the latest last.
    pub fn recent(&self) -> Vec<u32> {
        self.recent.iter().copied().collect()
    }

    /// The id for `position`, from that position's row of logits.
    ///
    /// # Errors
    /// A row with NaN or +∞ in it, or with nothing above −∞.
    pub fn choose(&self, logits: &[f32], position: u64) -> Result<u32, SampleError> {
        check(logits, position)?;
        let chosen = u32::try_from(position)
            .ok()
            .and_then(|at| reference::choose(logits, &self.chain(), &self.recent(), at));
        chosen.ok_or(SampleError::NothingLeft { position })
    }
}
