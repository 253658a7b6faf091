//! A norm whose scale comes late, of whole rows of a step: `s = x`, or `x + b`, as f32; blocks of `w · s`; and the sum of
//! squares of every 32 elements of s, which the products with the blocks make the scale of.
//!
//! Source: as [`crate::rms_norm`]. Shapes: x, b, s `[rows, n]`, w `[n]`, squares `[rows, n / 32]`, all f32; q as
//! [`crate::activations`]. An invocation owns four elements. Traffic: each operand once, memory-bound.
//! Numerics: as [`crate::arms::ends`]; the same bits as a product that ends with the sum.

use kiln_abi::Kernel;
use kiln_dsl::prelude::*;

use crate::{
    Variant,
    activations::{self, BLOCK, FIELDS, Planes, put_len},
    arms::ends::put_late,
    conformance::{Buffer, Case, Content, Expected, Random, f32_bytes, plain_step},
    gemv::SUBGROUP,
    reference::{self, Bounded},
    step::is_beyond,
};

/// Push constants of `late_norm`.
#[derive(Clone, Copy, Debug, Push)]
pub struct LateNormPush {
    /// Rows that the command has room for.
    pub rows: u32,
    /// Elements of a row, a multiple of 32.
    pub n: u32,
}

const LOCAL_SIZE: u32 = 256;

/// The kernel.
#[kernel(local_size = LOCAL_SIZE, subgroup = subgroup, grid = [(p.n / 4).div_ceil(LOCAL_SIZE), p.rows])]
pub fn late_norm(
    #[len(p.rows * (p.n / 4))] x: &Buf<Vec4<f32>>,
    #[when(add)]
    #[len(p.rows * (p.n / 4))]
    b: &Buf<Vec4<f32>>,
    #[weight]
    #[len(p.n / 4)]
    w: &Buf<Vec4<f32>>,
    #[len(4 + 4 * p.rows)] step: &Buf<u32>,
    #[when(add)]
    #[len(p.rows * (p.n / 4))]
    s: &BufMut<Vec4<f32>>,
    #[len(p.rows * (p.n / BLOCK) * FIELDS * 4)] q: &BufMut<u32>,
    #[len(p.rows * (p.n / BLOCK))] squares: &BufMut<f32>,
    #[push] p: LateNormPush,
    #[comptime] add: bool,
    #[comptime] subgroup: Option<u32>,
) {
    let r = workgroup_id_y();
    if is_beyond(&step, r, p.rows) {
        return;
    }
    let (fours, at) = (p.n / 4, global_id_x());
    let shared = Shared::<u32>::new(comptime!(put_len(LOCAL_SIZE, subgroup)));
    let own = min(at, fours - 1);
    let mut four = x[r * fours + own];
    let gain = w[own];
    if comptime!(add) {
        four = four + b[r * fours + own];
        if at < fours {
            s[r * fours + at] = four;
        }
    }
    put_late(four, gain, at, r, fours, &q, &squares, &shared, comptime!(subgroup));
}

/// One variant for each form and way to meet.
pub fn variants() -> Vec<Variant> {
    let ways = [(false, None), (true, None), (false, Some(SUBGROUP)), (true, Some(SUBGROUP))];
    let variant = |(add, subgroup)| {
        let shapes = [(1, 32), (3, 576), (2, 2048)];
        let cases = move || shapes.map(|shape| case((add, subgroup), shape)).into();
        Variant::new("late_norm", LateNorm::new(add, subgroup), cases)
    };
    ways.map(variant).into()
}

fn case((add, subgroup): (bool, Option<u32>), (rows, n): (u32, u32)) -> Case {
    let mut random = Random::new(u64::from(rows) << 32 | u64::from(n));
    let elems = (rows * n) as usize;
    let (x, b, w) = (random.units(elems), random.units(elems), random.units(n as usize));
    let exact = Bounded { values: x.iter().map(|x| f64::from(*x)).collect(), bounds: vec![0.0; elems] };
    let sum = if add { reference::add(&x, &b) } else { exact };
    let (blocks, squares) = late(&sum, &w);
    let mut buffers = vec![Buffer::Input(f32_bytes(&x))];
    buffers.extend(add.then(|| Buffer::Input(f32_bytes(&b))));
    buffers.extend([Buffer::Input(f32_bytes(&w)), Buffer::Input(plain_step(rows))]);
    let mut expected = Vec::new();
    if add {
        expected.push(sum.at(buffers.len()));
        buffers.push(Buffer::Output(4 * elems));
    }
    expected.push(Expected { binding: buffers.len(), content: blocks });
    let bytes = activations::row_bytes(Planes::Two, rows.into(), n);
    buffers.push(Buffer::Output(usize::try_from(bytes).unwrap_or(0)));
    expected.push(squares.at(buffers.len()));
    buffers.push(Buffer::Output(elems / 8));
    Case {
        name: format!("rows = {rows}, n = {n}"),
        buffers,
        expected,
        bind: Box::new(move |r| {
            let (first, last) = (if add { 2 } else { 1 }, r.len());
            LateNorm::new(add, subgroup).bind(&LateNormArgs {
                x: r[0].into(),
                b: add.then(|| r[1].into()),
                w: r[first].into(),
                step: r[first + 1].into(),
                s: add.then(|| r[first + 2].into()),
                q: r[last - 2].into(),
                squares: r[last - 1].into(),
                p: LateNormPush { rows, n },
            })
        }),
    }
}

/// What is left of rows of s, which are as long as w, for a norm whose scale comes late: blocks, and sums of squares.
pub(crate) fn late(s: &Bounded, w: &[f32]) -> (Content, Bounded) {
    let scaled = reference::scaled(s, w);
    let bounds = activations::with_steps(&scaled.values, &scaled.bounds);
    let blocks = Content::Blocks { k: w.len(), values: scaled.values, bounds };
    (blocks, reference::squares(s, BLOCK as usize))
}
