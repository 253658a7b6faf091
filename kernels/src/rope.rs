//! Rotates pairs of each head by its row's position: `(a, b) → (a·cos − b·sin, a·sin + b·cos)`.
//!
//! Source: Su et al., arXiv:2104.09864, equation 34. Pairs are elements 2j and 2j + 1, or j and j + n_rot / 2.
//! Shapes: x, y `[rows, n_heads · head_dim]` f32; angles `[n_ctx, n_rot / 2]` of (cos, sin), computed on the host in
//! f64. Elements past n_rot of a head pass. An invocation owns a pair.
//! Traffic: 8 bytes per output and the angles, memory-bound. Numerics: f32, two products and a sum each.

use kiln_abi::Kernel;
use kiln_dsl::prelude::*;

use crate::{
    Variant,
    conformance::{Buffer, Case, Random, f32_bytes, u32_bytes},
    reference,
    step::{StepRow, n_rows, row_position, step_block},
};

/// Push constants of `rope`.
#[derive(Clone, Copy, Debug, Push)]
pub struct RopePush {
    /// Rows that the command has room for.
    pub rows: u32,
    /// Elements of a row: heads times their width.
    pub n: u32,
    /// Width of a head.
    pub head_dim: u32,
    /// Elements of a head that rotate.
    pub n_rot: u32,
    /// Positions that have angles.
    pub n_ctx: u32,
}

const LOCAL_SIZE: u32 = 64;

/// The kernel.
#[kernel(local_size = LOCAL_SIZE, grid = [(p.n / 2).div_ceil(LOCAL_SIZE), p.rows])]
pub fn rope(
    #[len(p.rows * p.n)] x: &Buf<f32>,
    #[len(p.n_ctx * (p.n_rot / 2))] angles: &Buf<Vec2<f32>>,
    #[len(4 + 4 * p.rows)] step: &Buf<u32>,
    #[len(p.rows * p.n)] y: &BufMut<f32>,
    #[push] p: RopePush,
    #[comptime] halves: bool,
) {
    let r = workgroup_id_y();
    let pair = global_id_x();
    if r < n_rows(&step) && pair < p.n / 2 {
        let half = p.head_dim / 2;
        let head = r * p.n + (pair / half) * p.head_dim;
        let j = pair % half;
        if j < p.n_rot / 2 {
            let angle = angles[row_position(&step, r) * (p.n_rot / 2) + j];
            let a = head + if halves { j } else { 2 * j };
            let b = a + if halves { p.n_rot / 2 } else { 1 };
            let (xa, xb) = (x[a], x[b]);
            y[a] = xa * angle.x() - xb * angle.y();
            y[b] = xa * angle.y() + xb * angle.x();
        } else {
            y[head + 2 * j] = x[head + 2 * j];
            y[head + 2 * j + 1] = x[head + 2 * j + 1];
        }
    }
}

/// One variant for each pairing.
pub fn variants() -> Vec<Variant> {
    let variant = |halves| {
        let cases = move || [(1, 1, 2, 2), (3, 2, 64, 64), (2, 3, 10, 6)].map(|s| case(halves, s)).into();
        Variant::new("rope", Rope::new(halves), cases)
    };
    vec![variant(false), variant(true)]
}

fn case(halves: bool, (rows, n_heads, head_dim, n_rot): (u32, u32, u32, u32)) -> Case {
    const N_CTX: u32 = 9;
    let mut random = Random::new(u64::from(n_heads) << 32 | u64::from(head_dim));
    let n = n_heads * head_dim;
    let x = random.units((rows * n) as usize);
    let angles = random.units((N_CTX * n_rot) as usize);
    let positions: Vec<u32> = (0..rows).map(|r| (r * 4 + 7) % N_CTX).collect();
    let lines: Vec<_> = positions.iter().map(|&position| StepRow { token: 0, position, slot: 0 }).collect();
    let widths = (n as usize, head_dim as usize, n_rot as usize);
    Case {
        name: format!("rows = {rows}, n_heads = {n_heads}, head_dim = {head_dim}, n_rot = {n_rot}"),
        buffers: vec![
            Buffer::Input(f32_bytes(&x)),
            Buffer::Input(f32_bytes(&angles)),
            Buffer::Input(u32_bytes(&step_block(&lines, &[], rows))),
            Buffer::Output(4 * x.len()),
        ],
        expected: vec![reference::rope(&x, &angles, &positions, widths, halves).at(3)],
        bind: Box::new(move |r| {
            let (x, angles, step, y) = (r[0].into(), r[1].into(), r[2].into(), r[3].into());
            let p = RopePush { rows, n, head_dim, n_rot, n_ctx: N_CTX };
            Rope::new(halves).bind(&RopeArgs { x, angles, step, y, p })
        }),
    }
}
