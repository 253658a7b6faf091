//! The steps of the sampling chain, each a function of its own.
//!
//! Candidates are sorted by falling logit, ties by rising id; a filter keeps a prefix.

use std::cmp::Ordering;
use std::collections::BTreeMap;

/// An id that may still be chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// Token id.
    pub id: u32,
    /// Its logit, after penalties and, at the end, temperature.
    pub logit: f32,
}

/// Strengths of the penalties on ids seen of late; 1, 0 and 0 change nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Penalties {
    /// Divides a positive logit of a seen id, multiplies a negative one.
    pub repeat: f32,
    /// Subtracted once from a seen id.
    pub presence: f32,
    /// Subtracted for each time that an id was seen.
    pub frequency: f32,
}

impl Penalties {
    /// Changes nothing.
    pub const NONE: Self = Self { repeat: 1.0, presence: 0.0, frequency: 0.0 };
}

/// Lowers the logits of the ids in `recent`; an id outside `logits` is passed over.
pub fn penalize(logits: &mut [f32], recent: impl IntoIterator<Item = u32>, penalties: Penalties) {
    if penalties == Penalties::NONE {
        return;
    }
    let mut counts = BTreeMap::new();
    for id in recent {
        *counts.entry(id).or_insert(0u32) += 1;
    }
    for (id, count) in counts {
        let Some(logit) = logits.get_mut(id as usize) else { continue };
        *logit = if *logit > 0.0 { *logit / penalties.repeat } else { *logit * penalties.repeat };
        *logit -= count as f32 * penalties.frequency + penalties.presence;
    }
}

/// The `k` best of a row in falling order, all of them where `k` is 0.
pub fn top_k(logits: &[f32], k: usize) -> Vec<Candidate> {
    let mut candidates: Vec<Candidate> =
        logits.iter().zip(0..).map(|(&logit, id)| Candidate { id, logit }).collect();
    if k > 0 && k < candidates.len() {
        candidates.select_nth_unstable_by(k - 1, by_falling_logit);
        candidates.truncate(k);
    }
    candidates.sort_unstable_by(by_falling_logit);
    candidates
}

/// Keeps the shortest prefix whose probabilities sum to at least `p`; never fewer than one, and all from 1 up.
pub fn top_p(candidates: &mut Vec<Candidate>, p: f32) {
    if p >= 1.0 {
        return;
    }
    let weights = weights(candidates);
    let threshold = f64::from(p) * weights.iter().sum::<f64>();
    let mut sum = 0.0;
    let reached = weights.iter().position(|weight| {
        sum += weight;
        sum >= threshold
    });
    if let Some(last) = reached {
        candidates.truncate(last + 1);
    }
}

/// Keeps those at least `p` times as probable as the best.
pub fn min_p(candidates: &mut Vec<Candidate>, p: f32) {
    if p <= 0.0 {
        return;
    }
    if let Some(best) = candidates.first() {
        let threshold = best.logit + p.ln();
        let n = candidates.partition_point(|candidate| candidate.logit >= threshold);
        candidates.truncate(n.max(1));
    }
}

/// Divides the logits by a temperature above zero, counted from the best, so that no quotient overflows upward.
pub fn temperature(candidates: &mut [Candidate], t: f32) {
    let best = candidates.iter().map(|candidate| candidate.logit).fold(f32::NEG_INFINITY, f32::max);
    for candidate in candidates {
        candidate.logit = (candidate.logit - best) / t;
    }
}

/// The first candidate at which the running share of the total exceeds `u` of `[0, 1)`.
pub fn pick(candidates: &[Candidate], u: f32) -> Option<u32> {
    let weights = weights(candidates);
    let target = f64::from(u) * weights.iter().sum::<f64>();
    let mut sum = 0.0;
    let at = weights.iter().position(|weight| {
        sum += weight;
        sum > target
    });
    candidates.get(at?).map(|candidate| candidate.id)
}

/// Probabilities up to a common factor; the best candidate stands first and weighs one.
fn weights(candidates: &[Candidate]) -> Vec<f64> {
    let best = candidates.first().map_or(0.0, |candidate| candidate.logit);
    candidates.iter().map(|candidate| f64::from(candidate.logit - best).exp()).collect()
}

fn by_falling_logit(a: &Candidate, b: &Candidate) -> Ordering {
    b.logit.partial_cmp(&a.logit).unwrap_or(Ordering::Equal).then(a.id.cmp(&b.id))
}
