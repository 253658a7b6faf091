//! Signed bytes as factors, exact sums of 32 bits.

use kiln_abi::Kernel;
use kiln_dsl::prelude::*;

use super::{
    KhrShape, Schedule,
    choice::plain_shape,
    khr::{GemmKhr, GemmKhrArgs, GemmPush},
};
use crate::{
    Variant,
    conformance::{Buffer, Case, Content, Expected, Random},
};

/// The kernel on signed bytes, in words of 16 bytes.
pub type GemmS8 = GemmKhr<i8, i32, Vec4<u32>>;
/// The same in words of 8 bytes, for matrices of 8 columns.
pub type GemmS8Narrow = GemmKhr<i8, i32, Vec2<u32>>;

const EAGER: Schedule = Schedule { across: true, eager: true, ..Schedule::PLAIN };

/// The shapes of a large card, for many tiles and for few, and of a CPU driver's matrices.
pub fn variants() -> Vec<Variant> {
    let wide = |s: KhrShape| Variant::lazy("gemm", GemmS8::new(s), move || cases::<Vec4<u32>>(s));
    let narrow = |s: KhrShape| Variant::lazy("gemm", GemmS8Narrow::new(s), move || cases::<Vec2<u32>>(s));
    let large = [[512, 12288], [512, 4096]].map(|size| wide(plain_shape(true, size)));
    let small = [KhrShape::NARROW, KhrShape::NARROW.on(EAGER)].map(narrow);
    large.into_iter().chain(small).collect()
}

/// One tile and several, edges along every axis, rows of y that do not start at 16 bytes; many slabs and a part of one.
fn cases<V: Vector<Elem = u32> + tile::Carries<i8> + tile::Carries<i32>>(
    shape: KhrShape,
) -> impl Iterator<Item = Case> {
    let [n, m, k] = shape.tile;
    let mut shapes = vec![(n, m, 2 * k), (n + 3, m + 4, k + 16), (1, 5, 16), (n, m + 2, k)];
    if shape.schedule.slices > 1 || shape.lanes < 32 {
        shapes.push((n, m, 5 * k + 16));
    }
    shapes.into_iter().map(move |size| case::<V>(shape, size))
}

fn case<V: Vector<Elem = u32> + tile::Carries<i8> + tile::Carries<i32>>(
    shape: KhrShape,
    (n, m, k): (u32, u32, u32),
) -> Case {
    let mut random = Random::new(u64::from(n) << 40 | u64::from(m) << 20 | u64::from(k));
    let x = random.bytes((n * k) as usize);
    let w = random.bytes((m * k) as usize);
    Case {
        name: format!("n = {n}, m = {m}, k = {k}"),
        expected: vec![Expected { binding: 2, content: Content::Words(products(&x, &w, k as usize)) }],
        buffers: vec![Buffer::Input(x), Buffer::Input(w), Buffer::Output(4 * (n * m) as usize)],
        bind: Box::new(move |r| {
            let (x, w, y) = (r[0].into(), r[1].into(), r[2].into());
            GemmKhr::<i8, i32, V>::new(shape).bind(&GemmKhrArgs { x, w, y, p: GemmPush { n, m, k } })
        }),
    }
}

/// `x` times the transpose of `w`, row by row, as words.
fn products(x: &[u8], w: &[u8], k: usize) -> Vec<u32> {
    let signed = |b: &u8| i32::from(b.cast_signed());
    let dot = |x: &[u8], w: &[u8]| x.iter().zip(w).map(|(x, w)| signed(x) * signed(w)).sum::<i32>();
    let rows = x.chunks_exact(k);
    rows.flat_map(|x| w.chunks_exact(k).map(move |w| dot(x, w).cast_unsigned())).collect()
}
