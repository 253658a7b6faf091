//! Ends a step on the device: each output's choice becomes the one row of its sequence in the next step, one position on.
//!
//! Shapes: chosen `[outputs]` u32; the step block; samplers `[n_slots, 144]`, whose history gets the choice; ring
//! `[ring_len]` u32 in lines of `width` words, one line for each step in turn, which the host reads while the device goes
//! on: a word is the choice in its lower 20 bits, and above them the steps done, so that the host sees which step wrote
//! it. Outputs take rising rows, so that a row is read before or while it is written. One workgroup does it all, an
//! invocation has every 64th output. Traffic: 36 bytes per output.

use kiln_abi::Kernel;
use kiln_dsl::prelude::*;

use crate::{
    Variant,
    conformance::{Buffer, Case, Content, Expected, u32_bytes},
    sample::{CHAIN_WORDS, HISTORY, NO_CHOICE, SAMPLER_WORDS, TOO_MANY_IDS},
    step::{StepRow, step_block},
};

/// Push constants of `advance`.
#[derive(Clone, Copy, Debug, Push)]
pub struct AdvancePush {
    /// Rows that the command has room for.
    pub rows: u32,
    /// Outputs that get a choice, at most `width`; the step's later ones get none.
    pub outputs: u32,
    /// Words of a line of the ring.
    pub width: u32,
    /// Words of the ring: whole lines.
    pub ring_len: u32,
    /// Lines of the samplers' buffer.
    pub n_slots: u32,
}

/// The word of the ring for a choice of the step before which `done` were done.
pub const fn ring_word(done: u32, choice: u32) -> u32 {
    (done.wrapping_add(1) << CHOICE_BITS) | (choice & CHOICE_MASK)
}

/// The choice in a word of the ring; none before the step has written it.
pub const fn ring_choice(done: u32, word: u32) -> Option<u32> {
    let same = word >> CHOICE_BITS == ring_word(done, 0) >> CHOICE_BITS;
    let choice = word & CHOICE_MASK;
    match (same, choice) {
        (false, _) => None,
        (true, CHOICE_MASK) => Some(NO_CHOICE),
        (true, choice) => Some(choice),
    }
}

const CHOICE_BITS: u32 = 20;
const CHOICE_MASK: u32 = (1 << CHOICE_BITS) - 1;
const _: () = assert!(TOO_MANY_IDS == CHOICE_MASK);

const LOCAL_SIZE: u32 = 64;

/// The kernel.
#[kernel(local_size = LOCAL_SIZE, grid = 1)]
pub fn advance(
    #[len(p.outputs)] chosen: &Buf<u32>,
    #[len(4 + 4 * p.rows)] step: &BufMut<u32>,
    #[len(p.n_slots * SAMPLER_WORDS)] samplers: &BufMut<u32>,
    #[len(p.ring_len)] ring: &BufMut<u32>,
    #[push] p: AdvancePush,
) {
    let t = local_id();
    let n = min(step[1], p.outputs);
    let done = step[2];
    barrier_buffers();
    let line = done % (p.ring_len / p.width) * p.width;
    for first in (0..n).step_by(LOCAL_SIZE) {
        let o = first + t;
        let mut token = 0;
        let mut position = 0;
        let mut slot = 0;
        if o < n {
            let row = 4 + 4 * step[7 + 4 * o];
            token = chosen[o];
            position = step[row + 1] + 1;
            slot = step[row + 2];
            ring[line + o] = ((done + 1) << CHOICE_BITS) | (token & CHOICE_MASK);
            samplers[slot * SAMPLER_WORDS + CHAIN_WORDS + position % HISTORY] = token;
        }
        barrier_buffers();
        if o < n {
            step[4 + 4 * o] = token;
            step[5 + 4 * o] = position;
            step[6 + 4 * o] = slot;
            step[7 + 4 * o] = o;
        }
        barrier_buffers();
    }
    if t == 0 {
        step[0] = n;
        step[2] = done + 1;
    }
}

/// The kernel's one variant.
pub fn variants() -> Vec<Variant> {
    let cases = || {
        let every = |n: u32| (0..n).collect::<Vec<_>>();
        vec![
            case(1, &[0], 1, 1),
            case(3, &every(3), 5, 5),
            case(7, &[6], 7, 1),
            case(9, &[0, 4, 8], 16, 16),
            case(70, &every(70), 70, 70),
            case(2, &[], 2, 2),
            case(5, &every(5), 5, 3),
        ]
    };
    vec![Variant::new("advance", Advance::new(), cases)]
}

fn case(n: u32, outputs: &[u32], capacity: u32, width: u32) -> Case {
    // The steps done show in twelve bits of the ring.
    const DONE: u32 = 4097;
    let n_slots = n + 1;
    let row = |r: u32| StepRow { token: 500 + r, position: 120 + 3 * r, slot: n - r };
    let rows: Vec<_> = (0..n).map(row).collect();
    let outputs: Vec<u32> = outputs.to_vec();
    let n_chosen = width.min(outputs.len() as u32);
    let mut chosen: Vec<u32> = (0..width).map(|o| 1000 + o).collect();
    chosen[0] = NO_CHOICE;
    let mut before = step_block(&rows, &outputs, capacity);
    before[2] = DONE;
    let mut after = before.clone();
    (after[0], after[2]) = (n_chosen, DONE + 1);
    let ring_len = 4 * width;
    let mut ring = vec![0; ring_len as usize];
    let mut samplers = vec![7; (n_slots * SAMPLER_WORDS) as usize];
    for (o, r) in (0..n_chosen).zip(&outputs) {
        let (from, token) = (row(*r), chosen[o as usize]);
        let at = (4 + 4 * o) as usize;
        after[at..at + 4].copy_from_slice(&[token, from.position + 1, from.slot, o]);
        let tagged = (2 << 20) | token.min(0xf_ffff);
        ring[(DONE % 4 * width + o) as usize] = tagged;
        samplers[(from.slot * 144 + 16 + (from.position + 1) % 128) as usize] = token;
    }
    Case {
        name: format!("outputs = {outputs:?} of {n} rows, {width} choices"),
        buffers: vec![
            Buffer::Input(u32_bytes(&chosen)),
            Buffer::Changed(u32_bytes(&before)),
            Buffer::Changed(u32_bytes(&vec![7; samplers.len()])),
            Buffer::Changed(u32_bytes(&vec![0; ring_len as usize])),
        ],
        expected: vec![
            Expected { binding: 1, content: Content::Words(after) },
            Expected { binding: 2, content: Content::Words(samplers) },
            Expected { binding: 3, content: Content::Words(ring) },
        ],
        bind: Box::new(move |r| {
            let (chosen, step, samplers, ring) = (r[0].into(), r[1].into(), r[2].into(), r[3].into());
            let p = AdvancePush { rows: capacity, outputs: width, width, ring_len, n_slots };
            Advance::new().bind(&AdvanceArgs { chosen, step, samplers, ring, p })
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_the_ring_says_which_step_wrote_it() {
        for done in [0, 3, 4095, 4096, u32::MAX] {
            for choice in [0, 5, TOO_MANY_IDS - 1, NO_CHOICE] {
                let word = ring_word(done, choice);
                assert_eq!(ring_choice(done, word), Some(choice));
                assert_eq!(ring_choice(done.wrapping_sub(4), word), None);
            }
        }
    }
}
