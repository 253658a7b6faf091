//! `x[r, i] ← cap · tanh(x[r, i] / cap)` in place for the rows of a step.
//!
//! Source: Bello et al., arXiv:1611.09940, appendix A.1. Shapes: x `[rows, n]` f32. One invocation owns one element.
//! Traffic: 8 bytes per element, memory-bound. Numerics: f32; tanh z is 1 − 2 / (e^2z + 1), which stays finite where
//! e^2z does not, and is off by a few roundings of 1 whatever z is.

use kiln_abi::Kernel;
use kiln_dsl::prelude::*;

use crate::{
    Variant,
    conformance::{Buffer, Case, Random, f32_bytes, plain_step},
    reference,
    step::n_rows,
};

/// Push constants of `soft_cap`.
#[derive(Clone, Copy, Debug, Push)]
pub struct SoftCapPush {
    /// Rows that the command has room for.
    pub rows: u32,
    /// Elements of a row.
    pub n: u32,
    /// Largest magnitude of a result.
    pub cap: f32,
}

const LOCAL_SIZE: u32 = 64;

/// The kernel.
#[kernel(local_size = LOCAL_SIZE, grid = [p.n.div_ceil(LOCAL_SIZE), p.rows])]
pub fn soft_cap(
    #[len(p.rows * p.n)] x: &BufMut<f32>,
    #[len(4 + 4 * p.rows)] step: &Buf<u32>,
    #[push] p: SoftCapPush,
) {
    let r = workgroup_id_y();
    let i = global_id_x();
    if r < n_rows(&step) && i < p.n {
        let at = r * p.n + i;
        let z = x[at] / p.cap;
        x[at] = p.cap * (1.0 - 2.0 / (exp(2.0 * z) + 1.0));
    }
}

/// The kernel's one variant.
pub fn variants() -> Vec<Variant> {
    let shapes = [(1, 1), (2, 65), (3, 1000)];
    vec![Variant::new("soft_cap", SoftCap::new(), move || shapes.map(case).into())]
}

fn case((rows, n): (u32, u32)) -> Case {
    let cap = 30.0;
    // From far below the cap to where e^2z overflows.
    let x: Vec<f32> =
        Random::new(n.into()).units((rows * n) as usize).iter().map(|x| 3000.0 * x * x * x).collect();
    Case {
        name: format!("rows = {rows}, n = {n}"),
        buffers: vec![Buffer::Changed(f32_bytes(&x)), Buffer::Input(plain_step(rows))],
        expected: vec![reference::soft_cap(&x, cap).at(0)],
        bind: Box::new(move |r| {
            let (x, step) = (r[0].into(), r[1].into());
            SoftCap::new().bind(&SoftCapArgs { x, step, p: SoftCapPush { rows, n, cap } })
        }),
    }
}
