//! Products on cooperative matrices, each beside the same kernel reading its blocks one word too far.

use std::time::{Duration, Instant};

use kiln_abi::{BufferRange, Device, Kernel, launch::launch_staged};
use kiln_conformance::{assert_layouts, cover::Extent, note, run_those, shifted, sum_up};
use kiln_kernels::{
    Registry, Variant,
    formats::{Q4K, layout::device_bytes},
    gemm::{
        cm2::{Cm2Shape, GemmCm2, GemmCm2Args},
        khr::GemmPush,
    },
};
use kiln_spirv_interp::{InterpOptions, Interpreter};

/// Where the elements of a matrix are held follows from these.
const SEEDS: u64 = 3;

/// Every product is held in one way, which turns with `KILN_SEED`; with `KILN_LONG`, in each.
#[test]
fn they_equal_their_references_wherever_elements_are_held() {
    let (registry, extent) = (Registry::builtin(), Extent::of_environment());
    assert_layouts(registry.formats());
    let of_32 = |v: &&Variant| v.stage().unwrap().layout.subgroup_size != Some(8);
    let product = |v: &&Variant| {
        v.role == "gemm" || ["attention_tile", "attention_khr"].iter().any(|name| v.name.starts_with(name))
    };
    let products: Vec<&Variant> = registry.variants().filter(product).filter(of_32).collect();
    let mut ran = 0;
    for seed in 0..SEEDS {
        let interpreter = held_by(seed);
        let here = |i: u64| extent.is_long() || (i + extent.schedule()) % SEEDS == seed;
        let those = (0..).zip(&products).filter(|(i, _)| here(*i)).map(|(_, v)| *v);
        let summary = run_those(those, &interpreter, extent.is_long());
        println!("interpreter, seed {seed}: {summary}");
        assert!(summary.failures.is_empty() && summary.refused.is_empty(), "{summary}");
        ran += summary.variants;
    }
    assert!(ran >= products.len());
    sum_up().unwrap();
}

#[test]
fn a_pointer_to_blocks_one_word_too_far_is_seen() {
    let interpreter = held_by(0);
    let shifts = shifted::run(&Registry::builtin(), &interpreter);
    note(interpreter.caps(), "launches with a shifted pointer, caught", shifts.caught, &shifts.failures);
    sum_up().unwrap();
    println!("{} launches with a shifted pointer, each caught", shifts.caught);
    assert!(shifts.failures.is_empty() && shifts.caught > 0, "{shifts:#?}");
}

fn held_by(seed: u64) -> Interpreter {
    Interpreter::new(InterpOptions { subgroup_size: 32, seed, ..Default::default() })
}

#[test]
fn kernels_on_matrices_of_a_subgroup_ask_for_no_vendor_s_capability() {
    let (mut with, mut without) = (0, 0);
    for variant in Registry::builtin().variants() {
        let layout = variant.stage().unwrap().layout;
        let vendor: Vec<_> = layout.capabilities.iter().filter(|c| c.name().ends_with("NV")).collect();
        let expected = variant.name.starts_with("gemm_cm2") || variant.name.starts_with("attention_tile");
        assert_eq!(!vendor.is_empty(), expected, "{}: {vendor:?}", variant.name);
        *if expected { &mut with } else { &mut without } += 1;
    }
    assert!(with > 0 && without > 0, "{with} with, {without} without");
}

#[test]
fn a_tile_of_weights_takes_less_than_a_tenth_of_a_second_on_the_interpreter() {
    let (n, m, k) = (64, 128, 256);
    let shape = Cm2Shape { tile: [n, m, 64], invocations: 128, unroll: 1, four: false };
    let (kernel, interpreter) = (GemmCm2::<Q4K>::new(shape), Interpreter::new(InterpOptions::default()));
    let zeros = |bytes: u64| {
        let buffer = interpreter.allocate(bytes, "data").unwrap();
        interpreter.write(buffer, 0, &vec![0; bytes as usize]).unwrap();
        BufferRange { buffer, offset_bytes: 0, bytes }
    };
    let (x, w, y) = (zeros(2 * 64 * 256), zeros(device_bytes::<Q4K>(128 * 256)), zeros(4 * 64 * 128));
    let args = GemmCm2Args { x: x.into(), w: w.into(), y: y.into(), p: GemmPush { n, m, k } };
    let (staged, args) = (kernel.stage().unwrap(), kernel.bind(&args));
    let best = (0..5).map(|_| {
        let start = Instant::now();
        launch_staged(&interpreter, &staged, &args).unwrap();
        start.elapsed()
    });
    let best = best.min().unwrap();
    println!("{}: {best:?}", staged.name);
    assert!(best < Duration::from_millis(100), "{best:?}");
}
