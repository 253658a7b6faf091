//! `y[r, i] = factor · x[r, i]` for the rows of a step.
//!
//! Shapes: x, y `[rows, n]` f32. One invocation owns one element. Traffic: 8 bytes per output, memory-bound.
//! Numerics: one f32 rounding.

use kiln_abi::Kernel;
use kiln_dsl::prelude::*;

use crate::{
    Variant,
    conformance::{Buffer, Case, Random, f32_bytes, plain_step},
    reference,
    step::n_rows,
};

/// Push constants of `scale`.
#[derive(Clone, Copy, Debug, Push)]
pub struct ScalePush {
    /// Rows that the command has room for.
    pub rows: u32,
    /// Elements of a row.
    pub n: u32,
    /// The multiplier.
    pub factor: f32,
}

const LOCAL_SIZE: u32 = 64;

/// The kernel.
#[kernel(local_size = LOCAL_SIZE, grid = [p.n.div_ceil(LOCAL_SIZE), p.rows])]
pub fn scale(
    #[len(p.rows * p.n)] x: &Buf<f32>,
    #[len(4 + 4 * p.rows)] step: &Buf<u32>,
    #[len(p.rows * p.n)] y: &BufMut<f32>,
    #[push] p: ScalePush,
) {
    let r = workgroup_id_y();
    let i = global_id_x();
    if r < n_rows(&step) && i < p.n {
        let at = r * p.n + i;
        y[at] = p.factor * x[at];
    }
}

/// The kernel's one variant.
pub fn variants() -> Vec<Variant> {
    let shapes = [(1, 1), (2, 65), (3, 640)];
    vec![Variant::new("scale", Scale::new(), move || shapes.map(case).into())]
}

fn case((rows, n): (u32, u32)) -> Case {
    let factor = 25.298_221;
    let elems = (rows * n) as usize;
    let x = Random::new(n.into()).units(elems);
    Case {
        name: format!("rows = {rows}, n = {n}"),
        buffers: vec![
            Buffer::Input(f32_bytes(&x)),
            Buffer::Input(plain_step(rows)),
            Buffer::Output(4 * elems),
        ],
        expected: vec![reference::scale(&x, factor).at(2)],
        bind: Box::new(move |r| {
            let (x, step, y) = (r[0].into(), r[1].into(), r[2].into());
            Scale::new().bind(&ScaleArgs { x, step, y, p: ScalePush { rows, n, factor } })
        }),
    }
}
