//! Loads in a process that does nothing else: twenty and as many drops leave neither the device's memory nor the process
//! larger, and each logs what it declines once.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod events;
mod slots;
mod tiny;

use std::sync::Mutex;

use kiln_engine::forward::Backend as _;
use kiln_engine::plan::{ContextWish, PlanOptions};
use kiln_engine::session::ModelFile;
use kiln_engine::submit::DeviceModel;
use kiln_kernels::Registry;
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

/// What these tests watch belongs to the whole process.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn twenty_loads_and_drops_leave_nothing() {
    let _alone = ALONE.lock().unwrap();
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

#[test]
fn a_load_logs_what_it_declines_once() {
    let _alone = ALONE.lock().unwrap();
    let Some(gpu) = slots::gpu() else { return };
    let file = slots::tiny("llama").file();
    for load_again in [false, true] {
        let (model, logged) = events::declines(|| slots::load(&gpu, &file, OPTIONS));
        assert_eq!(logged, model.plan().declines, "load again: {load_again}");
        assert_eq!(logged.is_empty(), model.plan().matrices);
        // Sequences and steps add nothing.
        let (_, logged) =
            events::declines(|| slots::choose(&model, model.slots().start(64).unwrap(), &slots::ids(1, 20)));
        assert_eq!(logged, [""; 0]);
    }
    let registry = Registry::builtin();
    let options = PlanOptions { context: ContextWish::Exactly(1 << 40), ..OPTIONS };
    let (refused, logged) = events::declines(|| {
        DeviceModel::load(&gpu, &file.gguf, &file.model.graph, &registry, options, &|_, _| ())
    });
    let refused = refused.err().unwrap().to_string();
    assert!(logged.len() == 1 && refused.starts_with(&logged[0]), "{logged:?}");
    slots::clean(&gpu);
}
