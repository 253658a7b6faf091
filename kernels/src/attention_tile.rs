//! `y[r, h] = Σ_i softmax_i(scale · q[r, h] · k[h / g, i]) · v[h / g, i]` for a window of rows, on matrices of a workgroup.
//!
//! Source: as [`crate::attention`]; Dao, arXiv:2307.08691, algorithm 1. Row r stands at position `first + r` and sees the
//! positions 0..=first + r; with a gate, `y[r, h]` is multiplied by `sigmoid(gate[r, h])`.
//! Shapes: q `[n_q, n_head, head_dim]` f16, k and v `[n_head_kv, n_k, head_dim]` f16, gate and y as q, f32; g = n_head / n_head_kv.
//! Who owns what: a workgroup owns (rows of a tile, a head) and walks the keys a tile at a time; scores, weights, running
//! maximum, running total and sums are matrices that it holds, the statistics of a row once for each column.
//! Traffic: a tile's rows of q and y once, keys and values once for each tile of rows.
//! Numerics: f16 factors, f32 sums; weights are rounded to f16; the order depends on the position and the tile alone.
//! A row that sees nothing cannot be: it sees its own position. Rows past the last compute and are not stored.

use std::fmt;

use kiln_abi::{Kernel, spirv::ClampMode};
use kiln_dsl::{
    prelude::*,
    through::{Largest, PerElement, Sum, as_factor, each, layout, map, reduce_rows, store_tensor, view},
};

use crate::{
    Variant,
    conformance::{Buffer, Case, F16_ROUNDOFF, F32_ROUNDOFF, Random, f32_bytes, gamma},
    gemm::halves,
    reference::{self, Bounded},
    step::StepRow,
};

/// Push constants of [`AttentionTile`].
#[derive(Clone, Copy, Debug, Push)]
pub struct AttentionTilePush {
    /// Rows.
    pub n_q: u32,
    /// Positions that have a key; a row past them sees them all.
    pub n_k: u32,
    /// Query heads.
    pub n_head: u32,
    /// Heads of keys and values.
    pub n_head_kv: u32,
    /// Position of row 0, at most `n_k - 1`.
    pub first: u32,
    /// Scores are multiplied by this.
    pub scale: f32,
}

/// How a workgroup cuts rows and keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AttentionCut {
    /// Rows at once.
    pub rows: u32,
    /// Keys at once.
    pub keys: u32,
    /// Width of a head.
    pub head_dim: u32,
    /// Invocations of the workgroup.
    pub invocations: u32,
    /// Whether the result is gated.
    pub gated: bool,
}

/// `64x64 of 128, 128 invocations, gated`
impl fmt::Debug for AttentionCut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AttentionCut { rows, keys, head_dim, invocations, gated } = self;
        let gated = if *gated { ", gated" } else { "" };
        write!(f, "{rows}x{keys} of {head_dim}, {invocations} invocations{gated}")
    }
}

/// Half the smallest f16.
const F16_SMALLEST: f64 = 1.0 / 33_554_432.0;
/// A score that no position has: its weight is zero.
const UNSEEN: f32 = -1.0e30;

/// The kernel.
#[kernel(local_size = t.invocations, grid = [p.n_q.div_ceil(t.rows), p.n_head])]
pub fn attention_tile(
    #[len(p.n_q * p.n_head * t.head_dim)] q: &Buf<f16>,
    #[len(p.n_head_kv * p.n_k * t.head_dim)] k: &Buf<f16>,
    #[len(p.n_head_kv * p.n_k * t.head_dim)] v: &Buf<f16>,
    #[when(t.gated)]
    #[len(p.n_q * p.n_head * t.head_dim)]
    gate: &Buf<f32>,
    #[len(p.n_q * p.n_head * t.head_dim)] y: &BufMut<f32>,
    #[push] p: AttentionTilePush,
    #[comptime] t: AttentionCut,
) {
    dims!(R = t.rows, C = t.keys, H = t.head_dim);
    let (n_rows, n_keys, width) = (comptime!(t.rows), comptime!(t.keys), comptime!(t.head_dim));
    let (r0, head) = (workgroup_id_x() * n_rows, workgroup_id_y());
    let head_kv = head / (p.n_head / p.n_head_kv);
    let own = layout((p.n_q, p.n_head, width), comptime!(ClampMode::Constant))
        .slice((r0, n_rows, head, 1, 0, width));
    let lines = layout((p.n_head_kv, p.n_k, width), comptime!(ClampMode::Constant));

    let query = Tile::<f16, MatA, Wg, R, H>::load_tensor(q, own);
    let mut sums = Tile::<f32, Acc, Wg, R, H>::zero();
    let mut highest = Tile::<f32, Acc, Wg, R, C>::fill(UNSEEN);
    let mut total = Tile::<f32, Acc, Wg, R, C>::zero();
    for j in (0..min(p.n_k, p.first + r0 + n_rows)).step_by(n_keys) {
        let those = lines.slice((head_kv, 1, j, n_keys, 0, width));
        let keys = Tile::<f16, MatB, Wg, H, C>::load_view(k, those, view(comptime!(&[0, 2, 1])));
        let products = mul_add(query, keys, Tile::<f32, Acc, Wg, R, C>::zero());
        let scores = map::<Seen, _, _, _, _, _, _>(products, (j, p.first + r0, p.n_k, p.scale));
        let largest = reduce_rows::<Largest, _, _, _, _, C>(scores);
        let now = map::<Larger, _, _, _, _, _, _>(highest, (each(largest),));
        let weights = map::<Weight, _, _, _, _, _, _>(scores, (each(now),));
        let fade = map::<Weight, _, _, _, _, _, _>(highest, (each(now),));
        total = fade * total + reduce_rows::<Sum, _, _, _, _, C>(weights);
        let values = Tile::<f16, MatB, Wg, C, H>::load_tensor(v, those);
        let factor = as_factor::<f16, MatA, _, _, _, _>(weights);
        sums = mul_add(factor, values, reduce_rows::<Largest, _, _, _, _, H>(fade) * sums);
        highest = now;
    }
    let share = map::<Inverse, _, _, _, _, _, _>(total, ());
    let result = reduce_rows::<Largest, _, _, _, _, H>(share) * sums;
    if comptime!(t.gated) {
        let gates = Tile::<f32, Acc, Wg, R, H>::load_tensor(gate, own);
        store_tensor(map::<Gated, _, _, _, _, _, _>(result, (each(gates),)), y, own);
    } else {
        store_tensor(result, y, own);
    }
}

/// A product as a score, where the row sees the key: first key, first row's position, number of keys, scale.
struct Seen;
#[device]
impl PerElement<f32, (Ex<u32>, Ex<u32>, Ex<u32>, Ex<f32>)> for Seen {
    fn element(row: u32, column: u32, value: f32, extra: (u32, u32, u32, f32)) -> f32 {
        let key = extra.0 + column;
        let seen = key <= extra.1 + row && key < extra.2;
        select(seen, value * extra.3, UNSEEN)
    }
}

/// The larger of two.
struct Larger;
#[device]
impl PerElement<f32, (Ex<f32>,)> for Larger {
    fn element(_row: u32, _column: u32, value: f32, extra: (f32,)) -> f32 {
        max(value, extra.0)
    }
}

/// A score's weight, beside the highest score.
struct Weight;
#[device]
impl PerElement<f32, (Ex<f32>,)> for Weight {
    fn element(_row: u32, _column: u32, value: f32, extra: (f32,)) -> f32 {
        exp(value - extra.0)
    }
}

/// One over it.
struct Inverse;
#[device]
impl PerElement<f32, ()> for Inverse {
    fn element(_row: u32, _column: u32, value: f32, _extra: ()) -> f32 {
        1.0 / value
    }
}

/// Times the gate's sigmoid.
struct Gated;
#[device]
impl PerElement<f32, (Ex<f32>,)> for Gated {
    fn element(_row: u32, _column: u32, value: f32, extra: (f32,)) -> f32 {
        value / (1.0 + exp(-extra.0))
    }
}

/// Heads of 64, 128 and 256.
const CUTS: [AttentionCut; 4] = [
    AttentionCut { rows: 64, keys: 64, head_dim: 64, invocations: 128, gated: false },
    AttentionCut { rows: 64, keys: 64, head_dim: 64, invocations: 128, gated: true },
    AttentionCut { rows: 32, keys: 32, head_dim: 128, invocations: 128, gated: false },
    AttentionCut { rows: 32, keys: 32, head_dim: 256, invocations: 128, gated: true },
];

/// The variants.
pub fn variants() -> Vec<Variant> {
    CUTS.map(|t| Variant::lazy("attention", AttentionTile::new(t), move || cases(t))).into()
}

/// One row; a tile of rows exactly; rows and keys that no tile divides, behind keys that were there before; rows past the
/// last key.
fn cases(t: AttentionCut) -> impl Iterator<Item = Case> {
    let AttentionCut { rows, keys, .. } = t;
    let past = 3;
    let shapes = [
        (1, 0, 0, 1, 1),
        (rows, 0, 0, 2, 1),
        (rows + 3, keys + 5, 0, 4, 2),
        (past + 2, keys + 5, past, 2, 1),
    ];
    shapes.into_iter().map(move |(n_q, first, past, n_head, n_head_kv)| {
        let n_k = first + n_q - past;
        case(t, AttentionTilePush { n_q, n_k, n_head, n_head_kv, first, scale: 0.25 })
    })
}

fn case(t: AttentionCut, p: AttentionTilePush) -> Case {
    let AttentionTilePush { n_q, n_k, n_head, n_head_kv, first, scale } = p;
    let mut random = Random::new(u64::from(n_q) << 32 | u64::from(t.head_dim));
    let (q, q_bytes) = halves(&mut random, n_q * n_head * t.head_dim);
    let (k, k_bytes) = halves(&mut random, n_head_kv * n_k * t.head_dim);
    let (v, v_bytes) = halves(&mut random, n_head_kv * n_k * t.head_dim);
    let gate: Vec<f32> = q.iter().map(|_| 4.0 * random.unit()).collect();
    // A row past the last key sees what the last key's own row does.
    let position = |r: u32| (first + r).min(n_k - 1);
    let rows: Vec<StepRow> = (0..n_q).map(|r| StepRow { token: 0, position: position(r), slot: 0 }).collect();
    let shape = reference::AttentionShape {
        n_head: n_head as usize,
        n_head_kv: n_head_kv as usize,
        head_dim: t.head_dim as usize,
        window: None,
        scale,
        soft_cap: None,
        mixed: false,
    };
    let line = |_slot, position, head| head * n_k as usize + position;
    let mut exact = reference::attention(&q, (&k, &v), &rows, shape, line);
    round_weights(&mut exact, n_k, t);
    if t.gated {
        gate_by(&mut exact, &gate);
    }
    let inputs = [q_bytes, k_bytes, v_bytes].into_iter().chain(t.gated.then(|| f32_bytes(&gate)));
    let mut buffers: Vec<Buffer> = inputs.map(Buffer::Input).collect();
    buffers.push(Buffer::Output(4 * q.len()));
    let output = buffers.len() - 1;
    Case {
        name: format!("n_q = {n_q}, n_k = {n_k}, first = {first}, {n_head} heads on {n_head_kv}"),
        buffers,
        expected: vec![exact.at(output)],
        bind: Box::new(move |r| {
            let gate = t.gated.then(|| r[3].into());
            let (q, k, v, y) = (r[0].into(), r[1].into(), r[2].into(), r[output].into());
            AttentionTile::new(t).bind(&AttentionTileArgs { q, k, v, gate, y, p })
        }),
    }
}

/// Weights rounded to f16, values being -1..1: a share of each, and small ones wholly, of a total of 1 or more. Every
/// tile of keys rounds the sums and the total a few times more.
fn round_weights(exact: &mut Bounded, n_k: u32, t: AttentionCut) {
    let lost = f64::from(n_k) * F16_SMALLEST;
    let rounding = F16_ROUNDOFF + lost + gamma(4 * n_k.div_ceil(t.keys) + 4, F32_ROUNDOFF);
    exact.bounds.iter_mut().for_each(|bound| *bound += rounding);
}

/// Times the gate's sigmoid; the exponential may be off by 3 + 2|z| ulp, sum and quotient by 6.
fn gate_by(exact: &mut Bounded, gate: &[f32]) {
    for ((value, bound), gate) in exact.values.iter_mut().zip(&mut exact.bounds).zip(gate) {
        let sigmoid = 1.0 / (1.0 + (-f64::from(*gate)).exp());
        let roundings = 12 + (4.0 * f64::from(*gate).abs()).ceil() as u32;
        *value *= sigmoid;
        *bound = *bound * sigmoid + value.abs() * gamma(roundings, F32_ROUNDOFF);
    }
}
