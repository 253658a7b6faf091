//! The choice of a token on a device, in three launches: penalties → top-k → top-p → min-p → temperature → draw.
//!
//! Equal to [`crate::reference::choose`] for the same row, options and counter, because no step depends on an order.
//! A logit is compared as an integer (`ordered`); a candidate weighs `round(2^30 · 2^(-rate · (best - logit)))`, an
//! integer too, whose f32 steps each round once; and sums of integers are exact. Each filter keeps a prefix of the
//! candidates sorted by falling logit, ties by rising id, so that together they are one least candidate, found digit by
//! digit. The draw walks the rest in the order of their ids. Vocabularies are below 2^20 ids.
//!
//! 1. [`best`]: each workgroup finds the best of a chunk of the row.
//! 2. [`gather`]: what may still be chosen is gathered: what weighs something, and where
//!    top-k is small, what is as good as the k-th best of the chunks' best.
//! 3. [`pick`]: a workgroup per output finds the least candidate, and draws.
//!
//! What is asked of a slot is in its line of the samplers' buffer, [`SAMPLER_WORDS`] words:
//!
//! | word | meaning |
//! |---|---|
//! | 0 | top-k; 0 keeps all |
//! | 1 | top-p as a share of 2^32; all ones keeps all |
//! | 2 | min-p: what a logit may be below the best, f32, at most 0 |
//! | 3, 4 | rate and reach of the temperature, f32: see [`Weigh`] |
//! | 5, 6 | seed, low word first: the generator's key |
//! | 7, 8 | sequence: the counter's upper half; the position is its lower |
//! | 9, 10 | repeat penalty and its inverse, f32 |
//! | 11, 12 | presence and frequency penalty, f32 |
//! | 13 | 1 where penalties change something |
//! | 16 + i | the id at every position that is i modulo 128 |

pub mod best;
mod cases;
pub mod gather;
pub mod pick;

use kiln_dsl::prelude::*;

use crate::{Variant, reference::Penalties};

/// Ids that penalties look back on.
pub const PENALTY_WINDOW: u32 = 64;
/// Ids of a slot that are kept: twice the window, so that what ran ahead and is taken back spoils none of them.
pub const HISTORY: u32 = 128;
/// Words of a slot's line before its history.
pub const CHAIN_WORDS: u32 = 16;
/// Words of a slot's line.
pub const SAMPLER_WORDS: u32 = CHAIN_WORDS + HISTORY;
/// Chunks of a row, at most.
pub const MAX_CHUNKS: u32 = 256;
/// What stands for a choice where there is none.
pub const NO_CHOICE: u32 = u32::MAX;
/// The first size of a vocabulary that is too large: the ring of choices has 20 bits for an id or none.
pub const TOO_MANY_IDS: u32 = (1 << 20) - 1;
/// What a share is counted in.
pub(crate) const SHARES: f64 = 4_294_967_296.0;

const LOCAL_SIZE: u32 = 256;
/// Stands where no id is.
const NO_ID: u32 = u32::MAX;
/// What a row with NaN or +∞ has for its best.
const BROKEN: u32 = u32::MAX;
/// [`ordered`] of −∞.
const LOWEST: u32 = 0x007f_ffff;
/// Everything.
const ALL: u32 = u32::MAX;

/// Elements of a row that a workgroup looks at.
pub const fn chunk(n: u32) -> u32 {
    let piece = 4 * LOCAL_SIZE;
    let pieces = n.div_ceil(piece * MAX_CHUNKS);
    if pieces == 0 { piece } else { piece * pieces }
}

/// How a candidate weighs: by `2^(-rate · (best - logit))`, and nothing beyond `reach` from the best.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weigh {
    /// log2 e over the temperature.
    pub rate: f32,
    /// Beyond it every weight rounds to 0.
    pub reach: f32,
}

/// 2^-x on 0..=1, by powers of x from the highest; within 2e-7.
const POWERS: [f32; 6] =
    [0.000_114_980_92, -0.001_291_789_6, 0.009_597_169, -0.055_499_278, 0.240_226_1, -std::f32::consts::LN_2];
/// Half a unit of the smallest weight is 2^-31 of the best.
const HALVINGS: f64 = 31.0;

const ONE_RATE: f32 = Weigh::ONE.rate;
const ONE_REACH: f32 = Weigh::ONE.reach;

impl Weigh {
    /// At temperature 1.
    pub const ONE: Self =
        Self { rate: std::f32::consts::LOG2_E, reach: (HALVINGS / std::f64::consts::LOG2_E) as f32 };

    /// At a temperature above 0.
    pub fn at(temperature: f32) -> Self {
        let rate = (std::f64::consts::LOG2_E / f64::from(temperature)).min(f64::from(f32::MAX));
        Self { rate: rate as f32, reach: (HALVINGS / rate).min(f64::from(f32::MAX)) as f32 }
    }

    /// The weight of a candidate that lies `below` the best; that of the best is 2^30.
    pub fn weight(self, below: f32) -> u32 {
        let halvings = below.min(self.reach) * self.rate;
        let whole = halvings as u32;
        let part = halvings - whole as f32;
        let power = POWERS.iter().fold(0.0, |sum, c| sum * part + c) * part + 1.0;
        let halved = ((power * 2_147_483_648.0) as u32) >> whole.min(31);
        if below > self.reach { 0 } else { (halved + 1) >> 1 }
    }
}

/// What is asked of a sequence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Chain {
    /// 0 takes the best id, the lowest of equals.
    pub temperature: f32,
    /// Keep this many; 0 keeps all.
    pub top_k: u32,
    /// Keep the likeliest that make up this share; 1 keeps all.
    pub top_p: f32,
    /// Keep those at least this likely relative to the best; 0 keeps all.
    pub min_p: f32,
    /// On ids seen of late.
    pub penalties: Penalties,
    /// Key of the generator.
    pub seed: u64,
    /// Upper half of its counter.
    pub sequence: u64,
}

impl Chain {
    /// The best id, whatever came before.
    pub const GREEDY: Self = Self {
        temperature: 0.0,
        top_k: 0,
        top_p: 1.0,
        min_p: 0.0,
        penalties: Penalties::NONE,
        seed: 0,
        sequence: 0,
    };

    /// A slot's line; `recent` are the ids before `position`, the latest last.
    pub fn words(&self, recent: &[u32], position: u32) -> [u32; SAMPLER_WORDS as usize] {
        let greedy = self.temperature <= 0.0;
        let weigh = if greedy { Weigh::ONE } else { Weigh::at(self.temperature) };
        let top_p = if greedy || self.top_p >= 1.0 { ALL } else { (f64::from(self.top_p) * SHARES) as u32 };
        let min_p = if greedy || self.min_p <= 0.0 { f32::MIN } else { self.min_p.ln() };
        let Penalties { repeat, presence, frequency } = self.penalties;
        let mut words = [0; SAMPLER_WORDS as usize];
        words[..14].copy_from_slice(&[
            if greedy { 1 } else { self.top_k },
            top_p,
            min_p.to_bits(),
            weigh.rate.to_bits(),
            weigh.reach.to_bits(),
            self.seed as u32,
            (self.seed >> 32) as u32,
            self.sequence as u32,
            (self.sequence >> 32) as u32,
            repeat.to_bits(),
            (1.0 / repeat).to_bits(),
            presence.to_bits(),
            frequency.to_bits(),
            u32::from(self.penalties != Penalties::NONE),
        ]);
        words[CHAIN_WORDS as usize..].fill(NO_ID);
        for (back, id) in (1..=HISTORY.min(position)).zip(recent.iter().rev()) {
            words[(CHAIN_WORDS + (position - back) % HISTORY) as usize] = *id;
        }
        words
    }
}

/// The three kernels' variants.
pub fn variants() -> Vec<Variant> {
    vec![
        Variant::new("sample_best", best::SampleBest::new(), cases::best),
        Variant::new("sample_gather", gather::SampleGather::new(), cases::gather),
        Variant::new("sample_pick", pick::SamplePick::new(), cases::pick).with_long(cases::pick_long),
    ]
}

// ---- what the kernels share ----------------------------------------------------------------------------------------

/// A logit as an integer of the same order; what is no normal number is 0 or infinite, NaN and +∞ are [`BROKEN`].
#[device]
fn ordered(logit: f32) -> u32 {
    let bits = bitcast::<u32, f32>(logit);
    let size = bits & 0x7fff_ffff;
    let up = select(bits == size, bits | 0x8000_0000, bits ^ 0xffff_ffff);
    let number = select(size < 0x0080_0000, 0x8000_0000, up);
    select(size > 0x7f80_0000 || bits == 0x7f80_0000, BROKEN, number)
}

/// The logit of an integer that [`ordered`] gave.
#[device]
fn logit(ordered: u32) -> f32 {
    bitcast::<f32, u32>(select(ordered >= 0x8000_0000, ordered & 0x7fff_ffff, ordered ^ 0xffff_ffff))
}

/// [`Weigh::weight`].
#[device]
fn weight(below: f32, rate: f32, reach: f32) -> u32 {
    let halvings = min(below, reach) * rate;
    let whole = halvings as u32;
    let part = halvings - whole as f32;
    let mut power = 0.0;
    for c in comptime!(POWERS) {
        power = power * part + c;
    }
    let halved = (((power * part + 1.0) * 2147483648.0) as u32) >> min(whole, 31);
    select(below > reach, 0, (halved + 1) >> 1)
}

/// The ids that penalties look at, for all of the workgroup; `line` is where the slot's words start.
#[device]
fn load_recent(recent: &Shared<u32>, samplers: &Buf<u32>, line: u32, position: u32, t: u32) {
    if t < PENALTY_WINDOW {
        let seen = t < position;
        let at = line + CHAIN_WORDS + (position - 1 - t) % HISTORY;
        recent[t] = select(seen, samplers[select(seen, at, line)], NO_ID);
    }
    barrier();
}

/// The logit of an id after penalties, as an integer.
#[device]
fn penalized(raw: f32, id: u32, recent: &Shared<u32>, samplers: &Buf<u32>, line: u32) -> u32 {
    let mut value = raw;
    if samplers[line + 13] != 0 {
        let mut count: u32 = 0;
        for i in 0..PENALTY_WINDOW {
            count += select(recent[i] == id, 1, 0);
        }
        if count > 0 && ordered(raw) > LOWEST {
            let repeat = bitcast::<f32, u32>(samplers[line + select(raw > 0.0, 10, 9)]);
            let presence = bitcast::<f32, u32>(samplers[line + 11]);
            let frequency = bitcast::<f32, u32>(samplers[line + 12]);
            value = raw * repeat - (count as f32 * frequency + presence);
        }
    }
    ordered(value)
}

/// The 64 bits of a product, the low word first.
#[device]
fn wide_product(a: u32, b: u32) -> Vec2<u32> {
    let (a0, a1) = (a & 0xffff, a >> 16);
    let (b0, b1) = (b & 0xffff, b >> 16);
    let (m0, m1) = (a1 * b0, a0 * b1);
    let middle = ((a0 * b0) >> 16) + (m0 & 0xffff) + (m1 & 0xffff);
    vec2(a * b, a1 * b1 + (m0 >> 16) + (m1 >> 16) + (middle >> 16))
}

/// The largest of the workgroup's keys, for all of it.
#[device]
fn fold_best(keys: &Shared<u32>, t: u32) {
    barrier();
    for step in comptime!(crate::fold::halves(LOCAL_SIZE)) {
        if t < step {
            keys[t] = max(keys[t], keys[t + step]);
        }
        barrier();
    }
}
