//! `y[r, i] = a[r, i] + b[r, i]` for the rows of a step.
//!
//! Shapes: a, b, y `[rows, n]` f32. One invocation owns one element. Traffic: 12 bytes per output, memory-bound.
//! Numerics: one f32 rounding.

use kiln_abi::Kernel;
use kiln_dsl::prelude::*;

use crate::{
    Variant,
    conformance::{Buffer, Case, Random, f32_bytes, plain_step},
    reference,
    step::n_rows,
};

/// Push constants of `add`.
#[derive(Clone, Copy, Debug, Push)]
pub struct AddPush {
    /// Rows that the command has room for.
    pub rows: u32,
    /// Elements of a row.
    pub n: u32,
}

const LOCAL_SIZE: u32 = 64;

/// The kernel.
#[kernel(local_size = LOCAL_SIZE, grid = [p.n.div_ceil(LOCAL_SIZE), p.rows])]
pub fn add(
    #[len(p.rows * p.n)] a: &Buf<f32>,
    #[len(p.rows * p.n)] b: &Buf<f32>,
    #[len(4 + 4 * p.rows)] step: &Buf<u32>,
    #[len(p.rows * p.n)] y: &BufMut<f32>,
    #[push] p: AddPush,
) {
    let r = workgroup_id_y();
    let i = global_id_x();
    if r < n_rows(&step) && i < p.n {
        let at = r * p.n + i;
        y[at] = a[at] + b[at];
    }
}

/// The kernel's one variant.
pub fn variants() -> Vec<Variant> {
    let shapes = [(1, 1), (1, 63), (2, 64), (3, 65), (2, 1000)];
    vec![Variant::new("add", Add::new(), move || shapes.map(case).into())]
}

fn case((rows, n): (u32, u32)) -> Case {
    let mut random = Random::new(n.into());
    let elems = (rows * n) as usize;
    let (a, b) = (random.units(elems), random.units(elems));
    Case {
        name: format!("rows = {rows}, n = {n}"),
        buffers: vec![
            Buffer::Input(f32_bytes(&a)),
            Buffer::Input(f32_bytes(&b)),
            Buffer::Input(plain_step(rows)),
            Buffer::Output(4 * elems),
        ],
        expected: vec![reference::add(&a, &b).at(3)],
        bind: Box::new(move |r| {
            let (a, b, step, y) = (r[0].into(), r[1].into(), r[2].into(), r[3].into());
            Add::new().bind(&AddArgs { a, b, step, y, p: AddPush { rows, n } })
        }),
    }
}
