//! `chosen[o] = argmax_i x[o, i]`, the lowest index of equal values; 0xffffffff where nothing can be chosen: a value
//! is NaN or +∞, or none is above −∞.
//!
//! Shapes: x `[outputs, n]` f32, chosen `[outputs]` u32. A workgroup owns an output. Traffic: 4 bytes per value,
//! memory-bound. Numerics: comparisons only, exact.

use kiln_abi::Kernel;
use kiln_dsl::prelude::*;

use crate::{
    Variant,
    conformance::{Buffer, Case, Content, Expected, Random, f32_bytes, plain_step},
    step::n_rows,
};

/// What stands for a choice where there is none.
pub const NO_CHOICE: u32 = u32::MAX;

/// Push constants of `argmax`.
#[derive(Clone, Copy, Debug, Push)]
pub struct ArgmaxPush {
    /// Outputs that the command has room for.
    pub outputs: u32,
    /// Values of an output, at least 1.
    pub n: u32,
}

const LOCAL_SIZE: u32 = 256;

/// The kernel; `step` is the outputs' own block.
#[kernel(local_size = LOCAL_SIZE, grid = [1, p.outputs])]
pub fn argmax(
    #[len(p.outputs * p.n)] x: &Buf<f32>,
    #[len(4 + 4 * p.outputs)] step: &Buf<u32>,
    #[len(p.outputs)] chosen: &BufMut<u32>,
    #[push] p: ArgmaxPush,
) {
    let o = workgroup_id_y();
    if o >= n_rows(&step) {
        return;
    }
    let t = local_id();
    let best = Shared::<f32>::new(LOCAL_SIZE);
    let index = Shared::<u32>::new(LOCAL_SIZE);
    let mut own = x[o * p.n];
    let mut at = 0;
    for i in (t..p.n).step_by(LOCAL_SIZE) {
        let v = x[o * p.n + i];
        // A NaN or +∞ is taken and kept.
        if v > own || is_nan(v) {
            own = v;
            at = i;
        }
    }
    best[t] = own;
    index[t] = at;
    barrier();
    for step in comptime!(crate::fold::halves(LOCAL_SIZE)) {
        if t < step {
            let v = best[t + step];
            let i = index[t + step];
            if v > best[t] || is_nan(v) || (v == best[t] && i < index[t]) {
                best[t] = v;
                index[t] = i;
            }
        }
        barrier();
    }
    if t == 0 {
        chosen[o] = select(is_nan(best[0]) || is_inf(best[0]), NO_CHOICE, index[0]);
    }
}

/// The kernel's one variant.
pub fn variants() -> Vec<Variant> {
    let plain = |n: u32, at: u32| {
        let mut x = Random::new(n.into()).units(n as usize);
        x[at as usize] = 2.0;
        (x, at)
    };
    let cases = move || {
        let tie = |n: usize, a: u32, b: u32| {
            let mut x = vec![-1.0; n];
            (x[a as usize], x[b as usize]) = (0.5, 0.5);
            (x, a.min(b))
        };
        let mut nan = vec![1.0; 300];
        nan[299] = f32::NAN;
        let equal = (vec![-3.5; 700], 0);
        let lowest = (vec![f32::NEG_INFINITY; 9], NO_CHOICE);
        let infinite = (vec![0.0, f32::INFINITY, 1.0], NO_CHOICE);
        let rows = [
            plain(1, 0),
            plain(255, 254),
            plain(5000, 257),
            tie(600, 511, 3),
            (nan, NO_CHOICE),
            equal,
            lowest,
            infinite,
        ];
        rows.map(case).into()
    };
    vec![Variant::new("argmax", Argmax::new(), cases)]
}

fn case((x, expected): (Vec<f32>, u32)) -> Case {
    let n = x.len() as u32;
    // Two equal outputs.
    let rows = [x.clone(), x].concat();
    Case {
        name: format!("n = {n}, expected {expected}"),
        buffers: vec![Buffer::Input(f32_bytes(&rows)), Buffer::Input(plain_step(2)), Buffer::Output(8)],
        expected: vec![Expected { binding: 2, content: Content::Words(vec![expected; 2]) }],
        bind: Box::new(move |r| {
            let (x, step, chosen) = (r[0].into(), r[1].into(), r[2].into());
            Argmax::new().bind(&ArgmaxArgs { x, step, chosen, p: ArgmaxPush { outputs: 2, n } })
        }),
    }
}
