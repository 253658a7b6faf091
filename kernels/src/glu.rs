//! `y[r, i] = act(gate[r, i]) · up[r, i]` for the rows of a step, act silu or the tanh form of gelu.
//!
//! Source: Shazeer, arXiv:2002.05202, section 2; gelu: Hendrycks and Gimpel, arXiv:1606.08415, section 2.
//! Shapes: gate, up, y `[rows, n]` f32. One invocation owns one element. Traffic: 12 bytes per output, memory-bound.
//! Numerics: f32; `exp` is a few ulp off, and its argument's rounding grows with its size.

use kiln_abi::Kernel;
use kiln_dsl::prelude::*;

use crate::{
    Variant,
    arms::{Activation, activate},
    conformance::{Buffer, Case, Random, f32_bytes, plain_step},
    reference,
    step::n_rows,
};

/// Push constants of `glu`.
#[derive(Clone, Copy, Debug, Push)]
pub struct GluPush {
    /// Rows that the command has room for.
    pub rows: u32,
    /// Elements of a row.
    pub n: u32,
}

const LOCAL_SIZE: u32 = 64;

/// The kernel.
#[kernel(local_size = LOCAL_SIZE, grid = [p.n.div_ceil(LOCAL_SIZE), p.rows])]
pub fn glu(
    #[len(p.rows * p.n)] gate: &Buf<f32>,
    #[len(p.rows * p.n)] up: &Buf<f32>,
    #[len(4 + 4 * p.rows)] step: &Buf<u32>,
    #[len(p.rows * p.n)] y: &BufMut<f32>,
    #[push] p: GluPush,
    #[comptime] gelu: bool,
) {
    let r = workgroup_id_y();
    let i = global_id_x();
    if r < n_rows(&step) && i < p.n {
        let at = r * p.n + i;
        y[at] =
            activate(gate[at], comptime!(if gelu { Activation::Gelu } else { Activation::Silu })) * up[at];
    }
}

/// One variant for each activation.
pub fn variants() -> Vec<Variant> {
    let shapes = [(1, 1), (2, 65), (3, 1536)];
    let variant = |gelu| Variant::new("glu", Glu::new(gelu), move || shapes.map(|s| case(gelu, s)).into());
    vec![variant(false), variant(true)]
}

fn case(gelu: bool, (rows, n): (u32, u32)) -> Case {
    let mut random = Random::new(n.into());
    let elems = (rows * n) as usize;
    let gate: Vec<f32> = random.units(elems).iter().map(|x| 12.0 * x).collect();
    let up = random.units(elems);
    Case {
        name: format!("rows = {rows}, n = {n}"),
        buffers: vec![
            Buffer::Input(f32_bytes(&gate)),
            Buffer::Input(f32_bytes(&up)),
            Buffer::Input(plain_step(rows)),
            Buffer::Output(4 * elems),
        ],
        expected: vec![reference::glu(&gate, &up, gelu).at(3)],
        bind: Box::new(move |r| {
            let (gate, up, step, y) = (r[0].into(), r[1].into(), r[2].into(), r[3].into());
            Glu::new(gelu).bind(&GluArgs { gate, up, step, y, p: GluPush { rows, n } })
        }),
    }
}
