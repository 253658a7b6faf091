//! A format from outside gets every role, every arm and the suite; and the suite sees what is wrong in it.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;

use kiln_abi::{BlockGeometry, LaunchError};
use kiln_conformance::{assert_layouts, run, run_spread, run_those, shifted};
use kiln_dsl::prelude::*;
use kiln_kernels::{
    Format, HostFormat, Registry, Variant,
    conformance::{check_format, check_vectors},
    gemv::Arms,
};
use kiln_spirv_interp::{InterpOptions, Interpreter, SUBGROUP_SIZES};
use kiln_ternary_format::Ternary;

/// The variants of one format.
fn of(registry: &Registry, name: &str) -> Vec<Variant> {
    registry.format_named(name).map(|row| row.variants.clone()).unwrap_or_default()
}

#[test]
fn it_has_every_role_and_arm_of_a_packed_format() {
    let registry = Registry::builtin().with::<Ternary>().unwrap();
    let kinds = |name| of(&registry, name).iter().map(|v| (v.role, v.arm)).collect::<BTreeSet<_>>();
    let most = registry.formats().map(|row| kinds(row.name)).max_by_key(BTreeSet::len).unwrap();
    assert_eq!(kinds(Ternary::NAME), most);
}

#[test]
fn it_keeps_the_promises_of_a_format() {
    let registry = Registry::builtin().with::<Ternary>().unwrap();
    assert_eq!(registry.format_named(Ternary::NAME).map(check_format), Some(Ok(())));
}

/// A block by hand, from the table of its fields; of a format with files, blocks of the program that writes them.
#[test]
fn it_decodes_what_its_table_says() {
    let block = [0x00, 0x38, 0b_10_01_00_10, 0x00, 0x55, 0xaa, 0b_00_10_01_00, 0x01, 0b_00_00_01_10, 0x80];
    #[rustfmt::skip]
    let weights = [
         1, -1, 0,  1,   -1, -1, 0,  1,    0, -1,  0,  1,    1, -1,  0, 1,
        -1,  0, 1, -1,    0, -1, 0, -1,    1, -1, -1, -1,   -1, -1, -1, 1,
    ];
    let mut values = weights.map(|q: i8| 0.5 * f32::from(q));
    let registry = Registry::builtin().with::<Ternary>().unwrap();
    let row = registry.format_named(Ternary::NAME).unwrap();
    assert_eq!(check_vectors(row, &block, &values), Ok(()));
    values[17] = 0.5;
    assert!(check_vectors(row, &block, &values).is_err());
}

#[test]
fn it_equals_its_reference_at_every_subgroup_size() {
    let variants = of(&Registry::builtin().with::<Ternary>().unwrap(), Ternary::NAME);
    let mut ran = 0;
    for subgroup_size in SUBGROUP_SIZES {
        let interpreter = Interpreter::new(InterpOptions { subgroup_size, ..Default::default() });
        // One in five at each size, all of them over the sizes, and at its own what asks for a size.
        let mine = variants.iter().enumerate().filter(|(i, v)| {
            let asks = v.stage().unwrap().layout.subgroup_size;
            asks.map_or(SUBGROUP_SIZES[i % SUBGROUP_SIZES.len()] == subgroup_size, |s| s == subgroup_size)
        });
        let summary = run_those(mine.map(|(_, v)| v), &interpreter, false);
        assert!(summary.failures.is_empty(), "{summary}");
        assert!(summary.refused.iter().all(|r| matches!(r, LaunchError::SubgroupSize { .. })), "{summary}");
        ran += summary.variants;
    }
    assert_eq!(ran, variants.len());
}

/// The same bytes, whose second plane a kernel reads a bit too high.
struct Shifted;

impl HostFormat for Shifted {
    const ID: u32 = Ternary::ID + 1;
    const NAME: &'static str = "SHIFTED";
    const GEOMETRY: BlockGeometry = Ternary::GEOMETRY;

    fn dequantize(block: &[u8], out: &mut [f32]) {
        Ternary::dequantize(block, out);
    }
}

impl Format for Shifted {
    fn arms() -> Arms {
        Arms::plain::<Self>()
    }

    fn source(plane: usize, unit: usize, bit: usize) -> Option<usize> {
        Ternary::source(plane, unit, bit)
    }
}

#[device]
impl TensorFormat for Shifted {
    const BLK: u32 = Ternary::BLK;
    const UNIT: u32 = Ternary::UNIT;
    const PLANES: &'static [Plane] = Ternary::PLANES;

    fn decode4(u: &Unit, at: u32) -> Vec4<f32> {
        let v = Ternary::decode4(&u, at);
        v + v
    }
}

#[test]
fn a_wrong_decode_fails_in_every_role_that_decodes() {
    let variants = of(&Registry::builtin().with::<Shifted>().unwrap(), Shifted::NAME);
    let interpreter = Interpreter::new(InterpOptions { subgroup_size: 8, ..Default::default() });
    for role in ["get_rows", "gemv"] {
        let summary = run_those(variants.iter().filter(|v| v.role == role).take(1), &interpreter, false);
        assert!(!summary.failures.is_empty(), "{role}: {summary}");
        let last = summary.to_string().lines().last().map(str::to_owned).unwrap_or_default();
        assert!(last.starts_with("1 of 1 kernels failed: format SHIFTED; "), "{role}: {last}");
    }
}

/// A format of the same bytes and kernels with other planes, or another `offset` or `source` on the host.
macro_rules! ternary {
    ($name:ident, $id:expr, $planes:expr, $offset:expr, $source:expr) => {
        struct $name;

        impl HostFormat for $name {
            const ID: u32 = Ternary::ID + $id;
            const NAME: &'static str = stringify!($name);
            const GEOMETRY: BlockGeometry = Ternary::GEOMETRY;

            fn dequantize(block: &[u8], out: &mut [f32]) {
                Ternary::dequantize(block, out);
            }
        }

        impl Format for $name {
            fn arms() -> Arms {
                Arms::packed::<Self>()
            }

            fn source(plane: usize, unit: usize, bit: usize) -> Option<usize> {
                $source(plane, Ternary::source(plane, unit, bit))
            }

            fn offset(block: &[u8], i: usize) -> f32 {
                $offset * Ternary::offset(block, i)
            }
        }

        #[device]
        impl TensorFormat for $name {
            const BLK: u32 = Ternary::BLK;
            const UNIT: u32 = Ternary::UNIT;
            const PLANES: &'static [Plane] = $planes;

            fn decode4(u: &Unit, at: u32) -> Vec4<f32> {
                Ternary::decode4(&u, at)
            }
        }

        #[device]
        impl PackedFormat for $name {
            const GROUP: u32 = Ternary::GROUP;
            const OFFSET: bool = true;

            fn scale_offset(u: &Unit, group: u32) -> (f32, f32) {
                Ternary::scale_offset(&u, group)
            }

            fn lanes(u: &Unit, pack: u32) -> u32 {
                Ternary::lanes(&u, pack)
            }
        }
    };
}

ternary!(TwiceOff, 2, Ternary::PLANES, 2.0, |_, bit| bit);
ternary!(Beyond, 3, Ternary::PLANES, 1.0, |plane, bit: Option<usize>| bit.map(|bit| bit + 80 * plane));
ternary!(Again, 4, Ternary::PLANES, 1.0, |plane, bit: Option<usize>| bit.map(|bit| bit + 16 * plane));
ternary!(Lost, 5, Ternary::PLANES, 1.0, |plane, bit: Option<usize>| bit.filter(|_| plane == 0));

ternary!(Apart, 6, &[Plane::unit(8), Plane::block(2, 4)], 1.0, |_, bit| bit);

/// What is wrong with a layout is told by the bits of one block and the call of `source` that names them.
#[test]
fn a_bit_beyond_a_block_twice_or_never_is_named() {
    fn why<F: Format>() -> String {
        let registry = Registry::builtin().with::<F>().unwrap();
        check_format(registry.format_named(F::NAME).unwrap()).unwrap_err()
    }
    let beyond = why::<Beyond>();
    let last = "source(1, 0, 0) is bit 80, and the last is bit 79 of a block (bit 7 of byte 9): ";
    assert!(beyond.starts_with(last), "{beyond}");
    let again = why::<Again>();
    let twice = "bit 16 of a block (bit 0 of byte 2) has two places, source(0, 0, 0) and source(1, 0, 0)";
    assert!(again.starts_with(twice), "{again}");
    let lost = why::<Lost>();
    assert!(lost.starts_with("bit 0 of a block (bit 0 of byte 0) has no place"), "{lost}");
    let apart = why::<Apart>();
    assert!(apart.starts_with("plane 1 has a field for 4 units, and a block has 1: "), "{apart}");

    let registry = Registry::builtin().with::<Beyond>().unwrap();
    let summary = run(&registry, &Interpreter::new(InterpOptions::default()));
    let said = vec![format!("layout of Beyond: {beyond}")];
    assert_eq!((summary.failures, summary.variants), (said.clone(), 0));
    // So do the suites of devices, which choose their variants; those of other formats run.
    let interpreter = Interpreter::new(InterpOptions::default());
    let of = |name| run_spread(&registry, |v| v.format == Some(name), &[&interpreter], false);
    assert_eq!((of(Beyond::NAME).failures, of(Beyond::NAME).variants), (said.clone(), 0));
    let others = run_spread(&registry, |v| v.name == "add", &[&interpreter], false);
    assert!(others.failures.is_empty() && others.variants == 1, "{others}");
    assert_eq!(shifted::run(&registry, &interpreter).failures, said);
    // And what makes cases of every format of a registry.
    let panics = catch_unwind(AssertUnwindSafe(|| assert_layouts(registry.formats()))).unwrap_err();
    assert_eq!(panics.downcast_ref::<String>(), said.first());
    assert_layouts(registry.formats().filter(|row| row.name != Beyond::NAME));
}

/// Products pass: a wrong offset only widens what they may be off by.
#[test]
fn an_offset_that_kernels_do_not_have_is_seen() {
    let variants = of(&Registry::builtin().with::<TwiceOff>().unwrap(), TwiceOff::NAME);
    let interpreter = Interpreter::new(InterpOptions::default());
    let failures = |kernel| {
        let own = variants.iter().filter(|v| v.name.starts_with(kernel)).take(1);
        run_those(own, &interpreter, false).failures
    };
    assert!(failures("gemv_dot4").is_empty(), "{:?}", failures("gemv_dot4"));
    let why = failures("offset_each").concat();
    assert!(why.contains("`Format::offset` expected of `PackedFormat::scale_offset`"), "{why}");
}

#[test]
fn its_program_lists_its_kernels() {
    let list = Command::new(env!("CARGO_BIN_EXE_kiln-ternary-format"))
        .args(["kernels", "list", "--format", Ternary::NAME])
        .output()
        .unwrap();
    let text = String::from_utf8(list.stdout).unwrap();
    assert!(list.status.success(), "{}", String::from_utf8_lossy(&list.stderr));
    assert!(text.contains("gemv_dot4<Ternary>") && text.contains("get_rows<Ternary>"), "{text}");
}
