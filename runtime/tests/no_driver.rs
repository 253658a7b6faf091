//! A machine without a Vulkan driver, in a process of its own: the loader reads its environment once.

use kiln_runtime::{Gpu, RuntimeError, RuntimeOptions, devices};

#[test]
fn a_missing_driver_says_what_to_install() {
    for variable in ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"] {
        // SAFETY: this is the process's only test, and no other thread reads the environment.
        unsafe { std::env::set_var(variable, "/nonexistent.json") };
    }
    for error in [Gpu::open(&RuntimeOptions::default()).err().unwrap(), devices().err().unwrap()] {
        println!("{error}");
        assert!(matches!(error, RuntimeError::NoDriver { .. } | RuntimeError::NoLoader { .. }), "{error:?}");
        assert!(error.to_string().contains("install"), "{error}");
    }
}
