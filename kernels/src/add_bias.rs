//! `y[r, i] ← y[r, i] + b[i]` in place for the rows of a step: the bias behind a matrix.
//!
//! Shapes: y `[rows, n]`, b `[n]` f32. One invocation owns one element. Traffic: 8 bytes per element and b from cache,
//! memory-bound. Numerics: one f32 rounding.

use kiln_abi::Kernel;
use kiln_dsl::prelude::*;

use crate::{
    Variant,
    conformance::{Buffer, Case, Random, f32_bytes, plain_step},
    reference,
    step::n_rows,
};

/// Push constants of `add_bias`.
#[derive(Clone, Copy, Debug, Push)]
pub struct AddBiasPush {
    /// Rows that the command has room for.
    pub rows: u32,
    /// Elements of a row.
    pub n: u32,
}

const LOCAL_SIZE: u32 = 64;

/// The kernel.
#[kernel(local_size = LOCAL_SIZE, grid = [p.n.div_ceil(LOCAL_SIZE), p.rows])]
pub fn add_bias(
    #[weight]
    #[len(p.n)]
    b: &Buf<f32>,
    #[len(4 + 4 * p.rows)] step: &Buf<u32>,
    #[len(p.rows * p.n)] y: &BufMut<f32>,
    #[push] p: AddBiasPush,
) {
    let r = workgroup_id_y();
    let i = global_id_x();
    if r < n_rows(&step) && i < p.n {
        y[r * p.n + i] += b[i];
    }
}

/// The kernel's one variant.
pub fn variants() -> Vec<Variant> {
    let shapes = [(1, 1), (1, 63), (2, 64), (3, 65), (2, 896)];
    vec![Variant::new("add_bias", AddBias::new(), move || shapes.map(case).into())]
}

fn case((rows, n): (u32, u32)) -> Case {
    let mut random = Random::new(n.into());
    let (y, b) = (random.units((rows * n) as usize), random.units(n as usize));
    Case {
        name: format!("rows = {rows}, n = {n}"),
        buffers: vec![
            Buffer::Input(f32_bytes(&b)),
            Buffer::Input(plain_step(rows)),
            Buffer::Changed(f32_bytes(&y)),
        ],
        expected: vec![reference::add(&y, &b.repeat(rows as usize)).at(2)],
        bind: Box::new(move |r| {
            let (b, step, y) = (r[0].into(), r[1].into(), r[2].into());
            AddBias::new().bind(&AddBiasArgs { b, step, y, p: AddBiasPush { rows, n } })
        }),
    }
}
