//! Which arm and tile a gemv gets: a table of formats, shapes and devices.

use std::collections::BTreeSet;

use kiln_abi::{
    DeviceCaps, DeviceKind, Limits, MatrixCaps, MatrixElem, MatrixProduct,
    spirv::{Capability, Scope},
};
use kiln_dsl::tensor::Plane;
use kiln_kernels::{
    Registry,
    activations::Planes,
    attention_khr, gemm,
    gemv::{Arm, Exact, Shape, Traits, choose, tiles},
    kv_type::KvType,
};

const DOT: Capability = Capability::DotProductInput4x8BitPacked;

/// A format with packed lanes and units of 16 bytes and a scale.
const PACKED: Traits = Traits {
    unit: 32,
    packed: true,
    first: Plane::unit(16),
    planes: 2,
    table: 0,
    others: 0,
    entry: 1,
    group: 32,
};

/// A device by what a choice looks at: subgroup sizes, and whether it has an integer dot product.
fn device(name: &str, subgroup_sizes: (u32, u32), dot: bool) -> DeviceCaps {
    let capabilities: BTreeSet<Capability> =
        Capability::ALL.iter().copied().filter(|c| dot || *c != DOT).collect();
    DeviceCaps {
        name: name.to_owned(),
        driver: String::new(),
        kind: DeviceKind::Other,
        capabilities,
        left_out: BTreeSet::new(),
        subgroup_size: subgroup_sizes.0,
        subgroup_sizes,
        matrix: MatrixCaps::default(),
        limits: Limits {
            max_invocations: 1024,
            max_local_size: [1024; 3],
            max_grid: [65535; 3],
            max_workgroup_bytes: 32768,
            max_push_bytes: 128,
            max_binding_bytes: 1 << 30,
            max_buffer_bytes: 1 << 30,
            max_allocation_bytes: 1 << 30,
            max_bindings: 16,
            binding_offset_alignment: 64,
        },
    }
}

fn shape(rows: u32, k: u32) -> Shape {
    Shape { rows, m: 4096, k, experts: false, exact: Exact::Two }
}

#[test]
fn every_device_and_shape_has_its_arm_and_tile() {
    use Arm::Float;
    let (two, one) = (Arm::Dot4(Planes::Two), Arm::Dot4(Planes::One));
    let desktop = device("subgroups of 32", (32, 32), true);
    let wide = device("subgroups of 64 and 32", (32, 64), true);
    let wide_alone = device("subgroups of 64 alone", (64, 64), true);
    let phone = device("a phone, subgroups of 16 alone", (16, 16), true);
    let plain_phone = device("a phone without a dot product", (16, 16), false);
    let cpu = device("a CPU driver, subgroups of 8", (8, 8), true);
    let old = device("no dot product", (32, 32), false);
    let experts = Shape { experts: true, ..shape(4, 4096) };
    let coarse = Shape { exact: Exact::One, ..shape(1, 4096) };
    let asked = Shape { exact: Exact::Float, ..shape(1, 4096) };
    // Elements of a unit, packed lanes, shape, device: arm, lanes, columns at once, subgroup of the fold.
    let table = [
        (32, true, shape(1, 4096), &desktop, (two, 128, 1, Some(32))),
        (32, true, shape(8, 4096), &desktop, (two, 128, 8, Some(32))),
        (32, true, shape(1, 576), &desktop, (two, 8, 1, Some(32))),
        (32, true, shape(1, 2048), &desktop, (two, 32, 1, Some(32))),
        (32, true, shape(1, 1024), &desktop, (two, 32, 1, Some(32))),
        (32, true, shape(1, 992), &desktop, (two, 8, 1, Some(32))),
        (32, true, experts, &desktop, (two, 128, 1, Some(32))),
        (32, true, coarse, &desktop, (one, 64, 1, Some(32))),
        (32, false, coarse, &desktop, (Float, 128, 1, Some(32))),
        (32, true, coarse, &old, (Float, 128, 1, Some(32))),
        (32, true, asked, &desktop, (Float, 128, 1, Some(32))),
        (32, false, shape(1, 4096), &desktop, (Float, 128, 1, Some(32))),
        (8, false, shape(1, 256), &desktop, (Float, 32, 1, Some(32))),
        (32, true, shape(1, 4096), &wide, (two, 128, 1, Some(32))),
        (32, true, shape(1, 4096), &wide_alone, (two, 128, 1, None)),
        (32, true, shape(1, 4096), &phone, (two, 128, 1, None)),
        (32, true, shape(3, 576), &phone, (two, 8, 8, None)),
        (32, true, shape(1, 4096), &plain_phone, (Float, 128, 1, None)),
        (32, true, shape(1, 576), &cpu, (two, 8, 1, None)),
        (32, false, shape(2, 576), &cpu, (Float, 8, 8, None)),
        (32, true, shape(1, 4096), &old, (Float, 128, 1, Some(32))),
    ];
    for (unit, packed, shape, caps, expected) in table {
        let choice = choose(Traits { unit, packed, ..PACKED }, shape, caps);
        let tile = choice.tile;
        let found = (choice.arm, tile.lanes, tile.cols, tile.subgroup);
        assert_eq!(found, expected, "{}, {shape:?}: {}", caps.name, choice.reason());
        assert!(!choice.why.is_empty() && !choice.how.is_empty());
    }
}

/// As the records 2026-11-29-h200-gemv-tiles and -gemv-ahead measured it.
#[test]
fn lanes_of_plain_weights_own_few_rows_and_ask_for_a_round_ahead_where_rows_of_x_are_several() {
    let desktop = device("subgroups of 32", (32, 32), true);
    let found = |first, packed, rows| {
        let first = Plane::unit(first);
        let traits = Traits { unit: 4, packed, first, planes: 1, ..PACKED };
        let shape = Shape { exact: Exact::Float, ..shape(rows, 4096) };
        let tile = choose(traits, shape, &desktop).tile;
        (tile.rows, tile.ahead, tile.local)
    };
    let (words, halves, packed) = ((16, false), (8, false), (8, true));
    let of = |(first, packed), rows| found(first, packed, rows);
    assert_eq!([of(words, 1), of(halves, 1), of(packed, 1)], [(1, 0, 256), (2, 0, 256), (4, 0, 128)]);
    assert_eq!([of(words, 8), of(halves, 8), of(packed, 8)], [(2, 1, 128), (4, 1, 128), (4, 0, 128)]);
}

#[test]
fn tables_and_rows_of_bytes_have_tiles_of_their_own() {
    let caps = device("any", (32, 32), true);
    let phone = DeviceCaps { limits: Limits { max_workgroup_bytes: 16384, ..caps.limits }, ..caps.clone() };
    let on = |caps, table, exact, rows| {
        let shape = Shape { exact, ..shape(rows, 4096) };
        let format = Traits { table, ..PACKED };
        let tile = choose(format, shape, caps).tile;
        (tile.lanes, tile.rows, tile.ahead, tile.local, tile.copies)
    };
    assert_eq!(on(&caps, 0, Exact::Two, 1), (128, 4, 0, 128, 1));
    assert_eq!(on(&caps, 0, Exact::Two, 8), (128, 4, 0, 128, 1));
    assert_eq!(on(&caps, 512, Exact::Two, 1), (64, 4, 1, 256, 8));
    assert_eq!(on(&caps, 256, Exact::Two, 1), (32, 2, 1, 256, 16));
    assert_eq!(on(&phone, 256, Exact::Two, 1), (32, 2, 1, 256, 1));
    assert_eq!(on(&caps, 256, Exact::Two, 8), (32, 4, 0, 64, 1));
    // A second table leaves the first its copies where a device has 32 KiB.
    let two = Traits { first: Plane::unit(8), planes: 3, table: 256, others: 256, ..PACKED };
    assert_eq!([&caps, &phone].map(|caps| choose(two, shape(1, 4096), caps).tile.copies), [16, 1]);
    assert_eq!(on(&caps, 0, Exact::One, 1), (64, 2, 0, 256, 1));
    assert_eq!(on(&caps, 0, Exact::One, 8), (64, 4, 0, 64, 1));
}

/// As the record 2026-11-30-h200-codebook measured it.
#[test]
fn tables_have_tiles_for_the_workgroups_of_a_launch_and_thin_units_are_read_ahead() {
    let caps = device("any", (32, 32), true);
    let on = |first, table, shape| {
        let tile = choose(Traits { first, table, ..PACKED }, shape, &caps).tile;
        (tile.lanes, tile.rows, tile.ahead, tile.local)
    };
    let of = |m, k| Shape { m, ..shape(1, k) };
    let experts = Shape { rows: 8, m: 768, experts: true, ..shape(8, 2048) };
    assert_eq!(on(Plane::unit(16), 256, of(12288, 4096)), (32, 4, 1, 256));
    assert_eq!(on(Plane::unit(16), 256, of(4096, 4096)), (32, 2, 1, 256));
    assert_eq!(on(Plane::unit(16), 256, of(4096, 12288)), (64, 4, 1, 256));
    assert_eq!(on(Plane::unit(16), 256, experts), (32, 2, 1, 256));
    assert_eq!(on(Plane::unit(8), 512, of(4096, 4096)), (64, 4, 1, 256));
    assert_eq!(on(Plane::unit(8), 0, of(4096, 4096)), (64, 4, 1, 128));
}

/// As the records 2026-11-30-h200-gemv-rounds, -nibbles and -eight-columns measured it.
#[test]
fn known_rounds_are_asked_for_at_once() {
    let caps = device("any", (32, 32), true);
    let of = |planes, table, exact, rows, k| {
        let shape = Shape { exact, ..shape(rows, k) };
        let first = Plane::unit(16);
        choose(Traits { first, planes, table, ..PACKED }, shape, &caps).tile
    };
    let rounds = |table, exact, rows, k| of(3, table, exact, rows, k).rounds;
    assert_eq!([2048, 4096, 12288, 4096 + 256, 1024].map(|k| rounds(0, Exact::Two, 1, k)), [2, 1, 0, 0, 0]);
    assert_eq!([2048, 4096, 12288].map(|k| rounds(0, Exact::One, 1, k)), [1, 0, 0]);
    assert_eq!(rounds(256, Exact::Two, 1, 1024), 0);
    assert_eq!(rounds(0, Exact::Float, 1, 4096), 0);
    // Several rows of x: only a round for many lanes; of bytes for fewer too, and two where there is a table.
    assert_eq!([2048, 4096, 12288].map(|k| rounds(0, Exact::Two, 8, k)), [0, 1, 0]);
    assert_eq!([2048, 4096, 12288].map(|k| rounds(0, Exact::One, 8, k)), [1, 0, 0]);
    assert_eq!([2048, 4096, 12288].map(|k| rounds(256, Exact::One, 8, k)), [2, 0, 0]);
    // Units of many bytes have their round told too, and fewer rows where there are eight.
    let large = Traits { first: Plane::unit(32), ..PACKED };
    let of_large = |exact, k| choose(large, Shape { exact, ..shape(8, k) }, &caps).tile;
    assert_eq!((of_large(Exact::Two, 4096).rounds, of_large(Exact::One, 4096).rows), (1, 4));
    assert_eq!(rounds(256, Exact::Two, 8, 4096), 0);
    let tile = of(3, 0, Exact::Two, 8, 4096);
    assert_eq!((tile.lanes, tile.rows, tile.cols, tile.local, tile.walk), (128, 4, 8, 128, 0));
    // Two rounds of x are loaded for fewer rows where a unit has few planes.
    let lanes_and_rows = |planes, k| {
        let tile = of(planes, 0, Exact::Two, 1, k);
        (tile.lanes, tile.rows)
    };
    assert_eq!([2, 3, 4].map(|planes| lanes_and_rows(planes, 2048)), [(32, 2), (32, 4), (32, 4)]);
    assert_eq!([2, 4].map(|planes| lanes_and_rows(planes, 4096)), [(128, 4), (128, 4)]);
}

/// As the record 2026-11-30-h200-nibbles measured it.
#[test]
fn rows_of_a_multiprocessor_share_a_small_table_where_there_is_room() {
    let poor = device("a device with little room", (32, 32), true);
    let room = Limits { max_workgroup_bytes: 48 << 10, ..poor.limits };
    let card = DeviceCaps { limits: room.clone(), ..poor.clone() };
    let few = DeviceCaps { limits: Limits { max_invocations: 512, ..room.clone() }, ..poor.clone() };
    let narrow = DeviceCaps { limits: Limits { max_invocations: 256, ..room.clone() }, ..poor.clone() };
    let alone = DeviceCaps { limits: room, ..device("subgroups of 64 alone", (64, 64), true) };
    let of = |m, k| Shape { m, ..shape(1, k) };
    let experts = Shape { rows: 8, m: 768, experts: true, ..shape(8, 2048) };
    let coarse = Shape { exact: Exact::One, ..of(4096, 4096) };
    let (together, together_few) = (of(4096, 4096), Shape { rows: 8, ..of(4096, 4096) });
    // Lanes, rows, invocations, copies, rounds, rows of a step.
    let table = [
        (&card, experts, (32, 2, 768, 32, 2, 1)),
        (&card, together, (32, 2, 512, 32, 4, 2)),
        (&card, of(12288, 4096), (32, 4, 768, 32, 4, 2)),
        (&card, of(4096, 12288), (64, 4, 512, 32, 6, 2)),
        (&card, of(8192, 4096), (32, 4, 512, 32, 4, 2)),
        (&few, of(12288, 4096), (32, 2, 512, 32, 4, 2)),
        // The class int8 alike; rows of no known length, less room and columns: as ever.
        (&card, of(4096, 4096 + 256), (32, 2, 256, 16, 0, 0)),
        (&poor, together, (32, 2, 256, 16, 0, 0)),
        (&narrow, together, (32, 2, 256, 16, 0, 0)),
        (&alone, together, (32, 2, 256, 16, 0, 0)),
        (&card, coarse, (32, 2, 512, 32, 4, 2)),
        (&card, together_few, (32, 4, 64, 1, 0, 0)),
    ];
    for (caps, shape, expected) in table {
        let format = Traits { table: 256, ..PACKED };
        let choice = choose(format, shape, caps);
        let t = choice.tile;
        let found = (t.lanes, t.rows, t.local, t.copies, t.rounds, t.walk);
        assert_eq!(found, expected, "{shape:?}: {}", choice.reason());
        assert!(tiles(format, choice.arm).contains(&t), "{t:?}");
    }
}

/// As the records 2026-11-30-h200-ternary and -wide-rows measured it, and 2026-12-01-h200-told-rounds in models.
#[test]
fn thin_units_are_asked_for_at_once_or_in_steps() {
    let caps = device("any", (32, 32), true);
    let told = |unit, exact, rows, k| {
        let thin = Traits { unit, first: Plane::unit(8), ..PACKED };
        let tile = choose(thin, Shape { exact, ..shape(rows, k) }, &caps).tile;
        (tile.lanes, tile.rows, tile.local, tile.rounds, tile.walk)
    };
    let ks = [2048, 4096, 12288, 4096 + 256];
    let one = [(64, 4, 128, 1, 0), (64, 4, 128, 2, 0), (64, 4, 128, 0, 0), (64, 4, 128, 0, 0)];
    assert_eq!(ks.map(|k| told(32, Exact::Two, 1, k)), one);
    let two = [(32, 4, 64, 1, 1), (64, 4, 64, 1, 1), (64, 4, 64, 3, 1), (64, 4, 128, 0, 0)];
    assert_eq!(ks.map(|k| told(64, Exact::Two, 1, k)), two);
    // Several rows of x: none.
    assert_eq!(ks.map(|k| told(32, Exact::Two, 8, k)), [(64, 4, 128, 0, 0); 4]);
    assert_eq!(told(64, Exact::Two, 8, 4096).3, 0);
}

/// As the record 2026-12-01-h200-rows-of-bytes measured it.
#[test]
fn rows_of_bytes_have_a_round_told_and_several_of_them_few_rows_of_weights() {
    let caps = device("any", (32, 32), true);
    let ks = [2048, 4096, 12288, 4096 + 256];
    let of = |(bytes, unit, group): (u32, u32, u32), rows| {
        let first = Plane::unit(bytes);
        let format = Traits { unit, first, planes: 3, group, ..PACKED };
        ks.map(|k| {
            let choice = choose(format, Shape { exact: Exact::One, ..shape(rows, k) }, &caps);
            let t = choice.tile;
            assert!(tiles(format, choice.arm).contains(&t), "{t:?}");
            (t.lanes, t.rows, t.local, t.rounds)
        })
    };
    let (wide, halved, thin, broad) = ((16, 32, 32), (16, 32, 16), (8, 32, 16), (32, 32, 32));
    let told = |lanes, rows, local, rounds: [u32; 4]| rounds.map(|n| (lanes, rows, local, n));
    assert_eq!([wide, halved, thin].map(|format| of(format, 1)), [told(64, 2, 256, [1, 0, 0, 0]); 3]);
    assert_eq!(of(broad, 1)[0], (64, 2, 256, 1));
    assert_eq!(of(broad, 1)[1..], told(128, 2, 256, [0, 1, 0, 0])[1..]);
    // Several rows of x: less beside a unit of one group, two rounds of thin units.
    assert_eq!(of(wide, 8), told(64, 4, 64, [1, 0, 0, 0]));
    assert_eq!(of(halved, 8), told(64, 4, 128, [1, 0, 0, 0]));
    assert_eq!(of(thin, 8), told(64, 4, 128, [1, 2, 0, 0]));
    assert_eq!(of(broad, 8)[0], (64, 4, 128, 1));
    assert_eq!(of(broad, 8)[1..], told(128, 4, 128, [0, 1, 0, 0])[1..]);
    // A unit of several blocks is told none.
    assert_eq!(of((8, 64, 32), 8).map(|t| t.3), [0; 4]);
}

/// As the record 2026-11-30-h200-wide-rows measured it.
#[test]
fn lanes_own_more_rows_of_light_thin_units_where_a_launch_has_many() {
    let caps = device("any", (32, 32), true);
    let on = |unit, planes, m, k| {
        let thin = Traits { unit, first: Plane::unit(8), planes, ..PACKED };
        let choice = choose(thin, Shape { m, ..shape(1, k) }, &caps);
        let t = choice.tile;
        assert!(tiles(thin, choice.arm).contains(&t), "{t:?}");
        (t.lanes, t.rows, t.local, t.rounds, t.walk)
    };
    let (few, many) = ((64, 4, 128, 2, 0), (64, 8, 128, 2, 4));
    assert_eq!([4096, 8192, 12288].map(|m| on(32, 2, m, 4096)), [few, many, many]);
    assert_eq!([4096, 12288].map(|m| on(32, 3, m, 4096)), [few, few]);
    assert_eq!([4096, 12288].map(|m| on(64, 3, m, 4096)), [(64, 4, 64, 1, 1), (64, 8, 64, 1, 2)]);
    assert_eq!([2, 3].map(|planes| on(32, planes, 12288, 12288)), [(64, 4, 128, 0, 0); 2]);
}

/// As the record 2026-11-30-h200-wide-rows measured it.
#[test]
fn three_rounds_of_wide_units_are_told_where_a_unit_is_heavy_or_rows_are_few() {
    let caps = device("any", (32, 32), true);
    let on = |bytes, planes, m| {
        let first = Plane::unit(bytes);
        let wide = Traits { first, planes, ..PACKED };
        let choice = choose(wide, Shape { m, ..shape(1, 12288) }, &caps);
        let t = choice.tile;
        assert!(tiles(wide, choice.arm).contains(&t), "{t:?}");
        (t.lanes, t.rows, t.local, t.rounds, t.walk)
    };
    let (untold, told) = ((128, 4, 128, 0, 0), (128, 4, 128, 3, 4));
    assert_eq!([2, 3].map(|planes| on(16, planes, 4096)), [untold; 2]);
    assert_eq!([2, 3].map(|planes| on(16, planes, 2048)), [told; 2]);
    assert_eq!([(16, 4), (32, 2)].map(|(bytes, planes)| on(bytes, planes, 4096)), [told; 2]);
}

/// As the record 2026-11-30-h200-nibbles measured it for IQ3_XXS.
#[test]
fn thin_units_with_a_small_table_have_more_lanes() {
    let any = device("any", (32, 32), true);
    let caps = DeviceCaps { limits: Limits { max_workgroup_bytes: 48 << 10, ..any.limits.clone() }, ..any };
    let told = |shape| {
        let format = Traits { first: Plane::unit(8), planes: 3, table: 256, ..PACKED };
        let tile = choose(format, shape, &caps).tile;
        (tile.lanes, tile.rows, tile.local, tile.rounds, tile.walk)
    };
    let of = |m, k| Shape { m, ..shape(1, k) };
    assert_eq!(told(Shape { rows: 8, m: 768, experts: true, ..shape(8, 2048) }), (64, 4, 768, 1, 1));
    assert_eq!(told(of(4096, 4096)), (64, 4, 512, 2, 2));
    assert_eq!(told(of(12288, 4096)), (64, 8, 768, 2, 2));
    assert_eq!(told(of(4096, 12288)), (64, 4, 512, 6, 2));
    assert_eq!(told(shape(8, 4096)), (64, 4, 128, 0, 0));
}

/// As the records 2026-11-30-h200-grids and -codes measured it.
#[test]
fn lanes_walk_over_their_units_where_a_table_is_long() {
    let caps = device("any", (32, 32), true);
    let little = DeviceCaps { limits: Limits { max_workgroup_bytes: 16384, ..caps.limits }, ..caps.clone() };
    let narrow = DeviceCaps { limits: Limits { max_invocations: 256, ..caps.limits }, ..caps.clone() };
    let card = DeviceCaps { limits: Limits { max_workgroup_bytes: 48 << 10, ..caps.limits }, ..caps.clone() };
    let alone = DeviceCaps { limits: card.limits.clone(), ..device("subgroups of 64 alone", (64, 64), true) };
    let of = |m, k| Shape { m, ..shape(1, k) };
    let experts = Shape { rows: 8, m: 768, experts: true, ..shape(8, 2048) };
    // Device, planes, words of the table, shape: rows, invocations, copies, rounds, rows of a step.
    let table = [
        (&caps, 2, 512, of(4096, 4096), (4, 256, 8, 2, 4)),
        (&caps, 4, 512, of(4096, 4096), (4, 256, 8, 2, 2)),
        (&caps, 4, 512, of(12288, 4096), (8, 768, 1, 2, 2)),
        (&card, 4, 512, of(12288, 4096), (8, 768, 16, 2, 2)),
        (&alone, 4, 512, of(12288, 4096), (4, 256, 8, 2, 2)),
        (&caps, 4, 512, of(8192, 4096), (4, 256, 8, 2, 2)),
        (&caps, 4, 512, of(12288, 12288), (4, 256, 8, 6, 4)),
        (&caps, 4, 512, experts, (4, 256, 8, 1, 2)),
        (&little, 4, 512, of(12288, 4096), (8, 768, 1, 2, 2)),
        (&narrow, 4, 512, of(12288, 4096), (4, 256, 8, 2, 2)),
        // Rows of no known length and columns: as ever.
        (&caps, 4, 512, of(4096, 14336), (4, 256, 1, 0, 0)),
        (&caps, 4, 512, shape(8, 4096), (4, 128, 1, 0, 0)),
        // The class int8 alike, and several of its rows too; of longer tables too.
        (&caps, 3, 2048, Shape { exact: Exact::One, ..of(12288, 4096) }, (8, 768, 2, 2, 2)),
        (&caps, 3, 2048, Shape { exact: Exact::One, ..shape(8, 4096) }, (4, 128, 1, 2, 0)),
    ];
    for (caps, planes, table, shape, expected) in table {
        let format = Traits { first: Plane::unit(8), planes, table, ..PACKED };
        let choice = choose(format, shape, caps);
        let t = choice.tile;
        assert_eq!((t.rows, t.local, t.copies, t.rounds, t.walk), expected, "{shape:?}: {}", choice.reason());
        assert_eq!((t.lanes, t.ahead), (64, u32::from(t.cols == 1)));
        assert!(tiles(format, choice.arm).contains(&t), "{t:?}");
    }
}

/// As the record 2026-11-30-h200-long-tables measured it.
#[test]
fn lanes_own_many_rows_where_a_table_is_longer() {
    let caps = device("any", (32, 32), true);
    let card = DeviceCaps { limits: Limits { max_workgroup_bytes: 48 << 10, ..caps.limits }, ..caps.clone() };
    let little = DeviceCaps { limits: Limits { max_workgroup_bytes: 16384, ..caps.limits }, ..caps.clone() };
    let alone = DeviceCaps { limits: card.limits.clone(), ..device("subgroups of 64 alone", (64, 64), true) };
    let of = |m, k| Shape { m, ..shape(1, k) };
    let experts = Shape { rows: 8, m: 768, experts: true, ..shape(8, 2048) };
    // Format, device, shape: lanes, rows, invocations, copies, rounds, rows of a step, steps ahead. Several columns have two
    // rounds of half the lanes.
    let table = [
        ("IQ1_S", &card, of(12288, 4096), (128, 16, 768, 1, 1, 1, 1)),
        ("IQ1_S", &caps, of(12288, 4096), (128, 8, 256, 1, 1, 1, 1)),
        ("IQ1_S", &little, of(12288, 4096), (128, 8, 256, 1, 1, 1, 1)),
        ("IQ2_S", &little, of(12288, 4096), (128, 4, 256, 1, 1, 1, 1)),
        ("IQ1_M", &card, of(4096, 4096), (128, 8, 256, 1, 1, 1, 1)),
        ("IQ1_M", &card, of(4096, 12288), (64, 4, 512, 1, 6, 2, 2)),
        ("IQ1_M", &card, experts, (64, 4, 256, 1, 1, 1, 1)),
        ("IQ2_XS", &card, of(12288, 4096), (128, 16, 768, 1, 1, 1, 1)),
        ("IQ2_XS", &card, of(4096, 4096), (128, 8, 512, 4, 1, 1, 1)),
        ("IQ2_XS", &card, of(4096, 12288), (128, 8, 512, 4, 3, 1, 1)),
        ("IQ2_XS", &alone, of(12288, 4096), (128, 4, 256, 4, 1, 1, 1)),
        ("IQ2_S", &card, of(4096, 12288), (128, 8, 512, 2, 3, 1, 1)),
        ("IQ2_S", &card, experts, (64, 4, 256, 2, 1, 2, 1)),
        ("IQ2_S", &card, shape(8, 4096), (64, 4, 128, 1, 0, 0, 0)),
        ("IQ2_S", &card, shape(8, 12288), (128, 4, 128, 1, 0, 0, 0)),
    ];
    let registry = Registry::builtin();
    for (name, caps, shape, expected) in table {
        let row = registry.formats().find(|row| row.name == name).unwrap();
        let choice = row.choose(shape, caps);
        let t = choice.tile;
        let found = (t.lanes, t.rows, t.local, t.copies, t.rounds, t.walk, t.ahead);
        assert_eq!(t.apart, t.cols > 1 && t.lanes == 64);
        assert_eq!(found, expected, "{name}, {shape:?}: {}", choice.reason());
        assert!(tiles(row.traits, choice.arm).contains(&t), "{name}: {t:?}");
    }
}

/// What is chosen is among the variants that conformance runs, and runs on the device.
#[test]
fn every_choice_is_a_variant_that_its_device_takes() {
    let sizes = [(4, 4), (8, 8), (16, 16), (16, 32), (32, 32), (32, 64), (64, 64), (1, 128)];
    let devices = sizes.iter().flat_map(|&s| [true, false].map(|dot| device("any", s, dot)));
    for caps in devices {
        for row in Registry::builtin().formats() {
            for (rows, k) in [(1, 1), (1, 32), (5, 64), (512, 256)] {
                let shape = shape(rows, k * row.row_multiple);
                let choice = row.choose(shape, &caps);
                let tiles = tiles(row.traits, choice.arm);
                assert!(tiles.contains(&choice.tile), "{}: {:?}", row.name, choice.tile);
                let cut = format!("{:?}", choice.tile);
                let of_arm = |v: &&kiln_kernels::Variant| v.arm == Some(choice.arm.name());
                let variant = row.variants.iter().filter(of_arm).find(|v| v.cut.first() == Some(&cut));
                assert!(variant.is_some(), "{} has no variant {cut} on {:?}", row.name, choice.arm);
                let (low, high) = caps.subgroup_sizes;
                assert!(choice.tile.subgroup.is_none_or(|s| (low..=high).contains(&s)), "{choice:?}");
                assert!(choice.arm == Arm::Float || caps.capabilities.contains(&DOT), "{choice:?}");
            }
        }
    }
}

/// A row's bits may not depend on what shares its step: rows and experts change the columns at once, nothing else.
#[test]
fn what_shares_a_step_changes_neither_arm_nor_lanes() {
    let caps = device("any", (32, 32), true);
    for row in Registry::builtin().formats() {
        for k in [1, 2, 32, 99].map(|n| n * row.row_multiple) {
            let alone = row.choose(shape(1, k), &caps);
            for other in [shape(2, k), shape(512, k), Shape { experts: true, ..shape(7, k) }] {
                let together = row.choose(other, &caps);
                let order = |c: &kiln_kernels::gemv::Choice| (c.arm, c.tile.lanes << u32::from(c.tile.apart));
                assert_eq!(order(&together), order(&alone), "{}, k = {k}", row.name);
            }
        }
    }
}

#[test]
fn many_rows_are_multiplied_as_matrices_where_a_device_has_them() {
    let with = |name, sizes, mnk: [u32; 3], elems: [MatrixElem; 4]| {
        let fixed = vec![MatrixProduct { scope: Scope::Subgroup, mnk, elems }];
        DeviceCaps { matrix: MatrixCaps { fixed, ..MatrixCaps::default() }, ..device(name, sizes, true) }
    };
    let halves = [MatrixElem::F16, MatrixElem::F16, MatrixElem::F32, MatrixElem::F32];
    let card = with("a card", (32, 32), [16; 3], halves);
    let mut roomy = with("a card with room", (32, 32), [16; 3], halves);
    roomy.limits.max_workgroup_bytes = 48 << 10;
    let cpu = with("a CPU driver", (8, 8), [8; 3], halves);
    let bytes = with("bytes alone", (32, 32), [16, 16, 32], [MatrixElem::I8; 4]);
    let wide = with("subgroups of 64 alone", (64, 64), [16; 3], halves);
    let none = device("no matrices", (32, 32), true);
    // Bytes of the format's table, rows of x, rows of W and columns, device: the tile.
    let table = [
        (0, [512, 4096, 4096], &card, Some([128, 64, 64])),
        (0, [512, 12288, 4096], &roomy, Some([128, 128, 64])),
        (0, [512, 5120, 4096], &roomy, Some([128, 128, 64])),
        (0, [512, 4992, 4096], &roomy, Some([128, 64, 64])),
        (0, [512, 2048, 4096], &roomy, Some([128, 64, 64])),
        (0, [512, 1024, 4096], &roomy, Some([64, 64, 64])),
        (0, [64, 12288, 4096], &roomy, Some([64, 64, 64])),
        (0, [65, 24576, 4096], &roomy, Some([128, 128, 64])),
        (8192, [512, 12288, 4096], &roomy, Some([128, 128, 64])),
        (16384, [512, 12288, 4096], &roomy, Some([128, 64, 64])),
        (0, [512, 1024, 4096], &card, Some([64, 64, 64])),
        (0, [512, 12288, 576], &card, Some([128, 64, 64])),
        (4096, [512, 4096, 4096], &card, Some([128, 64, 64])),
        (8192, [512, 4096, 4096], &card, Some([64, 64, 64])),
        (16384, [512, 4096, 4096], &card, None),
        (0, [32, 4096, 4096], &card, Some([64, 64, 64])),
        (0, [31, 4096, 4096], &card, None),
        (0, [512, 4096, 4], &card, None),
        (0, [512, 4096, 4096], &cpu, Some([32, 16, 32])),
        (0, [512, 4096, 4096], &bytes, None),
        (0, [512, 4096, 4096], &wide, None),
        (0, [512, 4096, 4096], &none, None),
    ];
    for (table_bytes, size, caps, expected) in table {
        let found = gemm::choose(table_bytes, size, caps);
        let tile = found.as_ref().ok().map(|choice| choice.shape.tile);
        assert_eq!(tile, expected, "{size:?} on {}: {found:?}", caps.name);
    }
    // Fewer workgroups than processors have twice the subgroups.
    let plain = |m| gemm::plain_shape(true, [512, m]).schedule;
    assert_eq!([4096, 12288].map(|m| (plain(m).slices, plain(m).eager)), [(2, false), (1, true)]);
}

#[test]
fn many_rows_attend_on_matrices_where_a_device_has_them() {
    let with = |name, sizes, edge| {
        let elems = [MatrixElem::F16, MatrixElem::F16, MatrixElem::F32, MatrixElem::F32];
        let fixed = vec![MatrixProduct { scope: Scope::Subgroup, mnk: [edge; 3], elems }];
        DeviceCaps { matrix: MatrixCaps { fixed, ..MatrixCaps::default() }, ..device(name, sizes, true) }
    };
    let (card, cpu) = (with("a card", (32, 32), 16), with("a CPU driver", (8, 8), 8));
    let none = device("no matrices", (32, 32), true);
    // Rows, width of a head, type of keys and values, device: rows of a tile.
    let table = [
        (512, 128, KvType::F16, &card, Some(64)),
        (32, 80, KvType::F16, &card, Some(64)),
        (31, 128, KvType::F16, &card, None),
        (512, 72, KvType::F16, &card, None),
        (512, 128, KvType::F32, &card, None),
        (512, 128, KvType::Q8_0, &card, None),
        (512, 64, KvType::F16, &cpu, Some(16)),
        (512, 72, KvType::F16, &cpu, None),
        (512, 128, KvType::F16, &none, None),
    ];
    for (rows, head_dim, ty, caps, expected) in table {
        let found = attention_khr::choose(rows, head_dim, ty, caps);
        assert_eq!(
            found.map(|shape| shape.rows()),
            expected,
            "{rows} x {head_dim} of {} on {}",
            ty.name(),
            caps.name
        );
    }
}
