//! The product on matrices of a workgroup, W in any format: the loads decode it.
//!
//! Shapes: W `[m, k]` in planes, x `[n, k]` f16, y `[n, m]` f32; k is whole blocks.
//! Who owns what: a workgroup holds its tile of y as one matrix; who holds which element is the device's.
//! Edges: a tile that is not whole reads zeros outside, one step at a time, and its store drops what is outside.
//! Traffic: a tile's rows of W and of x once for each tile.
//! Numerics: weights are decoded in f32 and rounded to f16; the order of a sum within one multiply-add is the device's.

use std::fmt;

use kiln_abi::{Kernel, spirv::ClampMode};
use kiln_dsl::{
    prelude::*,
    through::{layout, rows, store_view, view},
};

use super::{khr::GemmPush, khr_f16::halves};
use crate::{
    Variant,
    arms::tensor_words,
    conformance::{Buffer, Case, Random, random_blocks},
    formats::{Format, layout::pack},
    reference,
};

/// A workgroup's tile and its invocations.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Cm2Shape {
    /// Rows of x, rows of W, and columns of both at once.
    pub tile: [u32; 3],
    /// Invocations of the workgroup.
    pub invocations: u32,
    /// Steps along k that a turn of the loop takes.
    pub unroll: u32,
    /// Whether the load may decode four neighbors at once.
    pub four: bool,
}

/// `128x128x64 by 4, 256 invocations`
impl fmt::Debug for Cm2Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([n, m, k], four) = (self.tile, if self.four { ", decoding four" } else { "" });
        write!(f, "{n}x{m}x{k} by {}, {} invocations{four}", self.unroll, self.invocations)
    }
}

/// The kernel.
#[kernel(
    local_size = shape.invocations,
    grid = [p.m.div_ceil(shape.tile[1]), p.n.div_ceil(shape.tile[0])],
)]
pub fn gemm_cm2<F: TensorFormat>(
    #[len(p.n * p.k)] x: &Buf<f16>,
    #[weight]
    #[len(tensor_words::<F>(p.m * p.k / F::UNIT))]
    w: &Buf<u32>,
    #[len(p.n * p.m)] y: &BufMut<f32>,
    #[push] p: GemmPush,
    #[comptime] shape: Cm2Shape,
) {
    dims!(N = shape.tile[0], M = shape.tile[1], K = shape.tile[2]);
    let n0 = workgroup_id_y() * N;
    let m0 = workgroup_id_x() * M;
    // Whole blocks: rows that provably start at 16 bytes are loaded at several times the rate.
    let k = p.k & comptime!(!(F::BLK.max(F::UNIT) - 1));
    let w = comptime!(
        Tensor::new::<F>(w, kiln_dsl::ops::div(kiln_dsl::ops::mul(p.m, k), F::UNIT.read())).stage()
    );
    let mut acc = Tile::<f32, Acc, Wg, M, N>::zero();
    let (step, turn) = (comptime!(shape.tile[2]), comptime!(shape.tile[2] * shape.unroll));
    if n0 + N <= p.n && m0 + M <= p.m && k % turn == 0 {
        for k0 in (0..k).step_by(turn) {
            for i in comptime!(0..shape.unroll) {
                acc = onto::<F, N, M, K>(
                    acc,
                    &x,
                    comptime!(&w),
                    (n0, m0, k0 + comptime!(i * shape.tile[2])),
                    k,
                    p,
                    comptime!(ClampMode::Undefined),
                    comptime!(shape),
                );
            }
        }
    } else {
        for k0 in (0..k).step_by(step) {
            acc = onto::<F, N, M, K>(
                acc,
                &x,
                comptime!(&w),
                (n0, m0, k0),
                k,
                p,
                comptime!(ClampMode::Constant),
                comptime!(shape),
            );
        }
    }
    let y_layout = layout((p.n, p.m), comptime!(ClampMode::Constant));
    store_view(acc, y, y_layout.slice((n0, N, m0, M)), view(comptime!(&[1, 0])));
}

/// The product of the slices from the `first` row of x, row of W and column on, onto `acc`.
#[device]
fn onto<F: TensorFormat, N: Dim, M: Dim, K: Dim>(
    acc: Tile<f32, Acc, Wg, M, N>,
    x: &Buf<f16>,
    w: &Tensor,
    first: (u32, u32, u32),
    k: u32,
    #[push] p: GemmPush,
    #[comptime] clamp: ClampMode,
    #[comptime] shape: Cm2Shape,
) -> Tile<f32, Acc, Wg, M, N> {
    let (n, m, step) = (comptime!(shape.tile[0]), comptime!(shape.tile[1]), comptime!(shape.tile[2]));
    let w_rows = rows::<F>(p.m, k, comptime!(clamp)).slice((first.1, m, first.2, step));
    let x_layout = layout((p.n, k), comptime!(clamp)).slice((first.0, n, first.2, step));
    let left = Tile::<f16, MatA, Wg, M, K>::load_decoded(w, w_rows, comptime!(shape.four));
    let right = Tile::<f16, MatB, Wg, K, N>::load_view(x, x_layout, view(comptime!(&[1, 0])));
    mul_add(left, right, acc)
}

/// A large card's tile, and one that a quick test runs whole, with and without a function that decodes four.
const SHAPES: [Cm2Shape; 3] = [
    Cm2Shape { tile: [128, 128, 64], invocations: 256, unroll: 1, four: false },
    Cm2Shape { tile: [32, 64, 32], invocations: 128, unroll: 2, four: false },
    Cm2Shape { tile: [32, 64, 32], invocations: 128, unroll: 2, four: true },
];

/// The variants of a format.
pub fn variants<F: Format>() -> Vec<Variant> {
    SHAPES.map(|s| Variant::lazy("gemm", GemmCm2::<F>::new(s), move || cases::<F>(s))).into()
}

/// One tile and several, edges along every axis.
fn cases<F: Format>(shape: Cm2Shape) -> impl Iterator<Item = Case> {
    let [n, m, k] = shape.tile;
    let block = F::BLK.max(F::UNIT);
    let (whole, odd) = (block.next_multiple_of(k * shape.unroll), block * (k / block + 1));
    let sizes = [(n, m, whole), (n + 3, m + 5, whole + odd), (1, 7, block)];
    sizes.into_iter().map(move |size| case::<F>(shape, size))
}

fn case<F: Format>(shape: Cm2Shape, (n, m, k): (u32, u32, u32)) -> Case {
    let mut random = Random::new(u64::from(n) << 40 | u64::from(m) << 20 | u64::from(k));
    let (x, x_bytes) = halves(&mut random, n * k);
    let (blocks, w) = blocks::<F>(&mut random, (m * k) as usize);
    // Sums that are cut off rather than rounded err twice as much.
    let expected = reference::product_of_halves(&w, &x, k as usize, 2 * k);
    let planes = pack::<F>(&blocks);
    Case {
        name: format!("n = {n}, m = {m}, k = {k}"),
        buffers: vec![Buffer::Input(x_bytes), Buffer::Input(planes), Buffer::Output(4 * (n * m) as usize)],
        expected: vec![expected.at(2)],
        bind: Box::new(move |r| {
            let (x, w, y) = (r[0].into(), r[1].into(), r[2].into());
            GemmCm2::<F>::new(shape).bind(&GemmCm2Args { x, w, y, p: GemmPush { n, m, k } })
        }),
    }
}

/// Random blocks whose values f16 holds.
fn blocks<F: Format>(random: &mut Random, n: usize) -> (Vec<u8>, Vec<f32>) {
    const LARGEST: f32 = 256.0;
    let (n_elems, n_bytes) = (F::GEOMETRY.elements() as usize, F::GEOMETRY.bytes() as usize);
    let (mut blocks, mut values) = (Vec::new(), Vec::new());
    while values.len() < n {
        let (some, decoded) = random_blocks::<F>(random, n - values.len());
        for (block, decoded) in some.chunks_exact(n_bytes).zip(decoded.chunks_exact(n_elems)) {
            if decoded.iter().all(|v| f32::abs(*v) <= LARGEST) {
                blocks.extend_from_slice(block);
                values.extend_from_slice(decoded);
            }
        }
    }
    (blocks, values)
}
