//! f16 factors, f32 sums.

use kiln_abi::Kernel;
use kiln_dsl::prelude::*;

use super::{
    KhrShape, Schedule,
    choice::plain_shape,
    khr::{GemmKhr, GemmKhrArgs, GemmPush},
};
use crate::{
    Variant,
    conformance::{Buffer, Case, Random},
    reference,
};

/// The kernel on f16.
pub type GemmF16 = GemmKhr<f16, f32, Vec4<u32>>;

const SLICED: Schedule = Schedule { slices: 2, across: true, ..Schedule::PLAIN };
const EAGER: Schedule = Schedule { across: true, eager: true, ..Schedule::PLAIN };

/// The shapes of a large card, for many tiles and for few, and of a CPU driver's matrices.
fn shapes() -> [KhrShape; 5] {
    [
        plain_shape(false, [512, 12288]),
        plain_shape(false, [512, 4096]),
        KhrShape::NARROW,
        KhrShape { tile: [32, 16, 32], ..KhrShape::NARROW.on(SLICED) },
        KhrShape::NARROW.on(EAGER),
    ]
}

/// The variants.
pub fn variants() -> Vec<Variant> {
    shapes().map(|s| Variant::lazy("gemm", GemmF16::new(s), move || cases(s))).into()
}

/// One tile and several, edges along every axis, rows of y that do not start at 16 bytes; many slabs and a part of one.
fn cases(shape: KhrShape) -> impl Iterator<Item = Case> {
    let [n, m, k] = shape.tile;
    let mut shapes = vec![(n, m, 2 * k), (n + 3, m + 4, k + 8), (1, 5, 8), (n, m + 2, k)];
    if shape.schedule.slices > 1 || shape.lanes < 32 {
        shapes.push((n, m, 5 * k + 8));
    }
    shapes.into_iter().map(move |size| case(shape, size))
}

fn case(shape: KhrShape, (n, m, k): (u32, u32, u32)) -> Case {
    let mut random = Random::new(u64::from(n) << 40 | u64::from(m) << 20 | u64::from(k));
    let (x, x_bytes) = halves(&mut random, n * k);
    let (w, w_bytes) = halves(&mut random, m * k);
    // Sums that are cut off rather than rounded err twice as much.
    let expected = reference::product(&w, &x, k as usize, 2 * k).at(2);
    Case {
        name: format!("n = {n}, m = {m}, k = {k}"),
        buffers: vec![Buffer::Input(x_bytes), Buffer::Input(w_bytes), Buffer::Output(4 * (n * m) as usize)],
        expected: vec![expected],
        bind: Box::new(move |r| {
            let (x, w, y) = (r[0].into(), r[1].into(), r[2].into());
            GemmF16::new(shape).bind(&GemmKhrArgs { x, w, y, p: GemmPush { n, m, k } })
        }),
    }
}

/// Random numbers of -1..1 that f16 holds, and their bytes.
pub(crate) fn halves(random: &mut Random, n: u32) -> (Vec<f32>, Vec<u8>) {
    let halves: Vec<f16> = (0..n).map(|_| f16::from_f32(random.unit())).collect();
    let bytes = halves.iter().flat_map(|h| h.to_le_bytes()).collect();
    (halves.into_iter().map(f16::to_f32).collect(), bytes)
}
