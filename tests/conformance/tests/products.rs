//! Products on cooperative matrices, each beside the same kernel reading its blocks one word too far.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use kiln_abi::{
    BufferRange, Device, Kernel, StagedKernel,
    launch::{check_device, launch_staged},
};
use kiln_conformance::run_those;
use kiln_kernels::{
    Registry, Variant,
    conformance::check,
    formats::{Q4K, layout::device_bytes},
    gemm::{
        cm2::{Cm2Shape, GemmCm2, GemmCm2Args},
        khr::GemmPush,
    },
};
use kiln_runtime::{CacheDir, Gpu, RuntimeOptions};
use kiln_spirv_interp::{InterpOptions, Interpreter};

/// Where the elements of a matrix are held follows from these.
const SEEDS: std::ops::Range<u64> = 0..3;

/// Every product; of them, those whose name holds `KILN_ONLY`.
fn products(registry: &Registry) -> Vec<&Variant> {
    let only = std::env::var("KILN_ONLY").unwrap_or_default();
    let product = |v: &&Variant| v.role == "gemm" || v.name.starts_with("attention_tile");
    registry.variants().filter(product).filter(|v| v.name.contains(&only)).collect()
}

#[test]
fn they_equal_their_references_wherever_elements_are_held() {
    let registry = Registry::builtin();
    for seed in SEEDS {
        let options = InterpOptions { subgroup_size: 32, seed, ..Default::default() };
        let interpreter = Interpreter::new(options);
        let those =
            products(&registry).into_iter().filter(|v| v.stage().unwrap().layout.subgroup_size != Some(8));
        let summary = run_those(those, &interpreter, false);
        println!("interpreter, seed {seed}: {summary}");
        assert!(summary.failures.is_empty() && summary.refused.is_empty(), "{summary}");
        if seed == 0 {
            every_shift_is_caught(&registry, &interpreter);
        }
    }
}

#[test]
fn they_equal_their_references_on_the_device() {
    // The driver for CPUs has none of the vendor's matrices, and its own run with every other kernel.
    if std::env::var_os("KILN_GPU").is_none() {
        println!("NOT RUN: KILN_GPU is not set, no product was launched on a GPU");
        return;
    }
    let device = std::env::var("KILN_DEVICE").ok();
    let options = RuntimeOptions { device, validation: true, cache: CacheDir::Off, ..Default::default() };
    let (gpu, registry) = (Gpu::open(&options).unwrap(), Registry::builtin());
    let mut failures = Vec::new();
    for variant in products(&registry) {
        // A driver that never comes back from a kernel leaves its name.
        println!("{}", variant.name);
        let summary = run_those(std::iter::once(variant), &gpu, false);
        println!("{} ({}): {summary}", gpu.caps().name, gpu.caps().driver);
        failures.extend(summary.failures);
    }
    every_shift_is_caught(&registry, &gpu);
    assert!(failures.is_empty(), "{failures:#?}");
    let messages = gpu.validation_messages();
    assert!(messages.is_empty(), "the validation layer says:\n{}", messages.join("\n"));
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

/// Every kernel whose loads decode, on a device that takes it, fails once the callback's pointer is shifted.
fn every_shift_is_caught(registry: &Registry, device: &dyn Device) {
    let mut caught = 0;
    for variant in products(registry) {
        let kernel = variant.stage().unwrap();
        let Some(words) = shifted(&kernel.words) else { continue };
        if check_device(device, &kernel).is_err() {
            continue;
        }
        let wrong = StagedKernel { words, ..kernel };
        for case in variant.cases() {
            let verdict = check(device, &wrong, &case);
            assert!(verdict.is_err(), "{}, {}: the shift was not seen", variant.name, case.name);
            caught += 1;
        }
    }
    println!("{caught} launches with a shifted pointer, each caught");
}

/// The module with every word that a decoding function reads behind its pointer taken from the next one; `None` where
/// nothing decodes.
fn shifted(words: &[u32]) -> Option<Vec<u32>> {
    const HEADER: usize = 5;
    const TYPE_INT: u32 = 21;
    const TYPE_POINTER: u32 = 32;
    const CONSTANT: u32 = 43;
    const PARAMETER: u32 = 55;
    const ACCESS_CHAIN: u32 = 65;
    const I_ADD: u32 = 128;
    const PHYSICAL_STORAGE_BUFFER: u32 = 5349;
    let (mut out, mut at) = (words[..HEADER].to_vec(), HEADER);
    let (mut pointers, mut u32_, mut one) = (HashSet::new(), None, None);
    let mut shifts = 0;
    while at < words.len() {
        let inst = &words[at..at + (words[at] >> 16) as usize];
        match *inst {
            [op, id, 32, 0] if op & 0xffff == TYPE_INT => u32_ = Some(id),
            [op, ty, id, 1] if op & 0xffff == CONSTANT && Some(ty) == u32_ => one = Some(id),
            [op, id, PHYSICAL_STORAGE_BUFFER, _] if op & 0xffff == TYPE_POINTER => _ = pointers.insert(id),
            [op, ty, id] if op & 0xffff == PARAMETER && pointers.contains(&ty) => _ = pointers.insert(id),
            _ => {}
        }
        out.extend_from_slice(inst);
        if let [op, _, _, base, _, index] = *inst
            && op & 0xffff == ACCESS_CHAIN
            && pointers.contains(&base)
        {
            let sum = out[3];
            out[3] += 1;
            let chain = out.len() - inst.len();
            out[chain + 5] = sum;
            out.splice(chain..chain, [5 << 16 | I_ADD, u32_?, sum, index, one?]);
            shifts += 1;
        }
        at += inst.len();
    }
    (shifts > 0).then_some(out)
}
