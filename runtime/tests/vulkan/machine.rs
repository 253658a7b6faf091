//! Opening the machine's device for a test, and failing the test on any validation message.

use std::{env, ops::Deref, thread};

use kiln_abi::{BufferId, BufferRange, Device, Grid, LaunchArgs, StagedKernel, launch::launch_staged};
use kiln_runtime::{CacheDir, Gpu, RuntimeError, RuntimeOptions, ValidationLog};

/// A device whose validation log must stay empty, its destruction included.
pub struct Machine {
    gpu: Option<Gpu>,
    log: ValidationLog,
    expects_messages: bool,
}

impl Deref for Machine {
    type Target = Gpu;
    fn deref(&self) -> &Gpu {
        self.gpu.as_ref().expect("the device is open until the test ends")
    }
}

impl Machine {
    /// Ends the test with messages expected: they are returned and fail nothing.
    pub fn into_messages(mut self) -> Vec<String> {
        self.expects_messages = true;
        self.gpu = None;
        self.log.messages()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.gpu = None;
        let messages = self.log.messages();
        if !thread::panicking() && !self.expects_messages {
            assert!(messages.is_empty(), "validation messages:\n{}", messages.join("\n"));
        }
    }
}

/// What tests open: validation on, no cache on disk.
pub fn options() -> RuntimeOptions {
    RuntimeOptions { validation: validated(), cache: CacheDir::Off, ..Default::default() }
}

/// Whether this machine has the validation layer, as far as the environment says.
pub fn validated() -> bool {
    env::var_os("KILN_NO_VALIDATION").is_none_or(|v| v != "1")
}

/// The device, or `None` on a machine that is known to have none.
pub fn open(options: &RuntimeOptions) -> Option<Machine> {
    match Gpu::open(options) {
        Ok(gpu) => Some(Machine { log: gpu.validation_log(), gpu: Some(gpu), expects_messages: false }),
        Err(RuntimeError::NoLoader { .. } | RuntimeError::NoDriver { .. })
            if env::var_os("KILN_NO_VULKAN").is_some_and(|v| v == "1") =>
        {
            eprintln!("NOT RUN: no Vulkan driver, and KILN_NO_VULKAN=1");
            None
        }
        Err(error) => panic!(
            "THIS TEST NEEDS A VULKAN DRIVER WITH ITS VALIDATION LAYER (KILN_NO_VULKAN=1 skips it): {error}"
        ),
    }
}

/// A buffer with these words.
pub fn upload(gpu: &Gpu, label: &str, words: &[u32]) -> BufferId {
    let buffer = gpu.allocate(words.len() as u64 * 4, label).unwrap();
    gpu.write(buffer, 0, &bytes(words)).unwrap();
    buffer
}

/// The first `n` words of a buffer.
pub fn download(gpu: &Gpu, buffer: BufferId, n: usize) -> Vec<u32> {
    let mut out = vec![0; n * 4];
    gpu.read(buffer, 0, &mut out).unwrap();
    out.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect()
}

pub fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// `n` words of a buffer, from word `start`.
pub fn words(buffer: BufferId, start: u64, n: u64) -> BufferRange {
    BufferRange { buffer, offset_bytes: start * 4, bytes: n * 4 }
}

/// Launches through the checks that every caller passes.
pub fn run(gpu: &Gpu, kernel: &StagedKernel, bindings: Vec<BufferRange>, push: &[u32], groups: u32) {
    launch_staged(gpu, kernel, &args(&bindings, &bytes(push), groups)).unwrap();
}

/// A launch of a kernel without contracts.
pub fn args(bindings: &[BufferRange], push: &[u8], grid: impl Into<Grid>) -> LaunchArgs {
    let needed_bytes = vec![None; bindings.len()];
    LaunchArgs { bindings: bindings.to_vec(), needed_bytes, push: push.to_vec(), grid: grid.into() }
}

/// Numbers that differ everywhere.
pub fn pattern(n: usize, seed: u32) -> Vec<u32> {
    (0..n as u32).map(|i| (i ^ seed).wrapping_mul(2_654_435_761).rotate_left(seed % 31)).collect()
}
