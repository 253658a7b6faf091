//! Runs variants on a device, spread over the processors: one stages and computes references while another's launch runs.

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use kiln_abi::{Device, Floor, LaunchError, StagedKernel, launch::check_device};
use kiln_kernels::{
    FormatRow, Registry, Variant,
    conformance::{check, check_format},
};

use crate::{
    Summary,
    record::{Key, Record},
};

/// Runs every case of every variant on `device`; none where a format's layout is not what it promises, which fails then.
pub fn run(registry: &Registry, device: &(impl Device + Sync)) -> Summary {
    run_spread(registry, |_| true, &of_threads(device), false)
}

/// What is wrong with formats before any kernel runs: no case can be made of blocks that have no place on a device.
pub(crate) fn broken_layouts<'r>(formats: impl Iterator<Item = &'r FormatRow>) -> Vec<String> {
    let broken = |row: &FormatRow| Some(format!("layout of {}: {}", row.name, check_format(row).err()?));
    formats.filter_map(broken).collect()
}

/// Fails where a format's layout is not what it promises, with a line for each: nothing that makes cases of its blocks, or
/// kernels that read its planes, can go on.
#[track_caller]
pub fn assert_layouts<'r>(formats: impl Iterator<Item = &'r FormatRow>) {
    let broken = broken_layouts(formats);
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Runs these variants on `device`, with the cases that take long or without.
pub fn run_those<'r>(
    variants: impl Iterator<Item = &'r Variant>,
    device: &(impl Device + Sync),
    long: bool,
) -> Summary {
    spread(variants, &of_threads(device), long)
}

fn of_threads<D>(device: &D) -> Vec<&D> {
    vec![device; std::thread::available_parallelism().map_or(1, NonZero::get)]
}

/// Runs the variants of `registry` that `is_run` names, each on one of `devices`, which are alike: a thread for each. None
/// where a format of theirs has a layout that is not what it promises, which fails then.
///
/// What fails is printed at once; with `KILN_RECORD=FILE` every variant leaves a line of JSON there, and one that passed
/// with the same words on the same device does not run again.
pub fn run_spread<D: Device + Sync>(
    registry: &Registry,
    is_run: impl Fn(&Variant) -> bool,
    devices: &[&D],
    long: bool,
) -> Summary {
    let failures = broken_layouts(registry.formats().filter(|row| row.variants.iter().any(&is_run)));
    if failures.is_empty() {
        return spread(registry.variants().filter(|v| is_run(v)), devices, long);
    }
    Summary { failures, ..Summary::default() }
}

fn spread<'r, D: Device + Sync>(
    variants: impl Iterator<Item = &'r Variant>,
    devices: &[&D],
    long: bool,
) -> Summary {
    let variants = some_of_each_first(variants);
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let record = Record::of_environment();
    let work = |device: &D| {
        while let Some(variant) = variants.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut summary = run_variant(variant, device, long, &record).of(&variant.name);
            if summary.refused.is_empty() {
                summary.outcomes.add(variant, !summary.failures.is_empty());
            }
            summary.failures.iter().for_each(|failure| eprintln!("FAILED {failure}"));
            if let Ok(mut done) = done.lock() {
                done.push((&variant.name, summary));
            }
        }
    };
    std::thread::scope(|scope| {
        let work = &work;
        devices.iter().for_each(|&device| _ = scope.spawn(move || work(device)));
    });
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(name, _)| *name);
    done.into_iter().map(|(_, summary)| summary).fold(Summary::default(), Summary::join)
}

/// The first variant of every role, format and arm, then the second of each, and so on: a run that is cut off has seen
/// some of everything.
fn some_of_each_first<'r>(variants: impl Iterator<Item = &'r Variant>) -> Vec<&'r Variant> {
    let mut counts = HashMap::new();
    let count = |v: &'r Variant| {
        let n = counts.entry((v.role, v.format, v.arm)).or_insert(0);
        *n += 1;
        (*n, v)
    };
    let mut counted: Vec<(usize, &Variant)> = variants.map(count).collect();
    counted.sort_by_key(|(n, _)| *n);
    counted.into_iter().map(|(_, v)| v).collect()
}

fn run_variant(variant: &Variant, device: &dyn Device, long: bool, record: &Record) -> Summary {
    let start = Instant::now();
    let kernel = match variant.stage() {
        Ok(kernel) => kernel,
        Err(errors) => return Summary { failures: vec![errors.to_string()], ..Summary::default() },
    };
    let key = Key::new(device.caps(), &kernel, long);
    if let Some(passed) = record.passed(&key) {
        return passed.clone();
    }
    let summary = run_kernel(variant, &kernel, device, long);
    record.write(&key, variant, &summary, start.elapsed());
    summary
}

fn run_kernel(variant: &Variant, kernel: &StagedKernel, device: &dyn Device, long: bool) -> Summary {
    match check_device(device, kernel) {
        Ok(()) => (),
        Err(refusal) if is_lack(kernel, &refusal) => {
            return Summary { refused: vec![refusal], ..Summary::default() };
        }
        Err(other) => return Summary { failures: vec![other.to_string()], ..Summary::default() },
    }
    let mut summary = Summary { variants: 1, ..Summary::default() };
    let more = long.then(|| variant.long_cases()).into_iter().flatten();
    for case in variant.cases().chain(more) {
        match check(device, kernel, &case) {
            Ok(report) => summary.add(report),
            Err(failure) => summary.failures.push(format!("{}: {failure}", variant.name)),
        }
    }
    summary
}

/// Whether the device lacks what not every device has: a capability, a subgroup size, fragments, the matrices that a kernel
/// is cut for with the workgroup memory that goes with them, or more memory and invocations of a workgroup than every
/// device has, where a kernel states that it needs them.
fn is_lack(kernel: &StagedKernel, refusal: &LaunchError) -> bool {
    let of_matrices = !kernel.layout.products.is_empty();
    match refusal {
        LaunchError::MissingCapability { .. }
        | LaunchError::LeftOut { .. }
        | LaunchError::MissingProduct { .. }
        | LaunchError::MissingFragments { .. }
        | LaunchError::SubgroupSize { .. } => true,
        LaunchError::OverLimit { needed, .. } => of_matrices || states(kernel, *needed),
        _ => false,
    }
}

/// Whether that much is what a kernel needs beyond every device.
fn states(kernel: &StagedKernel, needed: u64) -> bool {
    let (layout, floor) = (&kernel.layout, Floor::default());
    let own = [(layout.workgroup_bytes, floor.workgroup_bytes), (layout.invocations(), floor.invocations)];
    own.iter().any(|(own, floor)| own > floor && u64::from(*own) == needed)
}

#[cfg(test)]
mod tests {
    use kiln_abi::{DeviceCaps, launch::check_caps};
    use kiln_kernels::Registry;
    use kiln_spirv_interp::{InterpOptions, Interpreter};

    use super::*;

    /// The refusal of the first kernel of its kind by a device with less, and whether that is a lack.
    fn refused(kind: impl Fn(&StagedKernel) -> bool, less: impl Fn(&mut DeviceCaps)) -> (LaunchError, bool) {
        let registry = Registry::builtin();
        let kernel =
            registry.variants().filter_map(|v| v.stage().ok()).find(kind).expect("a kernel of the kind");
        let mut caps =
            Interpreter::new(InterpOptions { subgroup_size: 32, ..Default::default() }).caps().clone();
        check_caps(&caps, &kernel).expect("the interpreter runs every kernel");
        less(&mut caps);
        let refusal = check_caps(&caps, &kernel).expect_err("the device has less than the kernel needs");
        let lack = is_lack(&kernel, &refusal);
        (refusal, lack)
    }

    #[test]
    fn what_a_kernel_states_may_be_lacking_and_what_every_device_has_may_not() {
        let floor = Floor::default();
        let plain = |k: &StagedKernel| k.layout.products.is_empty();
        let large = |k: &StagedKernel| plain(k) && k.layout.workgroup_bytes > floor.workgroup_bytes;
        let wide = |k: &StagedKernel| plain(k) && k.layout.invocations() > floor.invocations;
        let modest = |k: &StagedKernel| plain(k) && !large(k) && !wide(k) && k.layout.workgroup_bytes > 1024;
        let bytes = |caps: &mut DeviceCaps| caps.limits.max_workgroup_bytes = floor.workgroup_bytes;
        assert!(matches!(refused(large, bytes), (LaunchError::OverLimit { .. }, true)));
        let invocations = |caps: &mut DeviceCaps| caps.limits.max_invocations = floor.invocations;
        assert!(matches!(refused(wide, invocations), (LaunchError::OverLimit { .. }, true)));
        let none = |caps: &mut DeviceCaps| caps.limits.max_workgroup_bytes = 1024;
        assert!(matches!(refused(modest, none), (LaunchError::OverLimit { .. }, false)));
        let push = |caps: &mut DeviceCaps| caps.limits.max_push_bytes = 0;
        assert!(matches!(refused(large, push), (LaunchError::OverLimit { .. }, false)));
    }

    #[test]
    fn a_subgroup_that_a_device_lacks_comes_before_its_limits() {
        let kind = |k: &StagedKernel| k.layout.subgroup_size == Some(32) && k.layout.workgroup_bytes > 16384;
        let less = |caps: &mut DeviceCaps| {
            caps.subgroup_sizes = (8, 8);
            caps.limits.max_workgroup_bytes = 16384;
        };
        assert!(matches!(refused(kind, less), (LaunchError::SubgroupSize { .. }, true)));
    }
}
