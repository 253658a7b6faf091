//! Ends a step on the device: each output's choice becomes the one row of its sequence in the next step, one position on.
//!
//! Shapes: chosen `[outputs]` u32; the step block; ring `[ring_len]` u32 in lines of `width` words, one line for each
//! step in turn, which the host reads while the device goes on. Outputs take rising rows, so that a row is read before
//! or while it is written. One workgroup does it all, an invocation has every 64th output. Traffic: 32 bytes per output.

use kiln_abi::Kernel;
use kiln_dsl::prelude::*;

use crate::{
    Variant,
    conformance::{Buffer, Case, Content, Expected, u32_bytes},
    step::{StepRow, step_block},
};

/// Push constants of `advance`.
#[derive(Clone, Copy, Debug, Push)]
pub struct AdvancePush {
    /// Rows that the command has room for.
    pub rows: u32,
    /// Outputs that the command has room for, at most `width`.
    pub outputs: u32,
    /// Words of a line of the ring.
    pub width: u32,
    /// Words of the ring: whole lines.
    pub ring_len: u32,
}

const LOCAL_SIZE: u32 = 64;

/// The kernel.
#[kernel(local_size = LOCAL_SIZE, grid = 1)]
pub fn advance(
    #[len(p.outputs)] chosen: &Buf<u32>,
    #[len(4 + 4 * p.rows)] step: &BufMut<u32>,
    #[len(p.ring_len)] ring: &BufMut<u32>,
    #[push] p: AdvancePush,
) {
    let t = local_id();
    let n = step[1];
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
            ring[line + o] = token;
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
            case(1, &[0], 1),
            case(3, &every(3), 5),
            case(7, &[6], 7),
            case(9, &[0, 4, 8], 16),
            case(70, &every(70), 70),
            case(2, &[], 2),
        ]
    };
    vec![Variant::new("advance", Advance::new(), cases)]
}

fn case(n: u32, outputs: &[u32], capacity: u32) -> Case {
    const DONE: u32 = 5;
    let row = |r: u32| StepRow { token: 500 + r, position: 40 + 3 * r, slot: (r * 5) % 7 };
    let rows: Vec<_> = (0..n).map(row).collect();
    let n_outputs = outputs.len() as u32;
    let chosen: Vec<u32> = (0..capacity).map(|o| 1000 + o).collect();
    let mut before = step_block(&rows, outputs, capacity);
    before[2] = DONE;
    let mut after = before.clone();
    (after[0], after[2]) = (n_outputs, DONE + 1);
    let ring_len = 4 * capacity;
    let mut ring = vec![0; ring_len as usize];
    for (o, r) in (0..n_outputs).zip(outputs) {
        let from = row(*r);
        let at = (4 + 4 * o) as usize;
        after[at..at + 4].copy_from_slice(&[chosen[o as usize], from.position + 1, from.slot, o]);
        ring[(DONE % 4 * capacity + o) as usize] = chosen[o as usize];
    }
    Case {
        name: format!("outputs = {outputs:?} of {n} rows"),
        buffers: vec![
            Buffer::Input(u32_bytes(&chosen)),
            Buffer::Changed(u32_bytes(&before)),
            Buffer::Changed(u32_bytes(&vec![0; ring_len as usize])),
        ],
        expected: vec![
            Expected { binding: 1, content: Content::Words(after) },
            Expected { binding: 2, content: Content::Words(ring) },
        ],
        bind: Box::new(move |r| {
            let (chosen, step, ring) = (r[0].into(), r[1].into(), r[2].into());
            let p = AdvancePush { rows: capacity, outputs: capacity, width: capacity, ring_len };
            Advance::new().bind(&AdvanceArgs { chosen, step, ring, p })
        }),
    }
}
