//! `y[r, i] = w[i] · x[r, i] / √(mean_j(x[r, j]²) + eps)`
//!
//! Source: Zhang and Sennrich, arXiv:1910.07467, equation 4 (eps as Llama has it).
//! Shapes: x, y `[n_rows, n]`, w `[n]`, all f32. A workgroup owns a row; invocation t sums the squares of elements
//! t, t + 128, …, then a tree in workgroup memory folds the 128 sums.
//! Traffic: 12 bytes per output (x is read twice, the second time from cache), memory-bound.
//! Numerics: f32 throughout; the order of the sum depends on n alone, so every subgroup size gives the same bits.

use kiln_abi::Kernel;
use kiln_dsl::prelude::*;

use crate::{
    Variant,
    conformance::{Buffer, Case, Random, f32_bytes},
    fold::fold_sums,
    reference,
};

/// Push constants of [`rms_norm`].
#[derive(Clone, Copy, Debug, Push)]
pub struct RmsNormPush {
    /// Rows.
    pub n_rows: u32,
    /// Elements per row.
    pub n: u32,
    /// Added to the mean square.
    pub eps: f32,
}

const LOCAL_SIZE: u32 = 128;

/// The kernel.
#[kernel(local_size = LOCAL_SIZE, grid = p.n_rows)]
pub fn rms_norm(
    #[len(p.n_rows * p.n)] x: &Buf<f32>,
    #[len(p.n)] w: &Buf<f32>,
    #[len(p.n_rows * p.n)] y: &BufMut<f32>,
    #[push] p: RmsNormPush,
) {
    let first = workgroup_id_x() * p.n;
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
    let shapes = [(1, 1), (1, 127), (3, 128), (2, 129), (5, 576), (2, 2048)];
    vec![Variant::new("rms_norm", RmsNorm::new(), move || shapes.map(case).into())]
}

fn case((n_rows, n): (u32, u32)) -> Case {
    const EPS: f32 = 1e-5;
    let mut random = Random::new(u64::from(n_rows) << 32 | u64::from(n));
    let elems = (n_rows * n) as usize;
    let (x, w) = (random.units(elems), random.units(n as usize));
    // An invocation's own sum, then the tree.
    let depth = n.div_ceil(LOCAL_SIZE) + LOCAL_SIZE.ilog2();
    Case {
        name: format!("n_rows = {n_rows}, n = {n}"),
        buffers: vec![Buffer::Input(f32_bytes(&x)), Buffer::Input(f32_bytes(&w)), Buffer::Output(4 * elems)],
        expected: vec![reference::rms_norm(&x, &w, EPS, depth).at(2)],
        bind: Box::new(move |r| {
            let p = RmsNormPush { n_rows, n, eps: EPS };
            RmsNorm::new().bind(&RmsNormArgs { x: r[0].into(), w: r[1].into(), y: r[2].into(), p })
        }),
    }
}
