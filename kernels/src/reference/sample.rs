//! The choice of a token, step by step; a filter keeps a prefix of the candidates sorted by falling logit, ties by
//! rising id. What a device does otherwise, with the same outcome, is in [`crate::sample`].

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::draw;
use crate::sample::{Chain, SHARES, Weigh};

/// An id that may still be chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// Token id.
    pub id: u32,
    /// Its logit, after penalties.
    pub logit: f32,
}

/// Strengths of the penalties on ids seen of late; 1, 0 and 0 change nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Penalties {
    /// A positive logit of a seen id is multiplied by the inverse of it, a negative one by it.
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
    let inverse = 1.0 / penalties.repeat;
    for (id, count) in counts {
        let Some(logit) = logits.get_mut(id as usize) else { continue };
        *logit = if *logit > 0.0 { *logit * inverse } else { *logit * penalties.repeat };
        *logit -= count as f32 * penalties.frequency + penalties.presence;
    }
}

/// The `k` best of a row in falling order, all of them where `k` is 0. A zero of either sign, and what is too small for
/// a normal f32, is 0.
pub fn top_k(logits: &[f32], k: usize) -> Vec<Candidate> {
    let plain = |logit: f32| if logit.is_normal() || logit.is_infinite() { logit } else { 0.0 };
    let mut candidates: Vec<Candidate> =
        logits.iter().zip(0..).map(|(&logit, id)| Candidate { id, logit: plain(logit) }).collect();
    if k > 0 && k < candidates.len() {
        candidates.select_nth_unstable_by(k - 1, by_falling_logit);
        candidates.truncate(k);
    }
    candidates.sort_unstable_by(by_falling_logit);
    candidates
}

/// Keeps the shortest prefix whose weights at temperature 1 sum to at least the share `p` of all; never fewer than one,
/// and all from 1 up.
pub fn top_p(candidates: &mut Vec<Candidate>, p: f32) {
    if p >= 1.0 {
        return;
    }
    let weights = weights(candidates, Weigh::ONE);
    let total: u64 = weights.iter().sum();
    let threshold = share_of(total, (f64::from(p) * SHARES) as u32);
    let mut sum = 0;
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

/// Of the candidates in the order of their ids, the first at which the running sum of weights exceeds the share
/// `draw` / 2³² of all.
pub fn pick(candidates: &[Candidate], weigh: Weigh, draw: u32) -> Option<u32> {
    let weights = weights(candidates, weigh);
    let target = share_of(weights.iter().sum(), draw);
    let mut by_id: Vec<_> = candidates.iter().map(|candidate| candidate.id).zip(weights).collect();
    by_id.sort_unstable();
    let mut sum = 0;
    let chosen = by_id.into_iter().find(|(_, weight)| {
        sum += weight;
        sum > target
    });
    chosen.map(|(id, _)| id)
}

/// The whole chain: the id for `position` from its row of logits and the ids seen of late; none where a logit is NaN or
/// +∞, or none is above −∞.
pub fn choose(row: &[f32], chain: &Chain, recent: &[u32], position: u32) -> Option<u32> {
    if row.iter().any(|&x| x.is_nan() || x == f32::INFINITY) {
        return None;
    }
    let mut logits = row.to_vec();
    penalize(&mut logits, recent.iter().copied(), chain.penalties);
    let chosen = if chain.temperature > 0.0 {
        let mut candidates = top_k(&logits, chain.top_k as usize);
        top_p(&mut candidates, chain.top_p);
        min_p(&mut candidates, chain.min_p);
        let draw = draw(chain.seed, chain.sequence, position.into());
        pick(&candidates, Weigh::at(chain.temperature), draw)
    } else {
        top_k(&logits, 1).first().map(|best| best.id)
    };
    chosen.filter(|id| logits[*id as usize] > f32::NEG_INFINITY)
}

/// What each candidate weighs; the best stands first.
fn weights(candidates: &[Candidate], weigh: Weigh) -> Vec<u64> {
    let best = candidates.first().map_or(0.0, |candidate| candidate.logit);
    candidates.iter().map(|candidate| u64::from(weigh.weight(best - candidate.logit))).collect()
}

/// ⌊total · share / 2³²⌋.
fn share_of(total: u64, share: u32) -> u64 {
    ((u128::from(total) * u128::from(share)) >> 32) as u64
}

fn by_falling_logit(a: &Candidate, b: &Candidate) -> Ordering {
    b.logit.partial_cmp(&a.logit).unwrap_or(Ordering::Equal).then(a.id.cmp(&b.id))
}
