//! `y[r, i] = w[i] · s[r, i] / √(mean_j(s[r, j]²) + eps)` for whole rows of a step, where s is what the norm reads: x, or
//! `x + b`, or `x + norm(b)` with a gain g of its own. One launch gives the sum and the normed rows, as f32, as blocks
//! of integers, or both.
//!
//! Source: as [`crate::rms_norm`]. Shapes: x, b, s, y `[rows, n]`, g, w `[n]`, all f32; q as [`crate::activations`].
//! A workgroup owns a row; invocation t has elements 4 t to 4 t + 3, 4 (t + local) and on, and keeps them in registers.
//! Traffic: each operand once, memory-bound.
//! Numerics: f32 throughout; the order of the sum depends on n and the workgroup alone, so every subgroup size gives the same bits.

use std::fmt;

use kiln_abi::Kernel;
use kiln_dsl::prelude::*;

use crate::{
    Variant,
    activations::{self, BLOCK, FIELDS, Planes, put_four, put_len},
    conformance::{Buffer, Case, Content, Expected, Random, f32_bytes, plain_step},
    fold::{fold_all, fold_all_len},
    gemv::SUBGROUP,
    reference::{self, Bounded},
    step::n_rows,
};

/// What is read and what is made: comptime.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct NormForm {
    /// b is added to x, and the sum is made.
    pub add: bool,
    /// b is normed before it is added.
    pub post: bool,
    /// The normed rows are made as f32.
    pub rows: bool,
    /// The normed rows are made as blocks.
    pub blocks: bool,
}

impl fmt::Debug for NormForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [(self.post, "post"), (self.add, "add"), (self.rows, "rows"), (self.blocks, "blocks")];
        let words: Vec<_> = words.into_iter().filter_map(|(on, word)| on.then_some(word)).collect();
        write!(f, "{}", words.join("+"))
    }
}

/// Push constants of `norm`.
#[derive(Clone, Copy, Debug, Push)]
pub struct NormPush {
    /// Rows that the command has room for.
    pub rows: u32,
    /// Elements of a row, a multiple of 4, and of 32 where blocks are made.
    pub n: u32,
    /// Added to the mean squares.
    pub eps: f32,
}

/// Invocations of a workgroup that every device has.
const LOCAL_SIZE: u32 = 256;

/// Invocations for rows of `n` where a workgroup may have `most`, and the fours that each owns.
pub const fn cut(n: u32, most: u32) -> (u32, u32) {
    let mut local = LOCAL_SIZE;
    while local < n / 4 && 2 * local <= most && local < 1024 {
        local *= 2;
    }
    (local, n.div_ceil(4 * local))
}

/// The kernel.
#[kernel(local_size = local, subgroup = subgroup, invocations = local, grid = p.rows)]
pub fn norm(
    #[len(p.rows * (p.n / 4))] x: &Buf<Vec4<f32>>,
    #[when(form.add)]
    #[len(p.rows * (p.n / 4))]
    b: &Buf<Vec4<f32>>,
    #[weight]
    #[when(form.post)]
    #[len(p.n / 4)]
    g: &Buf<Vec4<f32>>,
    #[weight]
    #[len(p.n / 4)]
    w: &Buf<Vec4<f32>>,
    #[len(4 + 4 * p.rows)] step: &Buf<u32>,
    #[when(form.add)]
    #[len(p.rows * (p.n / 4))]
    s: &BufMut<Vec4<f32>>,
    #[when(form.rows)]
    #[len(p.rows * (p.n / 4))]
    y: &BufMut<Vec4<f32>>,
    #[when(form.blocks)]
    #[len(p.rows * (p.n / BLOCK) * FIELDS * 4)]
    q: &BufMut<u32>,
    #[push] p: NormPush,
    #[comptime] form: NormForm,
    #[comptime] local: u32,
    #[comptime] each: u32,
    #[comptime] subgroup: Option<u32>,
) {
    let r = workgroup_id_x();
    // A single row is there in every step: nobody waits for the count.
    if p.rows > 1 {
        if r >= n_rows(&step) {
            return;
        }
    }
    let (t, fours) = (local_id(), p.n / 4);
    let first = r * fours;
    let partial = Shared::<f32>::new(comptime!(fold_all_len(local, subgroup)));
    // Everything is asked for before any of it is used.
    let mut v = [splat::<Vec4<f32>>(0.0); each];
    let mut gains = [splat::<Vec4<f32>>(0.0); each];
    for i in comptime!(0..each) {
        v[i] = x[first + min(t + i * local, fours - 1)];
        gains[i] = w[min(t + i * local, fours - 1)];
    }
    if comptime!(form.add) {
        let mut added = [splat::<Vec4<f32>>(0.0); each];
        for i in comptime!(0..each) {
            added[i] = b[first + min(t + i * local, fours - 1)];
        }
        if comptime!(form.post) {
            let mut posts = [splat::<Vec4<f32>>(0.0); each];
            for i in comptime!(0..each) {
                posts[i] = g[min(t + i * local, fours - 1)];
            }
            let mut squares = 0.0;
            for i in comptime!(0..each) {
                squares += select(t + i * local < fours, square(added[i]), 0.0);
            }
            let sum = fold_all(squares, &partial, t, comptime!(local), comptime!(subgroup));
            let scale = inverse_sqrt(sum / (p.n as f32) + p.eps);
            for i in comptime!(0..each) {
                let four = added[i];
                added[i] = four * splat::<Vec4<f32>>(scale) * posts[i];
            }
        }
        for i in comptime!(0..each) {
            let four = v[i] + added[i];
            v[i] = four;
            if t + i * local < fours {
                s[first + t + i * local] = four;
            }
        }
    }
    let mut squares = 0.0;
    for i in comptime!(0..each) {
        squares += select(t + i * local < fours, square(v[i]), 0.0);
    }
    let sum = fold_all(squares, &partial, t, comptime!(local), comptime!(subgroup));
    let scale = inverse_sqrt(sum / (p.n as f32) + p.eps);
    let shared = Shared::<u32>::new(comptime!(if form.blocks { put_len(local, subgroup) } else { 1 }));
    for i in comptime!(0..each) {
        let at = t + i * local;
        let four = v[i] * splat::<Vec4<f32>>(scale) * gains[i];
        if comptime!(form.rows) {
            if at < fours {
                y[first + at] = four;
            }
        }
        if comptime!(form.blocks) {
            put_four(four, at, r, fours, &q, &shared, comptime!(Planes::Two), comptime!(subgroup));
        }
    }
}

/// The sum of the squares of four elements.
#[device]
pub(crate) fn square(v: Vec4<f32>) -> f32 {
    let (low, high) = (fma(v.y(), v.y(), v.x() * v.x()), fma(v.w(), v.w(), v.z() * v.z()));
    low + high
}

/// Every form that a plan uses.
pub fn forms() -> Vec<NormForm> {
    let makes = [(true, false), (false, true), (true, true)];
    let reads = [(false, false), (true, false), (true, true)];
    let form = |(add, post), (rows, blocks)| NormForm { add, post, rows, blocks };
    reads.into_iter().flat_map(|reads| makes.map(|makes| form(reads, makes))).collect()
}

/// One variant for each form, and for each length of row and way to fold with the richest of them.
pub fn variants() -> Vec<Variant> {
    let rich = NormForm { add: true, post: true, rows: true, blocks: true };
    let plain = forms().into_iter().map(|form| (form, (LOCAL_SIZE, 1), None));
    let others = [(256, 1), (256, 2), (512, 1), (1024, 2)].map(|cut| (rich, cut, Some(SUBGROUP)));
    let folded = [(256, 2), (1024, 1)].map(|cut| (rich, cut, None));
    let variant = |(form, (local, each), subgroup): (NormForm, (u32, u32), Option<u32>)| {
        // A row that needs so many, and shorter ones.
        let long = 4 * local * each - 32;
        let rows: &[(u32, u32)] =
            if (local, each) == (256, 1) { &[(1, 32), (3, 576), (2, 1024)] } else { &[(2, long)] };
        let odd = (!form.blocks && (local, each) == (256, 1)).then_some((2, 68));
        let shapes: Vec<(u32, u32)> = rows.iter().copied().chain(odd).collect();
        let cases =
            move || shapes.iter().map(|shape| case((form, (local, each), subgroup), *shape)).collect();
        Variant::new("norm", Norm::new(form, local, each, subgroup), cases)
    };
    plain.chain(others).chain(folded).map(variant).collect()
}

fn case((form, (local, each), subgroup): (NormForm, (u32, u32), Option<u32>), (rows, n): (u32, u32)) -> Case {
    const EPS: f32 = 1e-5;
    let mut random = Random::new(u64::from(rows) << 32 | u64::from(n));
    let elems = (rows * n) as usize;
    let (x, b) = (random.units(elems), random.units(elems));
    let (g, w) = (random.units(n as usize), random.units(n as usize));
    // An invocation's own sums, then the tree and the runs.
    let depth = 2 * each + 2 + 5 + local / 32;
    let Sums { sum, normed } = sums(&x, &b, &g, &w, form, EPS, depth);
    let mut buffers = vec![Buffer::Input(f32_bytes(&x))];
    buffers.extend(form.add.then(|| Buffer::Input(f32_bytes(&b))));
    buffers.extend(form.post.then(|| Buffer::Input(f32_bytes(&g))));
    buffers.extend([Buffer::Input(f32_bytes(&w)), Buffer::Input(plain_step(rows))]);
    let mut expected = Vec::new();
    if form.add {
        expected.push(sum.at(buffers.len()));
        buffers.push(Buffer::Output(4 * elems));
    }
    if form.rows {
        expected.push(normed.clone().at(buffers.len()));
        buffers.push(Buffer::Output(4 * elems));
    }
    if form.blocks {
        let Bounded { values, bounds } = normed;
        let bounds = activations::with_steps(&values, &bounds);
        let content = Content::Blocks { k: n as usize, values, bounds };
        expected.push(Expected { binding: buffers.len(), content });
        let bytes = activations::row_bytes(Planes::Two, rows.into(), n);
        buffers.push(Buffer::Output(usize::try_from(bytes).unwrap_or(0)));
    }
    Case {
        name: format!("rows = {rows}, n = {n}"),
        buffers,
        expected,
        bind: Box::new(move |r| {
            // In the order of the bindings, those that the form has.
            let has = [true, form.add, form.post, true, true, form.add, form.rows, form.blocks];
            let at = |i: usize| has[..i].iter().filter(|has| **has).count();
            let some = |i: usize| has[i].then(|| r[at(i)]);
            Norm::new(form, local, each, subgroup).bind(&NormArgs {
                x: r[0].into(),
                b: some(1).map(Into::into),
                g: some(2).map(Into::into),
                w: r[at(3)].into(),
                step: r[at(4)].into(),
                s: some(5).map(Into::into),
                y: some(6).map(Into::into),
                q: some(7).map(Into::into),
                p: NormPush { rows, n, eps: EPS },
            })
        }),
    }
}

/// What plain Rust expects of rows of whole length.
struct Sums {
    sum: Bounded,
    normed: Bounded,
}

fn sums(x: &[f32], b: &[f32], g: &[f32], w: &[f32], form: NormForm, eps: f32, depth: u32) -> Sums {
    let exact =
        |x: &[f32]| Bounded { values: x.iter().map(|x| f64::from(*x)).collect(), bounds: vec![0.0; x.len()] };
    let sum = match form {
        NormForm { post: true, .. } => reference::rms_norm(b, g, eps, depth).plus(x.iter().copied()),
        NormForm { add: true, .. } => reference::add(x, b),
        _ => exact(x),
    };
    let rounded: Vec<f32> = sum.values.iter().map(|v| *v as f32).collect();
    let normed = reference::rms_norm(&rounded, w, eps, depth);
    // What the sums may be off moves an element by itself, and all of a row by the norm of all.
    let normed = reference::moved(normed, &sum, w, eps);
    Sums { sum, normed }
}
