//! From a row of logits to a token id: penalties → top-k → top-p → min-p → temperature → draw.

mod filters;
mod philox;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

pub use filters::{Candidate, Penalties, min_p, penalize, pick, temperature, top_k, top_p};
pub use philox::{philox4x32, uniform};

/// How many of the latest ids the penalties look at.
pub const PENALTY_WINDOW: usize = 64;

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
    /// Whether the most likely id is always chosen, whatever came before.
    pub fn is_greedy(&self) -> bool {
        self.temperature <= 0.0 && self.penalties == Penalties::NONE
    }
}

/// A row that no id can be chosen from.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum SampleError {
    /// NaN or +∞ in the row.
    #[error(
        "the logit of token {id} at position {position} is {value}: the model's numbers broke down, no token was chosen"
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

    /// Tells of an id that now belongs to the sequence, from the prompt or chosen.
    pub fn accept(&mut self, id: u32) {
        if self.recent.len() == PENALTY_WINDOW {
            self.recent.pop_front();
        }
        self.recent.push_back(id);
    }

    /// The id for `position`, from that position's row of logits.
    ///
    /// # Errors
    /// A row with NaN or +∞ in it, or with nothing above −∞.
    pub fn choose(&self, logits: &[f32], position: u64) -> Result<u32, SampleError> {
        if let Some(id) = logits.iter().position(|&x| x.is_nan() || x == f32::INFINITY) {
            return Err(SampleError::NotANumber { id, position, value: logits[id] });
        }
        let mut logits = logits.to_vec();
        penalize(&mut logits, self.recent.iter().copied(), self.options.penalties);
        let chosen = if self.options.temperature > 0.0 {
            let mut candidates = top_k(&logits, self.options.top_k);
            top_p(&mut candidates, self.options.top_p);
            min_p(&mut candidates, self.options.min_p);
            temperature(&mut candidates, self.options.temperature);
            pick(&candidates, uniform(self.options.seed, self.sequence, position))
        } else {
            top_k(&logits, 1).first().map(|best| best.id)
        };
        let possible = |&id: &u32| logits[id as usize] > f32::NEG_INFINITY;
        chosen.filter(possible).ok_or(SampleError::NothingLeft { position })
    }
}
