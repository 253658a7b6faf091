//! The choice of each output among its candidates.
//!
//! Shapes: as for [`gather`](super::gather); chosen `[outputs]` u32, 0xffffffff where nothing can be chosen: a logit is
//! NaN or +∞, or none is above −∞. A workgroup owns an output. Where the best alone is left, as for greedy choices,
//! it takes that; else it finds the least that top-k keeps, then top-p and min-p, then the one that the draw falls on,
//! each in digits of four bits: sums by digit, then the digit where the running sum reaches what is sought.
//! Traffic: 8 bytes per candidate for each of up to 33 passes, from the cache.
//! Numerics: integers, and [`Weigh`](super::Weigh)'s weights.

use kiln_dsl::prelude::*;

use super::{
    ALL, BROKEN, LOCAL_SIZE, LOWEST, MAX_CHUNKS, NO_CHOICE, ONE_RATE, ONE_REACH, SAMPLER_WORDS,
    best::SamplePush, fold_best, logit, ordered, weight, wide_product,
};
use crate::step::{n_outputs, output_row, row_position, row_slot};

/// Values of a digit.
const DIGITS: u32 = 16;
const PHILOX_ROUNDS: u32 = 10;
/// Digits of a logit.
const LOGIT_DIGITS: u32 = 8;
/// Digits of a logit and an id.
const ALL_DIGITS: u32 = LOGIT_DIGITS + 5;

/// What a search adds up.
#[derive(Clone, Copy, PartialEq)]
enum Measure {
    /// One for each candidate.
    Count,
    /// Weights.
    Weight,
}

// Words of the search's state: what is sought, for even and odd digits; the digits found so far; the least candidate
// kept; the sum of all weights.
const SOUGHT_LO: u32 = 0;
const SOUGHT_HI: u32 = 1;
const FOUND_KEY: u32 = 4;
const FOUND_ID: u32 = 5;
const LEAST_KEY: u32 = 6;
const LEAST_ID: u32 = 7;
const TOTAL_LO: u32 = 8;
const TOTAL_HI: u32 = 9;
const STATE_WORDS: u32 = 10;

/// The kernel.
#[kernel(local_size = LOCAL_SIZE, grid = [1, p.outputs])]
pub fn sample_pick(
    #[len(4 + 4 * p.rows)] step: &Buf<u32>,
    #[len(p.n_slots * SAMPLER_WORDS)] samplers: &Buf<u32>,
    #[len(p.outputs * MAX_CHUNKS)] best: &Buf<u32>,
    #[len(p.outputs)] counts: &Buf<u32>,
    #[len(p.outputs * p.n)] list: &Buf<Vec2<u32>>,
    #[len(p.outputs)] chosen: &BufMut<u32>,
    #[push] p: SamplePush,
) {
    let o = workgroup_id_y();
    if o >= n_outputs(&step) {
        return;
    }
    let t = local_id();
    let (start, m) = (o * p.n, counts[o]);
    let row = output_row(&step, o);
    let line = row_slot(&step, row) * SAMPLER_WORDS;
    let top_k = samplers[line];
    // The best alone is left: a search of every digit would find it too.
    if m == 1 || top_k == 1 {
        best_of(&list, start, m, &chosen, o, t);
        return;
    }
    let n_chunks = div_ceil(p.n, p.chunk);
    let firsts = Shared::<u32>::new(LOCAL_SIZE);
    // For even and odd digits.
    let lo = Shared::<u32>::new(comptime!(2 * DIGITS));
    let hi = Shared::<u32>::new(comptime!(2 * DIGITS));
    let state = Shared::<u32>::new(STATE_WORDS);
    firsts[t] = select(t < n_chunks, best[o * MAX_CHUNKS + select(t < n_chunks, t, 0)], 0);
    if t == 0 {
        state[LEAST_KEY] = 0;
        state[LEAST_ID] = 0;
    }
    fold_best(&firsts, t);
    let first = logit(firsts[0]);
    let (rate, reach) = (bitcast::<f32, u32>(samplers[line + 3]), bitcast::<f32, u32>(samplers[line + 4]));

    let counted = select(top_k > 0 && top_k < m, m, 0);
    if t == 0 {
        state[SOUGHT_LO] = top_k;
        state[SOUGHT_HI] = 0;
    }
    search(
        &list,
        start,
        counted,
        &state,
        &lo,
        &hi,
        t,
        first,
        ONE_RATE,
        ONE_REACH,
        comptime!(0),
        comptime!(Measure::Count),
    );
    keep(&state, counted > 0, t);

    let top_p = samplers[line + 1];
    let weighed = select(top_p == ALL, 0, m);
    total(&list, start, weighed, &state, t, first, ONE_RATE, ONE_REACH);
    if t == 0 {
        share(&state, top_p);
        // Nothing is no share: the best is kept.
        if state[SOUGHT_LO] == 0 && state[SOUGHT_HI] == 0 {
            state[SOUGHT_LO] = 1;
        }
    }
    search(
        &list,
        start,
        weighed,
        &state,
        &lo,
        &hi,
        t,
        first,
        ONE_RATE,
        ONE_REACH,
        comptime!(0),
        comptime!(Measure::Weight),
    );
    keep(&state, weighed > 0, t);

    let likely = ordered(first + bitcast::<f32, u32>(samplers[line + 2]));
    if t == 0 && likely > state[LEAST_KEY] {
        state[LEAST_KEY] = likely;
        state[LEAST_ID] = 0;
    }
    total(&list, start, m, &state, t, first, rate, reach);
    if t == 0 {
        share(&state, random(&samplers, line, row_position(&step, row) + 1));
        state[SOUGHT_LO] += 1;
        if state[SOUGHT_LO] == 0 {
            state[SOUGHT_HI] += 1;
        }
    }
    search(
        &list,
        start,
        m,
        &state,
        &lo,
        &hi,
        t,
        first,
        rate,
        reach,
        comptime!(LOGIT_DIGITS),
        comptime!(Measure::Weight),
    );
    if t == 0 {
        let none = firsts[0] == BROKEN || firsts[0] <= LOWEST;
        chosen[o] = select(none, NO_CHOICE, (state[FOUND_ID] >> 12) ^ 0xfffff);
    }
}

/// Chooses the best of the candidates, of equals the lowest id.
#[device]
fn best_of(list: &Buf<Vec2<u32>>, start: u32, m: u32, chosen: &BufMut<u32>, o: u32, t: u32) {
    // The best logit, and the lowest id that has it: ids are from the highest down.
    let most = Shared::<u32>::new(2);
    if t < 2 {
        most[t] = 0;
    }
    barrier();
    let mut key = 0;
    for i in (t..m).step_by(LOCAL_SIZE) {
        key = max(key, list[start + i].x());
    }
    atomic::max(&most[0], key);
    barrier();
    let top = most[0];
    let mut id = 0;
    for i in (t..m).step_by(LOCAL_SIZE) {
        let candidate = list[start + i];
        id = max(id, select(candidate.x() == top, candidate.y(), 0));
    }
    atomic::max(&most[1], id);
    barrier();
    if t == 0 {
        chosen[o] = select(top <= LOWEST, NO_CHOICE, (most[1] >> 12) ^ 0xfffff);
    }
}

/// Adds up the weights of the candidates kept so far.
#[device]
fn total(
    list: &Buf<Vec2<u32>>,
    start: u32,
    m: u32,
    state: &Shared<u32>,
    t: u32,
    first: f32,
    rate: f32,
    reach: f32,
) {
    barrier();
    if t == 0 {
        state[TOTAL_LO] = 0;
        state[TOTAL_HI] = 0;
    }
    barrier();
    let mut own_lo: u32 = 0;
    let mut own_hi: u32 = 0;
    for i in (t..m).step_by(LOCAL_SIZE) {
        let candidate = list[start + i];
        if kept(&state, candidate.x(), candidate.y()) {
            let more = weight(first - logit(candidate.x()), rate, reach);
            own_lo += more;
            own_hi += select(own_lo < more, 1, 0);
        }
    }
    let before = atomic::add(&state[TOTAL_LO], own_lo);
    atomic::add(&state[TOTAL_HI], own_hi + select(before + own_lo < before, 1, 0));
    barrier();
}

/// Finds the candidate, from the best down, at which the sum of what is kept reaches what is sought; from `from` = 8 on
/// by the id alone.
#[device]
fn search(
    list: &Buf<Vec2<u32>>,
    start: u32,
    m: u32,
    state: &Shared<u32>,
    lo: &Shared<u32>,
    hi: &Shared<u32>,
    t: u32,
    first: f32,
    rate: f32,
    reach: f32,
    #[comptime] from: u32,
    #[comptime] measure: Measure,
) {
    if t == 0 {
        state[FOUND_KEY] = 0;
        state[FOUND_ID] = 0;
    }
    if t < DIGITS {
        lo[t] = 0;
        hi[t] = 0;
    }
    barrier();
    for digit in comptime!(from)..ALL_DIGITS {
        let odd = digit & 1;
        let in_key = digit < LOGIT_DIGITS;
        let shift = 28 - 4 * (digit % LOGIT_DIGITS);
        // Bits above the digit; for the highest, none.
        let above = 0xffff_fff0 << shift;
        let (key_mask, id_mask) = (select(in_key, above, ALL), select(in_key, 0, above));
        for i in (t..m).step_by(LOCAL_SIZE) {
            let candidate = list[start + i];
            let (key, id) = (candidate.x(), candidate.y());
            let same_key = comptime!(from == LOGIT_DIGITS) || ((key ^ state[FOUND_KEY]) & key_mask) == 0;
            if same_key && ((id ^ state[FOUND_ID]) & id_mask) == 0 && kept(&state, key, id) {
                let value = (select(in_key, key, id) >> shift) & (DIGITS - 1);
                if comptime!(measure == Measure::Count) {
                    atomic::add(&lo[odd * DIGITS + value], 1);
                } else {
                    add(&lo, &hi, odd * DIGITS + value, weight(first - logit(key), rate, reach));
                }
            }
        }
        barrier();
        if t < DIGITS {
            if m > 0 {
                descend(&state, &lo, &hi, t, odd, in_key, shift);
            }
            lo[(1 - odd) * DIGITS + t] = 0;
            hi[(1 - odd) * DIGITS + t] = 0;
        }
        barrier();
    }
}

/// Finds out whether `value` is the highest digit at which the running sum reaches what is sought; what is left of that
/// is sought in the next digit.
#[device]
fn descend(
    state: &Shared<u32>,
    lo: &Shared<u32>,
    hi: &Shared<u32>,
    value: u32,
    odd: u32,
    in_key: bool,
    shift: u32,
) {
    let (sought_lo, sought_hi) = (state[2 * odd + SOUGHT_LO], state[2 * odd + SOUGHT_HI]);
    let mut above_lo: u32 = 0;
    let mut above_hi: u32 = 0;
    for other in 0..DIGITS {
        let counts = select(other > value, ALL, 0);
        let l = lo[odd * DIGITS + other] & counts;
        above_lo += l;
        above_hi += (hi[odd * DIGITS + other] & counts) + select(above_lo < l, 1, 0);
    }
    let to_lo = above_lo + lo[odd * DIGITS + value];
    let to_hi = above_hi + hi[odd * DIGITS + value] + select(to_lo < above_lo, 1, 0);
    let missed = above_hi < sought_hi || (above_hi == sought_hi && above_lo < sought_lo);
    let reached = to_hi > sought_hi || (to_hi == sought_hi && to_lo >= sought_lo);
    if missed && reached {
        let even = 1 - odd;
        state[2 * even + SOUGHT_LO] = sought_lo - above_lo;
        state[2 * even + SOUGHT_HI] = sought_hi - above_hi - select(sought_lo < above_lo, 1, 0);
        if in_key {
            state[FOUND_KEY] |= value << shift;
        } else {
            state[FOUND_ID] |= value << shift;
        }
    }
}

/// Makes what was found the least candidate that is kept.
#[device]
fn keep(state: &Shared<u32>, searched: bool, t: u32) {
    if t == 0 && searched {
        state[LEAST_KEY] = state[FOUND_KEY];
        state[LEAST_ID] = state[FOUND_ID];
    }
    barrier();
}

/// Whether a candidate is at least as good as the least that is kept.
#[device]
fn kept(state: &Shared<u32>, key: u32, id: u32) -> bool {
    key > state[LEAST_KEY] || (key == state[LEAST_KEY] && id >= state[LEAST_ID])
}

/// Adds to a sum of two words.
#[device]
fn add(lo: &Shared<u32>, hi: &Shared<u32>, at: u32, weight: u32) {
    let before = atomic::add(&lo[at], weight);
    if before + weight < before {
        atomic::add(&hi[at], 1);
    }
}

/// Seeks ⌊total · part / 2^32⌋.
#[device]
fn share(state: &Shared<u32>, part: u32) {
    let (low, high) = (wide_product(state[TOTAL_LO], part), wide_product(state[TOTAL_HI], part));
    let sum = high.x() + low.y();
    state[SOUGHT_LO] = sum;
    state[SOUGHT_HI] = high.y() + select(sum < low.y(), 1, 0);
}

/// A draw of 32 bits by Philox 4x32-10: key = seed, counter = (position, 0, sequence).
#[device]
fn random(samplers: &Buf<u32>, line: u32, position: u32) -> u32 {
    let mut c0 = position;
    let mut c1: u32 = 0;
    let mut c2 = samplers[line + 7];
    let mut c3 = samplers[line + 8];
    let mut k0 = samplers[line + 5];
    let mut k1 = samplers[line + 6];
    for _round in 0..PHILOX_ROUNDS {
        let (a, b) = (wide_product(0xd251_1f53, c0), wide_product(0xcd9e_8d57, c2));
        let (n0, n2) = (b.y() ^ c1 ^ k0, a.y() ^ c3 ^ k1);
        c0 = n0;
        c1 = b.x();
        c2 = n2;
        c3 = a.x();
        k0 += 0x9e37_79b9;
        k1 += 0xbb67_ae85;
    }
    c0
}
