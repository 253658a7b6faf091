//! Devices and their caps.

use std::env;

use kiln_abi::{Device, DeviceKind, spirv::Capability};
use kiln_runtime::{Gpu, RuntimeError, RuntimeOptions, devices};

use crate::{
    kernels::{groups, subgroup_size},
    machine::{download, open, options, run, upload, words},
};

#[test]
fn every_device_is_listed_with_what_it_can_do() {
    let Some(gpu) = open(&options()) else { return };
    let listed = devices().unwrap();
    assert_eq!(listed[gpu.info().index].caps, *gpu.caps());
    for device in &listed {
        println!("{device}");
        assert!(!device.caps.name.is_empty() && !device.caps.driver.is_empty());
        assert!(device.memory_bytes() > 0 && device.room.bytes <= device.memory_bytes());
        let limits = &device.caps.limits;
        assert!(limits.max_binding_bytes >= 1 << 27, "Vulkan promises 128 MiB");
        assert!(limits.max_invocations >= 128 && limits.max_push_bytes >= 128);
        assert!(limits.binding_offset_alignment.is_power_of_two() && limits.binding_offset_alignment <= 256);
        let text = device.to_string();
        for part in [device.caps.name.as_str(), "subgroup", "capabilities  Shader", "usable"] {
            assert!(text.contains(part), "{part:?} is missing in\n{text}");
        }
    }
}

#[test]
fn a_cpu_driver_shows_its_three_limits_and_its_subgroup_size() {
    let Some(gpu) = open(&options()) else { return };
    let (caps, info) = (gpu.caps(), gpu.info());
    if caps.kind != DeviceKind::Cpu || !caps.name.contains("llvmpipe") {
        eprintln!("NOT RUN: {} is not llvmpipe", caps.name);
        return;
    }
    assert_eq!(caps.limits.max_binding_bytes, 1 << 27);
    assert!(caps.limits.max_allocation_bytes > caps.limits.max_binding_bytes);
    assert!(caps.limits.max_buffer_bytes > caps.limits.max_binding_bytes);
    assert_eq!(gpu.largest_buffer(), 1 << 27);
    // Matrices come and go with the width of its vectors.
    let of_matrices = |c: &Capability| ["Matrix", "Tensor", "BFloat"].iter().any(|n| c.name().contains(n));
    let expected: Vec<_> = Capability::ALL.iter().copied().filter(|c| !of_matrices(c)).collect();
    let found: Vec<_> = caps.capabilities.iter().copied().filter(|c| !of_matrices(c)).collect();
    assert_eq!(found, expected, "llvmpipe has every other capability of the table");
    let khr = caps.capabilities.contains(&Capability::CooperativeMatrixKHR);
    assert_eq!(khr, !caps.matrix.fixed.is_empty());
    assert!(!info.dot4_accelerated);
    if let Some(bits) = env::var("LP_NATIVE_VECTOR_WIDTH").ok().and_then(|v| v.parse::<u32>().ok()) {
        println!("LP_NATIVE_VECTOR_WIDTH={bits}: subgroups of {}", caps.subgroup_size);
        assert_eq!(caps.subgroup_size, bits / 32);
    }
}

#[test]
fn kernels_run_at_the_subgroup_size_that_the_caps_state() {
    let Some(gpu) = open(&options()) else { return };
    let stated = gpu.caps().subgroup_size;
    let (lowest, highest) = gpu.caps().subgroup_sizes;
    assert!(lowest <= stated && stated <= highest);
    for (required, expected) in
        [(None, stated), (Some(stated), stated), (Some(lowest), lowest), (Some(highest), highest)]
    {
        let output = upload(&gpu, "output", &[0; 64]);
        run(&gpu, &subgroup_size(required), vec![words(output, 0, 64)], &[64], groups(64));
        assert_eq!(download(&gpu, output, 64), [expected; 64], "required {required:?}");
        gpu.free(output);
    }
}

#[test]
fn a_selector_opens_the_device_it_names() {
    let Some(gpu) = open(&options()) else { return };
    let (index, name) = (gpu.info().index.to_string(), gpu.caps().name.to_uppercase());
    for selector in [index, name] {
        let again = Gpu::open(&RuntimeOptions { device: Some(selector.clone()), ..options() }).unwrap();
        assert_eq!(again.info().index, gpu.info().index, "{selector}");
    }
    let Err(error) = Gpu::open(&RuntimeOptions { device: Some("no such card".into()), ..options() }) else {
        panic!("there is no such card");
    };
    assert!(matches!(error, RuntimeError::UnknownDevice { .. }));
    assert!(error.to_string().contains(&gpu.caps().name), "{error}");
}

#[test]
fn twenty_devices_come_and_go_without_a_leak() {
    for _ in 0..20 {
        let Some(gpu) = open(&options()) else { return };
        let buffer = upload(&gpu, "input", &[1, 2, 3]);
        assert_eq!(download(&gpu, buffer, 3), [1, 2, 3]);
    }
}
