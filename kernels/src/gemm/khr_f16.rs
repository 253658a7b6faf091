//! f16 factors, f32 sums.

use kiln_abi::Kernel;
use kiln_dsl::prelude::*;

use super::{
    KhrShape, Schedule,
    khr::{GemmKhr, GemmKhrArgs, GemmPush},
};
use crate::{
    Variant,
    conformance::{Buffer, Case, Random},
    reference,
};

/// The kernel on f16.
pub type GemmF16 = GemmKhr<f16, f32, Vec4<u32>>;

const WIDE: KhrShape = KhrShape {
    tile: [128, 128, 64],
    subgroups: [2, 4],
    matrix: [16, 16, 16],
    lanes: 32,
    schedule: Schedule::PLAIN,
};
const SLICED: Schedule = Schedule { slices: 2, ahead: 2, spread: true, early: true, ..Schedule::PLAIN };
const DOUBLE: Schedule = Schedule { buffers: 2, by_rows: true, ..Schedule::PLAIN };

/// The fastest shape of a large card, and one of a CPU driver's matrices; the schedules of the study on small tiles.
const SHAPES: [KhrShape; 6] = [
    WIDE,
    KhrShape::NARROW,
    KhrShape { tile: [64, 64, 64], subgroups: [2, 2], ..WIDE.on(SLICED) },
    KhrShape { tile: [64, 32, 32], subgroups: [2, 2], ..WIDE.on(DOUBLE) },
    KhrShape { tile: [32, 16, 32], ..KhrShape::NARROW.on(SLICED) },
    KhrShape::NARROW.on(DOUBLE),
];

/// The variants.
pub fn variants() -> Vec<Variant> {
    SHAPES.map(|s| Variant::new("gemm", GemmF16::new(s), move || cases(s))).into()
}

/// One tile and several, edges along every axis, rows of y that do not start at 16 bytes; many slabs and a part of one.
fn cases(shape: KhrShape) -> Vec<Case> {
    let [n, m, k] = shape.tile;
    let mut shapes = vec![(n, m, 2 * k), (n + 3, m + 4, k + 8), (1, 5, 8), (n, m + 2, k)];
    if shape.schedule != Schedule::PLAIN {
        shapes.push((n, m, 5 * k + 8));
    }
    shapes.into_iter().map(|size| case(shape, size)).collect()
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
