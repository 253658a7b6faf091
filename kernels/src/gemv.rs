//! `y[i] = Σ_j W[i, j] · x[j]`, W in any format: the float arm.
//!
//! Shapes: W `[m, k]` in blocks, x `[k]` f32, y `[m]` f32; k is a multiple of the block and of four.
//! Who owns what: `lanes` invocations own a row; lane j takes elements 4j, 4(j + lanes), … four at a time; a tree in
//! workgroup memory folds the lanes' sums. Traffic: a row of W per output, memory-bound.
//! Numerics: weights decoded to f32, one fma per product into four running sums per lane. The order of the sum
//! depends on (k, lanes) alone, so every subgroup size gives the same bits.

use kiln_abi::Kernel;
use kiln_dsl::prelude::*;

use crate::{
    Format, Variant,
    conformance::{Buffer, Case, Random, f32_bytes, random_blocks},
    fold::fold_sums,
    reference,
};

/// Push constants of [`gemv`].
#[derive(Clone, Copy, Debug, Push)]
pub struct GemvPush {
    /// Rows of the matrix.
    pub m: u32,
    /// Columns of the matrix.
    pub k: u32,
}

/// Invocations of a workgroup; `lanes` divides it.
pub const LOCAL_SIZE: u32 = 128;

/// The kernel.
#[kernel(local_size = LOCAL_SIZE, grid = p.m.div_ceil(LOCAL_SIZE / lanes))]
pub fn gemv<F: QuantFormat>(
    #[len(p.m * (p.k / F::BLK))] w: &Buf<F::Block>,
    #[len(p.k / 4)] x: &Buf<Vec4<f32>>,
    #[len(p.m)] y: &BufMut<f32>,
    #[push] p: GemvPush,
    #[comptime] lanes: u32,
) {
    let t = local_id();
    let lane = t & (lanes - 1);
    let row = workgroup_id_x() * (LOCAL_SIZE / lanes) + t / lanes;
    let mut acc = splat::<Vec4<f32>>(0.0);
    if row < p.m {
        let first = row * (p.k / F::BLK);
        for four in (lane..p.k / 4).step_by(lanes) {
            let b = &w[first + four / (F::BLK / 4)];
            let at = (four % (F::BLK / 4)) * 4;
            acc = fma(F::decode4(b, at), x[four], acc);
        }
    }
    let sums = Shared::<f32>::new(LOCAL_SIZE);
    sums[t] = (acc.x() + acc.y()) + (acc.z() + acc.w());
    fold_sums(&sums, t, comptime!(lanes));
    if lane == 0 && row < p.m {
        y[row] = sums[t];
    }
}

/// Lanes per row, few for short rows.
const LANES: [u32; 2] = [8, 32];

/// The variants of one format.
pub fn variants<F: Format>() -> Vec<Variant> {
    let variant = |lanes| {
        let cases = move || shapes(F::GEOMETRY.elements()).map(|shape| case::<F>(lanes, shape)).into();
        Variant::new("gemv", Gemv::<F>::new(lanes), cases).on(F::NAME, "float")
    };
    LANES.map(variant).into()
}

/// One row and several, whole workgroups and a part of one, one block and many.
fn shapes(block: u32) -> [(u32, u32); 5] {
    let k = block.next_multiple_of(4);
    [(1, k), (3, 2 * k), (16, 5 * k), (17, 64.max(k)), (5, 1024 + k)]
}

fn case<F: Format>(lanes: u32, (m, k): (u32, u32)) -> Case {
    let mut random = Random::new(u64::from(m) << 32 | u64::from(k));
    let x = random.units(k as usize);
    let (blocks, w) = random_blocks::<F>(&mut random, m as usize * k as usize);
    // A lane's chain of fmas, two levels within it, the tree over the lanes.
    let roundings = (k / 4).div_ceil(lanes) + 2 + lanes.ilog2();
    Case {
        name: format!("m = {m}, k = {k}"),
        buffers: vec![Buffer::Input(blocks), Buffer::Input(f32_bytes(&x)), Buffer::Output(4 * m as usize)],
        expected: vec![reference::gemv(&w, &x, roundings).at(2)],
        bind: Box::new(move |r| {
            let args = GemvArgs { w: r[0].into(), x: r[1].into(), y: r[2].into(), p: GemvPush { m, k } };
            Gemv::<F>::new(lanes).bind(&args)
        }),
    }
}
