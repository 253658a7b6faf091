//! The runtime on a real Vulkan driver, with the validation layer listening. Any message of it fails the test.
//!
//! Without a driver every test fails, unless `KILN_NO_VULKAN=1` says that this is known; `KILN_NO_VALIDATION=1` does
//! the same for a machine without the validation layer.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's own functions fail the test")]

mod assembler;
mod device;
mod faults;
mod kernels;
mod machine;
mod memory;
mod pipeline;
mod record;
mod timing;
