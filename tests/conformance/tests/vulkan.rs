//! Every kernel on the Vulkan device that is here, with the validation layer on.

use kiln_abi::Device;
use kiln_conformance::run;
use kiln_kernels::Registry;
use kiln_runtime::{CacheDir, Gpu, RuntimeOptions};

#[test]
fn kernels_equal_their_references_on_the_device() {
    if std::env::var_os("KILN_NO_VULKAN").is_some() {
        println!("NOT RUN: KILN_NO_VULKAN is set, no kernel was launched through Vulkan");
        return;
    }
    let device = std::env::var("KILN_DEVICE").ok();
    let options = RuntimeOptions { device, validation: true, cache: CacheDir::Off, ..Default::default() };
    let gpu = Gpu::open(&options).unwrap();
    let registry = Registry::builtin();
    let summary = run(&registry, &gpu);
    println!(
        "{} ({}), subgroups of {}: {summary}",
        gpu.caps().name,
        gpu.caps().driver,
        gpu.caps().subgroup_size
    );
    assert!(summary.failures.is_empty(), "{summary}");
    assert!(summary.variants > 0, "{summary}");
    let messages = gpu.validation_messages();
    assert!(messages.is_empty(), "the validation layer says:\n{}", messages.join("\n"));
}
