//! The product on matrices of a workgroup, W in blocks that the loads decode.
//!
//! Shapes: W `[m, k]` in blocks as a file has them, x `[n, k]` f16, y `[n, m]` f32; k is whole blocks.
//! Who owns what: a workgroup holds its tile of y as one matrix; who holds which element is the device's.
//! Edges: a tile that is not whole reads zeros outside, and its store drops what is outside.
//! Numerics: weights are decoded in f32 and rounded to f16; the order of a sum within one multiply-add is the device's.

use std::fmt;

use kiln_abi::{Kernel, spirv::ClampMode};
use kiln_dsl::{
    prelude::*,
    through::{layout, store_view, view},
};

use super::{khr::GemmPush, khr_f16::halves};
use crate::{
    Variant,
    conformance::{Buffer, Case, Random},
    formats::{Format, Q4K, Q8_0},
    reference,
};

/// A workgroup's tile and its invocations.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Cm2Shape {
    /// Rows of x, rows of W, and columns of both at once.
    pub tile: [u32; 3],
    /// Invocations of the workgroup.
    pub invocations: u32,
    /// Whether the load may decode four neighbors at once.
    pub four: bool,
}

/// `128x128x64, 256 invocations`
impl fmt::Debug for Cm2Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([n, m, k], four) = (self.tile, if self.four { ", by four" } else { "" });
        write!(f, "{n}x{m}x{k}, {} invocations{four}", self.invocations)
    }
}

/// The kernel.
#[kernel(
    local_size = shape.invocations,
    grid = [p.m.div_ceil(shape.tile[1]), p.n.div_ceil(shape.tile[0])],
)]
pub fn gemm_cm2<F: QuantFormat>(
    #[len(p.n * p.k)] x: &Buf<f16>,
    #[len(p.m * (p.k / F::BLK))] w: &Buf<F::Block>,
    #[len(p.n * p.m)] y: &BufMut<f32>,
    #[push] p: GemmPush,
    #[comptime] shape: Cm2Shape,
) {
    dims!(N = shape.tile[0], M = shape.tile[1], K = shape.tile[2]);
    let n0 = workgroup_id_y() * N;
    let m0 = workgroup_id_x() * M;
    let turned = view(comptime!(&[1, 0]));
    let y_layout = layout((p.n, p.m), comptime!(ClampMode::Constant));
    let mut acc = Tile::<f32, Acc, Wg, M, N>::zero();
    if n0 + N <= p.n && m0 + M <= p.m && p.k % K == 0 {
        let x_layout = layout((p.n, p.k), comptime!(ClampMode::Undefined));
        let w_layout = layout((p.m, p.k), comptime!(ClampMode::Undefined)).blocks((1, F::BLK));
        for k0 in (0..p.k).step_by(K) {
            let left = Tile::<f16, MatA, Wg, M, K>::load_blocks::<F>(
                w,
                w_layout.slice((m0, M, k0, K)),
                comptime!(shape.four),
            );
            let right = Tile::<f16, MatB, Wg, K, N>::load_view(x, x_layout.slice((n0, N, k0, K)), turned);
            acc = mul_add(left, right, acc);
        }
    } else {
        let x_layout = layout((p.n, p.k), comptime!(ClampMode::Constant));
        let w_layout = layout((p.m, p.k), comptime!(ClampMode::Constant)).blocks((1, F::BLK));
        for k0 in (0..p.k).step_by(K) {
            let left = Tile::<f16, MatA, Wg, M, K>::load_blocks::<F>(
                w,
                w_layout.slice((m0, M, k0, K)),
                comptime!(shape.four),
            );
            let right = Tile::<f16, MatB, Wg, K, N>::load_view(x, x_layout.slice((n0, N, k0, K)), turned);
            acc = mul_add(left, right, acc);
        }
    }
    store_view(acc, y, y_layout.slice((n0, N, m0, M)), turned);
}

/// Q8_0 as a file has it.
#[derive(Block)]
pub struct Q8Block {
    d: f16,
    qs: [i8; 32],
}

/// [`Q8Block`]'s decoding.
pub struct Q8File;

#[device]
impl QuantFormat for Q8File {
    type Block = Q8Block;
    const BLK: u32 = 32;
    fn decode<R: Rail>(b: &BlockRef<Q8Block, R>, at: u32) -> f32 {
        (b.d as f32) * (b.qs[at] as f32)
    }
}

/// Q4_K as a file has it.
#[derive(Block)]
pub struct Q4KBlock {
    d: f16,
    dmin: f16,
    scales: [u32; 3],
    qs: [u32; 32],
}

/// [`Q4KBlock`]'s decoding.
pub struct Q4KFile;

#[device]
impl QuantFormat for Q4KFile {
    type Block = Q4KBlock;
    const BLK: u32 = 256;
    fn decode<R: Rail>(b: &BlockRef<Q4KBlock, R>, at: u32) -> f32 {
        let group = at >> 5;
        let word = b.qs[(at >> 6) * 8 + ((at & 31) >> 2)];
        let q = (word >> ((at & 3) * 8 + (group & 1) * 4)) & 15;
        let scale = (b.d as f32) * (six_bits(b.scales[0], b.scales[2], group, comptime!(0)) as f32);
        let least = (b.dmin as f32) * (six_bits(b.scales[1], b.scales[2], group, comptime!(4)) as f32);
        scale * (q as f32) - least
    }
}

/// A group's scale or minimum: six bits of `low`, or four bits of `high` from `nibble` and two of `low`.
#[device]
fn six_bits(low: u32, high: u32, group: u32, #[comptime] nibble: u32) -> u32 {
    let shift = (group & 3) * 8;
    let four = (high >> (shift + nibble)) & 15;
    let two = ((low >> shift) >> 6) & 3;
    select(group < 4, (low >> shift) & 63, four | (two << 4))
}

/// A large card's tile, and one that a quick test runs whole.
const SHAPES: [Cm2Shape; 2] = [
    Cm2Shape { tile: [128, 128, 64], invocations: 256, four: false },
    Cm2Shape { tile: [32, 64, 64], invocations: 128, four: false },
];

/// The variants.
pub fn variants() -> Vec<Variant> {
    SHAPES.iter().flat_map(|&s| [variant::<Q8File, Q8_0>(s), variant::<Q4KFile, Q4K>(s)]).collect()
}

fn variant<F: QuantFormat, H: Format>(shape: Cm2Shape) -> Variant {
    Variant::new("gemm", GemmCm2::<F>::new(shape), move || cases::<F, H>(shape))
}

/// One tile and several, edges along every axis.
fn cases<F: QuantFormat, H: Format>(shape: Cm2Shape) -> Vec<Case> {
    let [n, m, k] = shape.tile;
    let block = F::BLK.next_multiple_of(k);
    [(n, m, block), (n + 3, m + 5, block), (1, 7, F::BLK)].map(|size| case::<F, H>(shape, size)).into()
}

fn case<F: QuantFormat, H: Format>(shape: Cm2Shape, (n, m, k): (u32, u32, u32)) -> Case {
    let mut random = Random::new(u64::from(n) << 40 | u64::from(m) << 20 | u64::from(k));
    let (x, x_bytes) = halves(&mut random, n * k);
    let (blocks, w) = crate::conformance::random_blocks::<H>(&mut random, (m * k) as usize);
    let w: Vec<f32> = w.into_iter().map(|w| f16::from_f32(w).to_f32()).collect();
    // Sums that are cut off rather than rounded err twice as much.
    let expected = reference::product(&w, &x, k as usize, 2 * k);
    Case {
        name: format!("n = {n}, m = {m}, k = {k}"),
        buffers: vec![Buffer::Input(x_bytes), Buffer::Input(blocks), Buffer::Output(4 * (n * m) as usize)],
        expected: vec![expected.at(2)],
        bind: Box::new(move |r| {
            let (x, w, y) = (r[0].into(), r[1].into(), r[2].into());
            GemmCm2::<F>::new(shape).bind(&GemmCm2Args { x, w, y, p: GemmPush { n, m, k } })
        }),
    }
}
