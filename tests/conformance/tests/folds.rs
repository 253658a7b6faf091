//! Sums of lanes that meet by shuffles, and in workgroup memory where several subgroups share a row, have the bits of
//! those that meet in workgroup memory alone: in forms of two matrices too, whose folds take the same memory in turn. What
//! a step has no rows for is not multiplied.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use kiln_abi::{BufferRange, Device, launch::launch_staged};
use kiln_kernels::{
    Registry,
    activations::{self, Planes},
    conformance::{Random, f32_bytes, plain_step, random_blocks, u32_bytes},
    formats::{Q4_0, layout::pack},
    gemv::{Activation, Arm, Form, GemvOperands, GemvPush, Tile},
};
use kiln_spirv_interp::{InterpOptions, Interpreter};

/// Rows and columns of W, rows of x.
const SHAPE: [u32; 3] = [5, 4096 + 512, 3];

/// The bits of y, by this tile and form.
fn product(tile: Tile, form: Form, planes: Planes) -> Vec<u8> {
    product_of(tile, form, planes, SHAPE)
}

/// The same of a shape of one's own.
fn product_of(tile: Tile, form: Form, planes: Planes, shape: [u32; 3]) -> Vec<u8> {
    launched(tile, form, Arm::Dot4(planes), shape, shape[2]).0
}

/// The same with room for `n` rows of x of which the step has some, and the instructions that it took.
fn launched(tile: Tile, form: Form, arm: Arm, [m, k, n]: [u32; 3], there: u32) -> (Vec<u8>, u64) {
    let registry = Registry::builtin();
    let row = registry.formats().find(|row| row.name == "Q4_0").unwrap();
    let device = Interpreter::new(InterpOptions { subgroup_size: 32, seed: 3, ..Default::default() });
    let mut random = Random::new(11);
    let mut matrix = || pack::<Q4_0>(&random_blocks::<Q4_0>(&mut random, (m * k) as usize).0);
    let (w, v) = (matrix(), matrix());
    let rows = random.units((n * k) as usize);
    let x = match arm {
        Arm::Float => f32_bytes(&rows),
        Arm::Dot4(planes) => {
            let blocks = rows.chunks_exact(k as usize).flat_map(|x| activations::quantize_row(planes, x).0);
            u32_bytes(&blocks.collect::<Vec<_>>())
        }
    };
    let mut step = plain_step(n);
    step[..4].copy_from_slice(&there.to_le_bytes());
    let filled = |data: &[u8]| {
        let (bytes, offset_bytes) = (data.len() as u64, 0);
        let buffer = device.allocate(bytes, "").unwrap();
        device.write(buffer, 0, data).unwrap();
        BufferRange { buffer, offset_bytes, bytes }
    };
    let y = filled(&vec![0; (4 * n * m) as usize]);
    let o = GemvOperands {
        w: filled(&w),
        v: form.glu.map(|_| filled(&v)),
        x: filled(&x),
        step: filled(&step),
        ids: None,
        bias: None,
        late: None,
        y,
        sum: None,
    };
    let units = m * (k / row.unit);
    let p = GemvPush { rows: n, m, k, units, first: 0, stride: m, used: 1, sharing: 1, eps: 0.0 };
    let call = (row.gemv.launch(arm))(o, p, tile, form);
    launch_staged(&device, &call.stage().unwrap(), &call.args).unwrap();
    let mut bits = vec![0; (4 * n * m) as usize];
    device.read(y.buffer, 0, &mut bits).unwrap();
    (bits, device.last_counters().instructions)
}

#[test]
fn lanes_of_several_subgroups_meet_with_the_bits_of_workgroup_memory() {
    let glu = Form { glu: Some(Activation::Silu), ..Form::default() };
    let (mut equal, mut other) = (0, 0);
    for (lanes, rows, cols, local) in [(128, 4, 1, 128), (64, 2, 1, 256), (64, 8, 8, 64), (128, 4, 8, 128)] {
        for form in [Form::default(), glu] {
            let planes = if lanes == 64 { Planes::One } else { Planes::Two };
            let tile = Tile {
                lanes,
                rows,
                cols,
                ahead: 0,
                rounds: 0,
                walk: 0,
                apart: false,
                local,
                copies: 1,
                subgroup: Some(32),
            };
            let shuffled = product(tile, form, planes);
            assert_eq!(shuffled, product(Tile { subgroup: None, ..tile }, form, planes), "{tile:?} {form:?}");
            equal += 1;
            // Fewer lanes add in another order.
            other += u32::from(shuffled != product(Tile { lanes: 32, rows: 4, ..tile }, form, planes));
        }
    }
    assert_eq!((equal, other), (8, 8));
}

#[test]
fn rows_of_a_known_length_have_the_bits_of_any() {
    let form = Form::default();
    let of = |tile, planes, k| product_of(tile, form, planes, [5, k, 2]);
    for (lanes, rounds, walk, planes) in [
        (128, 1, 0, Planes::Two),
        (64, 1, 0, Planes::One),
        (64, 2, 0, Planes::Two),
        (64, 2, 1, Planes::Two),
        (32, 4, 2, Planes::Two),
    ] {
        let any = Tile {
            lanes,
            rows: 4,
            cols: 1,
            ahead: 0,
            rounds: 0,
            walk: 0,
            apart: false,
            local: lanes,
            copies: 1,
            subgroup: Some(32),
        };
        let (told, k) = (Tile { rounds, walk, ..any }, lanes * rounds * 32);
        let bits = of(any, planes, k);
        assert_eq!(of(told, planes, k), bits, "{told:?}");
        assert_ne!(of(Tile { lanes: 16, ..any }, planes, k), bits, "fewer lanes add in another order");
        // It is not so long: nobody is told.
        assert_eq!(of(told, planes, k + 512), of(any, planes, k + 512), "{told:?}");
    }
}

/// What shares its step may not change a row's result.
#[test]
fn rounds_apart_have_the_bits_of_twice_the_lanes() {
    let form = Form::default();
    let of = |tile, k| product_of(tile, form, Planes::Two, [5, k, 3]);
    for (cols, subgroup) in [(1, Some(32)), (8, Some(32)), (8, None)] {
        let apart = Tile {
            lanes: 64,
            rows: 4,
            cols,
            ahead: 0,
            rounds: 0,
            walk: 0,
            apart: true,
            local: 128,
            copies: 1,
            subgroup,
        };
        for k in [4096, 4096 - 256] {
            let bits = of(Tile { lanes: 128, cols: 1, apart: false, ..apart }, k);
            assert_eq!(of(apart, k), bits, "{apart:?}");
            assert_ne!(of(Tile { apart: false, ..apart }, k), bits, "rounds of one sum add in another order");
        }
    }
}

/// Two rows have the bits that they have among eight, at half their work at most; rows that are not there stay as they were.
#[test]
fn columns_without_rows_are_left_out() {
    let tile = Tile {
        lanes: 64,
        rows: 4,
        cols: 8,
        ahead: 0,
        rounds: 0,
        walk: 0,
        apart: false,
        local: 128,
        copies: 1,
        subgroup: Some(32),
    };
    let shape = [8, 4096, 8];
    for arm in [Arm::Dot4(Planes::Two), Arm::Dot4(Planes::One), Arm::Float] {
        let of = |there| launched(tile, Form::default(), arm, shape, there);
        let (all, most) = of(8);
        for (there, share) in [(2, 0.5), (3, 0.75), (4, 0.75)] {
            let (some, took) = of(there);
            let own = 4 * (there * shape[0]) as usize;
            assert_eq!(some[..own], all[..own], "{arm:?}, {there} rows");
            assert!(some[own..].iter().all(|byte| *byte == 0), "{arm:?}, {there} rows");
            let part = took as f64 / most as f64;
            assert!(part < share, "{arm:?}: {there} rows take {part:.2} of what eight take");
        }
    }
}
