//! Pipelines: refusals, the cache in memory and on disk.

use std::{collections::BTreeSet, env, fs, path::PathBuf, process};

use kiln_abi::{Device, DeviceError, Dispatch, LaunchError, spirv::Capability};
use kiln_runtime::{CacheDir, CacheUse, RuntimeOptions};

use crate::{
    kernels::{accumulate, affine, groups, needing, push, subgroup_size},
    machine::{download, open, options, run, upload, words},
};

#[test]
fn a_missing_capability_is_refused_by_name_before_a_pipeline_exists() {
    let without = BTreeSet::from([Capability::Float16]);
    let Some(gpu) = open(&RuntimeOptions { without, ..options() }) else { return };
    let kernel = needing(Capability::Float16);
    let error = gpu.prepare(&kernel).err().unwrap();
    let blamed = match &error {
        LaunchError::LeftOut { capability: Capability::Float16, .. } => Some(true),
        LaunchError::MissingCapability { capability: Capability::Float16, .. } => Some(false),
        _ => None,
    };
    assert_eq!(blamed, Some(gpu.caps().left_out.contains(&Capability::Float16)), "{error}");
    assert!(error.to_string().contains("needing_Float16"), "{error}");
    let output = upload(&gpu, "output", &[0; 64]);
    let bindings = [words(output, 0, 64)];
    let dispatch = Dispatch {
        kernel: &kernel,
        bindings: &bindings,
        needed_bytes: &[],
        push: &push(&[64]),
        grid: 1.into(),
    };
    let error = gpu.dispatch(&dispatch).unwrap_err();
    assert!(error.to_string().contains("Float16"), "an unchecked dispatch is refused too: {error}");
    assert_eq!(gpu.cache_use(), CacheUse::default(), "no pipeline was made");
    assert!(gpu.prepare(&needing(Capability::Int8)).is_ok(), "another capability is there");
}

#[test]
fn a_kernel_whose_capability_the_device_has_runs() {
    let Some(gpu) = open(&options()) else { return };
    for &capability in &gpu.caps().capabilities.clone() {
        if capability == Capability::Shader || capability == Capability::VulkanMemoryModel {
            continue;
        }
        let output = upload(&gpu, "output", &[0; 64]);
        run(&gpu, &needing(capability), vec![words(output, 0, 64)], &[64], groups(64));
        assert_eq!(download(&gpu, output, 64), [64; 64], "{}", capability.name());
        gpu.free(output);
    }
}

#[test]
fn impossible_subgroup_sizes_are_refused() {
    let Some(gpu) = open(&options()) else { return };
    let (lowest, highest) = gpu.caps().subgroup_sizes;
    for size in [lowest / 2, highest * 2, 3] {
        let error = gpu.prepare(&subgroup_size(Some(size))).err().unwrap();
        assert!(matches!(error, LaunchError::SubgroupSize { .. }), "{size}: {error}");
    }
}

#[test]
fn a_kernel_is_compiled_once() {
    let Some(gpu) = open(&options()) else { return };
    for _ in 0..3 {
        gpu.prepare(&affine()).unwrap();
    }
    gpu.prepare(&accumulate()).unwrap();
    assert_eq!(gpu.cache_use(), CacheUse { memory: 2, disk: 0, compiled: 2 });
    let mut renamed = affine();
    renamed.name = "affine_too".into();
    assert_eq!(gpu.prepare(&renamed).unwrap().name(), "affine_too", "errors keep each kernel's own name");
}

#[test]
fn statistics_are_what_the_driver_says_where_they_are_asked_for() {
    let Some(gpu) = open(&RuntimeOptions { statistics: true, ..options() }) else { return };
    let prepared = gpu.prepare(&affine()).unwrap();
    let said = prepared.statistics();
    println!("{} says: {said:?}", gpu.caps().name);
    assert!(said.iter().all(|s| !s.name.is_empty() && s.value.is_finite()), "{said:?}");
    let Some(gpu) = open(&options()) else { return };
    assert_eq!(gpu.prepare(&affine()).unwrap().statistics(), [], "nobody asked");
}

#[test]
fn compiled_pipelines_outlive_the_process_and_damage_is_repaired() {
    let folder = Folder(env::temp_dir().join(format!("kiln-pipelines-{}", process::id())));
    let cached = RuntimeOptions { cache: CacheDir::At(folder.0.clone()), ..options() };
    let use_once = || -> Option<CacheUse> {
        let gpu = open(&cached)?;
        let (input, output) = (upload(&gpu, "input", &[7; 64]), upload(&gpu, "output", &[0; 64]));
        run(&gpu, &affine(), vec![words(input, 0, 64), words(output, 0, 64)], &[64, 3, 1], groups(64));
        assert_eq!(download(&gpu, output, 64), [22; 64]);
        Some(gpu.cache_use())
    };
    let compiled = CacheUse { memory: 0, disk: 0, compiled: 1 };
    let from_disk = CacheUse { memory: 0, disk: 1, compiled: 0 };
    let Some(first) = use_once() else { return };
    assert_eq!(first, compiled);
    assert_eq!(use_once(), Some(from_disk));
    let files = folder.files();
    assert_eq!(files.len(), 1, "{files:?}");
    let whole = fs::read(&files[0]).unwrap();
    for damage in [&b""[..], b"not a cache", &whole[..whole.len() - 1]] {
        fs::write(&files[0], damage).unwrap();
        assert_eq!(use_once(), Some(compiled), "damage is noticed");
        assert_eq!(use_once(), Some(from_disk), "and repaired");
    }
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    fs::write(&files[0], &flipped).unwrap();
    assert_eq!(use_once(), Some(compiled));
}

#[test]
fn broken_words_are_an_error_with_the_kernels_name() {
    let Some(gpu) = open(&options()) else { return };
    let mut kernel = affine();
    kernel.layout.entry = "elsewhere\0".into();
    let error = gpu.prepare(&kernel).err().unwrap();
    let LaunchError::Device(DeviceError::Refused { kernel, .. }) = &error else { panic!("{error}") };
    assert_eq!(kernel, "affine");
}

struct Folder(PathBuf);

impl Folder {
    fn files(&self) -> Vec<PathBuf> {
        let folders = fs::read_dir(self.0.join("pipelines")).unwrap();
        folders.flat_map(|f| fs::read_dir(f.unwrap().path()).unwrap()).map(|f| f.unwrap().path()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
