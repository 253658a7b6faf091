//! Rows of x as matrices of f16 take them: `y[r, j] = x[r, j]`, rounded.
//!
//! Shapes: x `[rows, k]` f32, y `[rows, k]` f16; k is a multiple of 8. An invocation owns eight elements of a row.
//! Traffic: 6 bytes per element. Numerics: one rounding; what is larger than every f16 becomes the largest.

use kiln_abi::{BufferRange, Kernel};
use kiln_dsl::prelude::*;

use crate::{
    Call, Variant,
    conformance::{Buffer, Case, Content, Expected, Random, f32_bytes, plain_step},
    step::n_rows,
};

/// Elements of a word.
const PER_WORD: u32 = 8;
const LOCAL_SIZE: u32 = 64;
/// The largest number of f16.
const LARGEST: f32 = 65504.0;

/// Push constants of `half_rows`.
#[derive(Clone, Copy, Debug, Push)]
pub struct HalfRowsPush {
    /// Rows that the command has room for.
    pub rows: u32,
    /// Elements of a row, a multiple of 8.
    pub k: u32,
}

/// The kernel.
#[kernel(local_size = LOCAL_SIZE, grid = [(p.k / PER_WORD).div_ceil(LOCAL_SIZE), p.rows])]
pub fn half_rows(
    #[len(p.rows * (p.k / 4))] x: &Buf<Vec4<f32>>,
    #[len(4 + 4 * p.rows)] step: &Buf<u32>,
    #[len(p.rows * (p.k / PER_WORD))] y: &BufMut<Vec4<u32>>,
    #[push] p: HalfRowsPush,
) {
    let r = workgroup_id_y();
    let i = global_id_x();
    let words = p.k / PER_WORD;
    if r < n_rows(&step) && i < words {
        let at = r * words + i;
        let (a, b) = (x[2 * at], x[2 * at + 1]);
        y[at] = vec4(half(a.x(), a.y()), half(a.z(), a.w()), half(b.x(), b.y()), half(b.z(), b.w()));
    }
}

/// Two numbers as a word.
#[device]
fn half(a: f32, b: f32) -> u32 {
    pack_half(vec2(clamp(a, -LARGEST, LARGEST), clamp(b, -LARGEST, LARGEST)))
}

/// Bytes of `rows` rows of `k` elements.
pub const fn row_bytes(rows: u64, k: u32) -> u64 {
    rows * 2 * k as u64
}

/// A launch.
pub fn call(x: BufferRange, step: BufferRange, y: BufferRange, p: HalfRowsPush) -> Call {
    Call::new(HalfRows::new(), &HalfRowsArgs { x: x.into(), step: step.into(), y: y.into(), p })
}

/// The kernel's one variant.
pub fn variants() -> Vec<Variant> {
    let cases = || [(1, 8), (3, 24), (2, 520)].map(case).into();
    vec![Variant::new("half_rows", HalfRows::new(), cases)]
}

/// Numbers that f16 holds, so that any rounding leaves them, among them what is too large for it.
fn case((rows, k): (u32, u32)) -> Case {
    let mut random = Random::new(u64::from(k));
    let halves: Vec<f16> = (0..rows * k).map(|_| f16::from_f32(random.unit())).collect();
    let mut x: Vec<f32> = halves.iter().map(|h| h.to_f32()).collect();
    let sizes = [1.0, 0.0, 1e6, 512.0];
    x.iter_mut().enumerate().for_each(|(i, x)| *x *= sizes[i % 4]);
    let bits = |x: &f32| f16::from_f32(f32::clamp(*x, -LARGEST, LARGEST)).to_bits();
    let words = x.chunks_exact(2).map(|p| u32::from(bits(&p[0])) | u32::from(bits(&p[1])) << 16).collect();
    Case {
        name: format!("rows = {rows}, k = {k}"),
        buffers: vec![
            Buffer::Input(f32_bytes(&x)),
            Buffer::Input(plain_step(rows)),
            Buffer::Output(2 * (rows * k) as usize),
        ],
        expected: vec![Expected { binding: 2, content: Content::Words(words) }],
        bind: Box::new(move |r| {
            let p = HalfRowsPush { rows, k };
            HalfRows::new().bind(&HalfRowsArgs { x: r[0].into(), step: r[1].into(), y: r[2].into(), p })
        }),
    }
}
