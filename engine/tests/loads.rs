//! Twenty loads and drops in a process that does nothing else: neither the device's memory nor the process grows.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod slots;
mod tiny;

use kiln_engine::forward::Backend as _;
use kiln_engine::plan::{ContextWish, PlanOptions};
use kiln_engine::session::ModelFile;
use kiln_engine::submit::DeviceModel;
use kiln_runtime::{Gpu, MemoryUse};

const OPTIONS: PlanOptions = PlanOptions::new(ContextWish::Exactly(64));
/// Models loaded before anything counts: drivers keep what they compiled, allocators what they got.
const WARM: usize = 10;
const LOADS: usize = 20;
/// What the process may grow by in all loads that count: less than one of the models.
const ALLOWED: usize = 4 << 20;

/// Bytes of the process that are in memory, where the system tells.
fn resident() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<usize>().ok()? << 10)
}

fn load(gpu: &Gpu, file: &ModelFile) -> DeviceModel {
    let model = slots::load(gpu, file, OPTIONS);
    model.sequence(64).unwrap().feed_greedy(&[1, 2, 3]).unwrap();
    assert!(gpu.memory_use().buffers > 0);
    model
}

#[test]
fn twenty_loads_and_drops_leave_nothing() {
    let Some(gpu) = slots::gpu() else { return };
    let models: Vec<ModelFile> =
        tiny::all().iter().filter(|tiny| !tiny.name.contains('-')).map(tiny::Tiny::file).collect();
    let (mut after_first, mut before) = (None, None);
    for (at, file) in models.iter().cycle().take(WARM + LOADS).enumerate() {
        if at == WARM {
            before = resident();
        }
        drop(load(&gpu, file));
        let MemoryUse { buffers, buffer_bytes, slabs, slab_bytes } = gpu.memory_use();
        assert_eq!((buffers, buffer_bytes), (0, 0), "load {at} left something behind");
        // One shared slab is kept for the next load; it never becomes two.
        let kept = (slabs, slab_bytes);
        assert_eq!(*after_first.get_or_insert(kept), kept, "after {at} loads");
    }
    let grown = || Some(resident()?.saturating_sub(before?));
    match grown() {
        Some(bytes) => {
            println!("{LOADS} loads: the process has grown by {bytes} bytes");
            assert!(bytes <= ALLOWED, "{LOADS} loads: the process has grown by {bytes} bytes");
            // Control: models that stay are seen.
            let stay: Vec<_> = models.iter().cycle().take(LOADS).map(|file| load(&gpu, file)).collect();
            let bytes = grown().unwrap();
            println!("{} that stay: by {bytes} bytes", stay.len());
            assert!(bytes > ALLOWED, "{LOADS} models that stay are {bytes} bytes");
        }
        None => println!("NOT RUN: this system does not tell what a process has in memory"),
    }
    slots::clean(&gpu);
}
