//! Ends a decode step on the device: each row's choice becomes its next token, one position on.
//!
//! Shapes: chosen `[rows]` u32; the step block; ring `[ring_len]` u32, which the host reads while the device goes on.
//! One invocation does it all: a step has few rows. Traffic: 12 bytes per row.

use kiln_abi::Kernel;
use kiln_dsl::prelude::*;

use crate::{
    Variant,
    conformance::{Buffer, Case, Content, Expected, u32_bytes},
};

/// Push constants of `advance`.
#[derive(Clone, Copy, Debug, Push)]
pub struct AdvancePush {
    /// Rows that the command has room for.
    pub rows: u32,
    /// Words of the ring: whole steps of `rows` words.
    pub ring_len: u32,
}

/// The kernel.
#[kernel(local_size = 1, grid = 1)]
pub fn advance(
    #[len(p.rows)] chosen: &Buf<u32>,
    #[len(4 + 4 * p.rows)] step: &BufMut<u32>,
    #[len(p.ring_len)] ring: &BufMut<u32>,
    #[push] p: AdvancePush,
) {
    let n = step[0];
    let done = step[2];
    let line = done % (p.ring_len / p.rows) * p.rows;
    for r in 0..n {
        let token = chosen[r];
        step[4 + 4 * r] = token;
        step[5 + 4 * r] += 1;
        ring[line + r] = token;
    }
    step[2] = done + 1;
}

/// The kernel's one variant.
pub fn variants() -> Vec<Variant> {
    vec![Variant::new("advance", Advance::new(), || vec![case(1, 1), case(2, 3), case(3, 3)])]
}

fn case(n: u32, rows: u32) -> Case {
    let chosen: Vec<u32> = (0..rows).map(|r| 1000 + r).collect();
    let mut before = vec![0u32; (4 + 4 * rows) as usize];
    (before[0], before[2]) = (n, 5);
    (0..rows as usize).for_each(|r| before[5 + 4 * r] = 40 + r as u32);
    let ring_len = 4 * rows;
    let (mut after, mut ring) = (before.clone(), vec![0u32; ring_len as usize]);
    after[2] = 6;
    for r in 0..n as usize {
        (after[4 + 4 * r], after[5 + 4 * r]) = (chosen[r], 41 + r as u32);
        ring[rows as usize + r] = chosen[r];
    }
    Case {
        name: format!("n = {n} of {rows}"),
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
            Advance::new().bind(&AdvanceArgs { chosen, step, ring, p: AdvancePush { rows, ring_len } })
        }),
    }
}
