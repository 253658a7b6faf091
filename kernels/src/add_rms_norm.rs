//! `s[r, i] = a[r, i] + b[r, i]`, `y[r, i] = w[i] · s[r, i] / √(mean_j(s[r, j]²) + eps)` for the rows of a step: a
//! residual addition and the norm that reads it, in one launch.
//!
//! Source: as [`crate::rms_norm`]. Shapes: a, b, s, y `[rows, n]`, w `[n]`, all f32. A workgroup owns a row;
//! invocation t adds and squares elements t, t + 128, …, then a tree in workgroup memory folds the 128 sums.
//! Traffic: 20 bytes per element, memory-bound. Numerics: the same bits as `add` and `rms_norm` one after the other.

use kiln_abi::Kernel;
use kiln_dsl::prelude::*;

use crate::{
    Variant,
    conformance::{Buffer, Case, Random, f32_bytes, plain_step},
    fold::fold_sums,
    reference,
    step::n_rows,
};

/// Push constants of `add_rms_norm`.
#[derive(Clone, Copy, Debug, Push)]
pub struct AddRmsNormPush {
    /// Rows that the command has room for.
    pub rows: u32,
    /// Elements of a row.
    pub n: u32,
    /// Added to the mean square.
    pub eps: f32,
}

const LOCAL_SIZE: u32 = 128;

/// The kernel.
#[kernel(local_size = LOCAL_SIZE, grid = p.rows)]
pub fn add_rms_norm(
    #[len(p.rows * p.n)] a: &Buf<f32>,
    #[len(p.rows * p.n)] b: &Buf<f32>,
    #[len(p.n)] w: &Buf<f32>,
    #[len(4 + 4 * p.rows)] step: &Buf<u32>,
    #[len(p.rows * p.n)] s: &BufMut<f32>,
    #[len(p.rows * p.n)] y: &BufMut<f32>,
    #[push] p: AddRmsNormPush,
) {
    let r = workgroup_id_x();
    if r >= n_rows(&step) {
        return;
    }
    let first = r * p.n;
    let t = local_id();
    let partial = Shared::<f32>::new(LOCAL_SIZE);
    let mut squares = 0.0;
    for i in (t..p.n).step_by(LOCAL_SIZE) {
        let v = a[first + i] + b[first + i];
        s[first + i] = v;
        squares = fma(v, v, squares);
    }
    partial[t] = squares;
    fold_sums(&partial, t, comptime!(LOCAL_SIZE));
    let scale = inverse_sqrt(partial[0] / (p.n as f32) + p.eps);
    // Added again rather than read back: the sum's own stores need no ordering then.
    for i in (t..p.n).step_by(LOCAL_SIZE) {
        y[first + i] = (a[first + i] + b[first + i]) * scale * w[i];
    }
}

/// The kernel's one variant.
pub fn variants() -> Vec<Variant> {
    let shapes = [(1, 1), (1, 127), (3, 128), (2, 129), (5, 576), (2, 2048)];
    vec![Variant::new("add_rms_norm", AddRmsNorm::new(), move || shapes.map(case).into())]
}

fn case((rows, n): (u32, u32)) -> Case {
    const EPS: f32 = 1e-5;
    let mut random = Random::new(u64::from(rows) << 32 | u64::from(n));
    let elems = (rows * n) as usize;
    let (a, b, w) = (random.units(elems), random.units(elems), random.units(n as usize));
    let sum: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
    // An invocation's own sum, then the tree.
    let depth = n.div_ceil(LOCAL_SIZE) + LOCAL_SIZE.ilog2();
    Case {
        name: format!("rows = {rows}, n = {n}"),
        buffers: vec![
            Buffer::Input(f32_bytes(&a)),
            Buffer::Input(f32_bytes(&b)),
            Buffer::Input(f32_bytes(&w)),
            Buffer::Input(plain_step(rows)),
            Buffer::Output(4 * elems),
            Buffer::Output(4 * elems),
        ],
        expected: vec![reference::add(&a, &b).at(4), reference::rms_norm(&sum, &w, EPS, depth).at(5)],
        bind: Box::new(move |r| {
            let (a, b, w, step, s, y) =
                (r[0].into(), r[1].into(), r[2].into(), r[3].into(), r[4].into(), r[5].into());
            AddRmsNorm::new().bind(&AddRmsNormArgs {
                a,
                b,
                w,
                step,
                s,
                y,
                p: AddRmsNormPush { rows, n, eps: EPS },
            })
        }),
    }
}
