//! All there is for the Vulkan device that is here, with the validation layer on: kernels, constructs of the language, and
//! the products whose blocks are read through pointers, with those pointers shifted.
//!
//! It is one command where there is only this program: `KILN_GPU=1 KILN_LONG=1 KILN_RECORD=FILE ./vulkan --nocapture`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::num::NonZero;

use kiln_abi::{Device, DeviceKind, spirv::Capability};
use kiln_conformance::{
    cover::{Extent, none_named},
    language, note, run_spread, shifted, sum_up,
};
use kiln_kernels::{Registry, Variant};
use kiln_runtime::{CacheDir, DeviceInfo, Gpu, RuntimeOptions};

/// The sizes at which the CPU driver runs.
const DRIVER_SIZES: [u32; 3] = [4, 8, 16];

/// The device with its validation layer; none where no Vulkan is asked for, or a GPU is and there is none.
fn device() -> Option<Gpu> {
    if std::env::var_os("KILN_NO_VULKAN").is_some() {
        println!("NOT RUN: KILN_NO_VULKAN is set, no kernel was launched through Vulkan");
        return None;
    }
    if std::env::var_os("KILN_GPU").is_some()
        && let Err(why) = find_gpu()
    {
        println!("NOT RUN on a GPU: {why}");
        return None;
    }
    let device = std::env::var("KILN_DEVICE").ok();
    let options = RuntimeOptions { device, validation: true, cache: CacheDir::Off, ..Default::default() };
    let gpu = Gpu::open(&options).unwrap();
    Some(gpu)
}

/// Whether there is a device other than the processor; what is there else.
fn find_gpu() -> Result<(), String> {
    let devices = kiln_runtime::devices().map_err(|e| e.to_string())?;
    let is_gpu = |d: &DeviceInfo| d.unusable.is_empty() && d.caps.kind != DeviceKind::Cpu;
    let found: Vec<String> = devices.iter().map(ToString::to_string).collect();
    if devices.iter().any(is_gpu) { Ok(()) } else { Err(format!("there is only {}", found.join(", "))) }
}

/// One for each thread: on one, threads wait for each other's copies, and a driver on the CPU compiles where it runs, on
/// its one queue.
fn devices(gpu: Gpu) -> Vec<Gpu> {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let others: Vec<Gpu> = (1..threads).filter_map(|_| device()).collect();
    [vec![gpu], others].concat()
}

#[test]
fn constructs_of_the_language_run_as_on_the_host() {
    let Some(gpu) = device() else { return };
    let (cases, failures) = language::run(&gpu);
    gpu.info().left_off.iter().for_each(|said| println!("note: {said}"));
    println!("{} ({}): {cases} cases of the language", gpu.caps().name, gpu.caps().driver);
    note(gpu.caps(), "cases of the language", cases, &failures);
    sum_up().unwrap();
    assert!(failures.is_empty(), "{failures:#?}");
    let messages = gpu.validation_messages();
    assert!(messages.is_empty(), "the validation layer says:\n{}", messages.join("\n"));
}

/// Parts of all variants that take turns on the CPU driver: its compiler takes seconds for some.
const PARTS: u64 = 27;

#[test]
fn kernels_equal_their_references_on_the_device() {
    let Some(gpu) = device() else { return };
    let (registry, size) = (Registry::builtin(), gpu.caps().subgroup_size);
    // A cover of the CPU driver's sizes is spread over its three runs; another device gets everything.
    let extent = match Extent::of_environment() {
        Extent::Cover(_) if !DRIVER_SIZES.contains(&size) => Extent::All,
        extent => extent,
    };
    let sizes = if matches!(extent, Extent::Cover(_)) { DRIVER_SIZES.to_vec() } else { vec![size] };
    let at = sizes.iter().position(|s| *s == size).unwrap();
    let names = extent.names(&registry, &sizes, PARTS).swap_remove(at);
    let is_named = matches!(extent, Extent::Named(_));
    assert!(!(is_named && names.is_empty()), "{}", none_named(&extent));
    let devices = devices(gpu);
    let gpu = &devices[0];
    let (is_run, all) = (|v: &Variant| names.contains(&v.name), devices.iter().collect::<Vec<_>>());
    let summary = run_spread(&registry, is_run, &all, extent.is_long());
    println!(
        "{extent}: {} ({}), subgroups of {}, {} threads: {summary}",
        gpu.caps().name,
        gpu.caps().driver,
        gpu.caps().subgroup_size,
        devices.len(),
    );
    print!("{}", summary.lines(is_named));
    print!("{}", sum_up().unwrap());
    assert!(summary.failures.is_empty(), "{extent}: {summary}");
    // What is named may be for other devices.
    let refused_all = is_named && !summary.refused.is_empty();
    assert!(summary.variants > 0 || refused_all, "{extent}: {summary}");
    let messages: Vec<String> = devices.iter().flat_map(Gpu::validation_messages).collect();
    assert!(messages.is_empty(), "the validation layer says:\n{}", messages.join("\n"));
}

#[test]
fn a_pointer_to_blocks_one_word_too_far_is_seen_on_the_device() {
    let Some(gpu) = device() else { return };
    let shifts = shifted::run(&Registry::builtin(), &gpu);
    println!(
        "{} ({}): {} launches with a shifted pointer, each caught",
        gpu.caps().name,
        gpu.caps().driver,
        shifts.caught
    );
    note(gpu.caps(), "launches with a shifted pointer, caught", shifts.caught, &shifts.failures);
    sum_up().unwrap();
    assert!(shifts.failures.is_empty(), "{:#?}", shifts.failures);
    let decodes = gpu.caps().capabilities.contains(&Capability::CooperativeMatrixBlockLoadsNV);
    assert_eq!(shifts.caught > 0, decodes);
    let messages = gpu.validation_messages();
    assert!(messages.is_empty(), "the validation layer says:\n{}", messages.join("\n"));
}
