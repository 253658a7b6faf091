//! `y[g, i] = w[i] · x[g, i] / √(mean_j(x[g, j]²) + eps)` for the groups g of a step's rows: whole rows, or heads.
//!
//! Source: Zhang and Sennrich, arXiv:1910.07467, equation 4 (eps as Llama has it).
//! Shapes: x, y `[rows, groups, n]`, w `[n]`, all f32. A workgroup owns a group; invocation t sums the squares of elements
//! t, t + 128, …, then a tree in workgroup memory folds the 128 sums.
//! Traffic: 12 bytes per output (x is read twice, the second time from cache), memory-bound.
//! Numerics: f32 throughout; the order of the sum depends on n alone, so every subgroup size gives the same bits.

use kiln_abi::Kernel;
use kiln_dsl::prelude::*;

use crate::{
    Variant,
    conformance::{Buffer, Case, Random, f32_bytes, plain_step},
    fold::fold_sums,
    reference,
    step::n_rows,
};

/// Push constants of `rms_norm`.
#[derive(Clone, Copy, Debug, Push)]
pub struct RmsNormPush {
    /// Rows that the command has room for.
    pub rows: u32,
    /// Groups of a row.
    pub groups: u32,
    /// Elements of a group.
    pub n: u32,
    /// Added to the mean square.
    pub eps: f32,
}

const LOCAL_SIZE: u32 = 128;

/// The kernel.
#[kernel(local_size = LOCAL_SIZE, grid = [p.groups, p.rows])]
pub fn rms_norm(
    #[len(p.rows * p.groups * p.n)] x: &Buf<f32>,
    #[weight]
    #[len(p.n)]
    w: &Buf<f32>,
    #[len(4 + 4 * p.rows)] step: &Buf<u32>,
    #[len(p.rows * p.groups * p.n)] y: &BufMut<f32>,
    #[push] p: RmsNormPush,
) {
    let r = workgroup_id_y();
    if r >= n_rows(&step) {
        return;
    }
    let first = (r * p.groups + workgroup_id_x()) * p.n;
    let t = local_id();
    let partial = Shared::<f32>::new(LOCAL_SIZE);
    let mut squares = 0.0;
    for i in (t..p.n).step_by(LOCAL_SIZE) {
        let v = x[first + i];
        squares = fma(v, v, squares);
    }
    partial[t] = squares;
    fold_sums(&partial, t, comptime!(LOCAL_SIZE));
    let scale = inverse_sqrt(partial[0] / (p.n as f32) + p.eps);
    for i in (t..p.n).step_by(LOCAL_SIZE) {
        y[first + i] = x[first + i] * scale * w[i];
    }
}

/// The kernel's one variant.
pub fn variants() -> Vec<Variant> {
    let shapes = [(1, 1, 1), (1, 1, 127), (3, 1, 128), (2, 3, 129), (5, 1, 576), (2, 1, 2048)];
    vec![Variant::new("rms_norm", RmsNorm::new(), move || shapes.map(case).into())]
}

fn case((rows, groups, n): (u32, u32, u32)) -> Case {
    const EPS: f32 = 1e-5;
    let mut random = Random::new(u64::from(rows) << 32 | u64::from(n));
    let elems = (rows * groups * n) as usize;
    let (x, w) = (random.units(elems), random.units(n as usize));
    // An invocation's own sum, then the tree.
    let depth = n.div_ceil(LOCAL_SIZE) + LOCAL_SIZE.ilog2();
    Case {
        name: format!("rows = {rows}, groups = {groups}, n = {n}"),
        buffers: vec![
            Buffer::Input(f32_bytes(&x)),
            Buffer::Input(f32_bytes(&w)),
            Buffer::Input(plain_step(rows)),
            Buffer::Output(4 * elems),
        ],
        expected: vec![reference::rms_norm(&x, &w, EPS, depth).at(3)],
        bind: Box::new(move |r| {
            let (x, w, step, y) = (r[0].into(), r[1].into(), r[2].into(), r[3].into());
            let p = RmsNormPush { rows, groups, n, eps: EPS };
            RmsNorm::new().bind(&RmsNormArgs { x, w, step, y, p })
        }),
    }
}
