//! What a launch is refused for, before any device sees it: every registered kernel on a device that only counts.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    num::NonZero,
    sync::LazyLock,
};

use kiln_abi::{
    BufferId, BufferRange, Device, DeviceCaps, DeviceError, DeviceKind, Dispatch, Grid, KernelLayout,
    LaunchArgs, LaunchError, Limits, MatrixCaps, StagedKernel,
    launch::{check_device, launch_staged},
    spirv::Capability,
};
use kiln_conformance::{assert_layouts, cover::Extent};
use kiln_kernels::{Registry, Variant, conformance::Case};

/// A device that has everything, runs nothing and counts dispatches.
struct Mock {
    caps: DeviceCaps,
    dispatches: Cell<usize>,
    seen: RefCell<Vec<BufferRange>>,
}

const NAME: &str = "the mock";
const ALIGNMENT: u32 = 64;

impl Mock {
    fn new(change: impl FnOnce(&mut DeviceCaps)) -> Self {
        let mut caps = DeviceCaps {
            name: NAME.to_owned(),
            driver: "none".to_owned(),
            kind: DeviceKind::Other,
            capabilities: Capability::ALL.iter().copied().collect(),
            left_out: BTreeSet::new(),
            subgroup_size: 32,
            subgroup_sizes: (1, 128),
            matrix: MatrixCaps { fragments: true, ..MatrixCaps::every() },
            limits: Limits {
                max_invocations: u32::MAX,
                max_local_size: [u32::MAX; 3],
                max_grid: [u32::MAX; 3],
                max_workgroup_bytes: u32::MAX,
                max_push_bytes: u32::MAX,
                max_binding_bytes: u64::MAX,
                max_buffer_bytes: u64::MAX,
                max_allocation_bytes: u64::MAX,
                max_bindings: u32::MAX,
                binding_offset_alignment: ALIGNMENT,
            },
        };
        change(&mut caps);
        Mock { caps, dispatches: Cell::new(0), seen: RefCell::default() }
    }

    /// Launches; a success must have dispatched once, a refusal never.
    fn launch(&self, kernel: &StagedKernel, args: &LaunchArgs) -> Result<(), LaunchError> {
        let before = self.dispatches.get();
        let result = launch_staged(self, kernel, args);
        assert_eq!(
            self.dispatches.get() - before,
            usize::from(result.is_ok()),
            "{}: {result:?}",
            kernel.name
        );
        result
    }
}

impl Device for Mock {
    fn caps(&self) -> &DeviceCaps {
        &self.caps
    }
    fn allocate(&self, bytes: u64, label: &str) -> Result<BufferId, DeviceError> {
        let reason = "the mock has no memory".to_owned();
        Err(DeviceError::OutOfMemory { label: label.to_owned(), bytes, reason })
    }
    fn free(&self, _: BufferId) {}
    fn write(&self, buffer: BufferId, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        Err(DeviceError::OutOfRange { buffer, offset, end: offset + data.len() as u64, size: 0 })
    }
    fn read(&self, buffer: BufferId, offset: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        Err(DeviceError::OutOfRange { buffer, offset, end: offset + out.len() as u64, size: 0 })
    }
    fn dispatch(&self, dispatch: &Dispatch<'_>) -> Result<(), DeviceError> {
        self.seen.replace(dispatch.bindings.to_vec());
        self.dispatches.set(self.dispatches.get() + 1);
        Ok(())
    }
}

/// Arguments of a case whose buffers lie apart, each at an aligned offset, exactly as long as its contract asks.
fn exact_args(case: &Case) -> LaunchArgs {
    let range = |(i, bytes)| BufferRange {
        buffer: BufferId(i as u64),
        offset_bytes: 4 * u64::from(ALIGNMENT),
        bytes,
    };
    let ranges: Vec<_> = case.buffers.iter().map(|b| b.bytes() as u64).enumerate().map(range).collect();
    let mut args = (case.bind)(&ranges);
    assert_eq!(args.bindings, ranges, "{}: ranges in binding order", case.name);
    for (range, needed) in args.bindings.iter_mut().zip(&args.needed_bytes) {
        range.bytes = needed.unwrap_or(range.bytes);
    }
    args
}

/// Parts of all variants that take turns.
const PARTS: u64 = 2;

/// Every kernel whose turn it is, with the arguments of its first case.
static LAUNCHES: LazyLock<Vec<(StagedKernel, LaunchArgs)>> = LazyLock::new(|| {
    let launch = |variant: &&Variant| {
        let kernel = variant.stage().unwrap();
        assert_eq!(kernel.name, variant.name);
        (kernel, exact_args(&variant.cases().next().unwrap()))
    };
    let registry = Registry::builtin();
    let extent = Extent::of_environment();
    let variants: Vec<&Variant> = registry.variants().filter(|v| extent.has_turn(&v.name, PARTS)).collect();
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        let parts = variants.chunks(variants.len().div_ceil(threads));
        let running: Vec<_> =
            parts.map(|part| scope.spawn(move || part.iter().map(launch).collect::<Vec<_>>())).collect();
        running.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
});

fn launches() -> &'static [(StagedKernel, LaunchArgs)] {
    // Outside the lock of what needs it, so that every test says it.
    assert_layouts(Registry::builtin().formats());
    &LAUNCHES
}

/// The capabilities that a module's own words declare.
fn declared(words: &[u32]) -> BTreeSet<u32> {
    const HEADER: usize = 5;
    const OP_CAPABILITY: u32 = 17;
    let (mut at, mut found) = (HEADER, BTreeSet::new());
    while at < words.len() {
        if words[at] & 0xffff == OP_CAPABILITY {
            found.insert(words[at + 1]);
        }
        at += (words[at] >> 16) as usize;
    }
    found
}

#[test]
fn a_device_without_a_capability_refuses_exactly_the_kernels_that_declare_it() {
    let (whole, launches) = (Mock::new(|_| ()), launches());
    let declared: Vec<BTreeSet<u32>> = launches.iter().map(|(kernel, _)| declared(&kernel.words)).collect();
    for ((kernel, _), declared) in launches.iter().zip(&declared) {
        check_device(&whole, kernel).unwrap();
        assert!(!declared.is_empty(), "{}", kernel.name);
    }
    let mut counts = BTreeMap::new();
    for &lacking in Capability::ALL {
        let mock = Mock::new(|caps| assert!(caps.capabilities.remove(&lacking)));
        let asked = Mock::new(|caps| caps.leave_out(&BTreeSet::from([lacking])));
        for ((kernel, _), declared) in launches.iter().zip(&declared) {
            let needs = declared.contains(&lacking.number());
            let expected = match needs {
                false => Ok(()),
                true => Err(LaunchError::MissingCapability {
                    kernel: kernel.name.clone(),
                    capability: lacking,
                    device: NAME.to_owned(),
                }),
            };
            assert_eq!(check_device(&mock, kernel), expected, "without {}", lacking.name());
            let (name, device) = (kernel.name.clone(), NAME.to_owned());
            let left_out = LaunchError::LeftOut { kernel: name, capability: lacking, device };
            let expected = if needs { Err(left_out) } else { Ok(()) };
            assert_eq!(check_device(&asked, kernel), expected, "left out: {}", lacking.name());
            *counts.entry(lacking.name()).or_insert(0) += usize::from(needs);
        }
    }
    println!("{} kernels, refused without: {counts:?}", launches.len());
    assert_eq!(counts[Capability::Shader.name()], launches.len());
    assert!(counts.values().any(|&n| n > 0 && n < launches.len()), "some kernels need what others do not");
}

#[test]
fn a_device_without_fragments_refuses_exactly_the_kernels_that_count_on_them() {
    let mock = Mock::new(|caps| caps.matrix.fragments = false);
    let kernels = Registry::builtin();
    let order = kernels.variants().find(|v| v.role == "fragment_order").unwrap().stage().unwrap();
    let refused = LaunchError::MissingFragments { kernel: order.name.clone(), device: NAME.to_owned() };
    assert_eq!(check_device(&mock, &order), Err(refused));
    check_device(&Mock::new(|_| ()), &order).unwrap();
    for (kernel, _) in launches().iter().filter(|(kernel, _)| !kernel.layout.fragments) {
        check_device(&mock, kernel).unwrap();
    }
}

#[test]
fn a_buffer_one_byte_short_is_refused_and_never_submitted() {
    let (mut refused, mut free) = (0, 0);
    let mock = Mock::new(|_| ());
    for (kernel, args) in launches() {
        mock.launch(kernel, args).unwrap();
        for (i, binding) in kernel.layout.bindings.iter().enumerate() {
            let Some(needed) = args.needed_bytes[i] else {
                free += 1;
                continue;
            };
            assert!(needed > 0, "{}: {} is empty in the first case", kernel.name, binding.name);
            let mut short = args.clone();
            short.bindings[i].bytes = needed - 1;
            let expected = LaunchError::TooShort {
                kernel: kernel.name.clone(),
                argument: binding.name.clone(),
                needed,
                given: needed - 1,
            };
            assert_eq!(mock.launch(kernel, &short), Err(expected));
            refused += 1;
        }
    }
    println!("{refused} arguments refused one byte short, {free} without a contract");
    assert!(refused > 0);
    assert_eq!(free, 0, "every buffer has a length contract");
}

#[test]
fn an_empty_grid_is_a_no_op() {
    let mock = Mock::new(|_| ());
    for (kernel, args) in launches() {
        let mut args = args.clone();
        for axis in 0..3 {
            args.grid = Grid([1, 1, 1]);
            args.grid.0[axis] = 0;
            assert_eq!(launch_staged(&mock, kernel, &args), Ok(()), "{}", kernel.name);
            assert_eq!(mock.dispatches.get(), 0, "{}", kernel.name);
        }
        args.grid = Grid([1, 1, 1]);
        mock.launch(kernel, &args).unwrap();
        mock.dispatches.set(0);
    }
}

#[test]
fn a_misaligned_offset_is_refused() {
    let mock = Mock::new(|_| ());
    let any = Mock::new(|caps| caps.limits.binding_offset_alignment = 1);
    for (kernel, args) in launches() {
        for (i, binding) in kernel.layout.bindings.iter().enumerate() {
            let mut off = args.clone();
            off.bindings[i].offset_bytes += u64::from(ALIGNMENT / 2);
            let expected = LaunchError::Misaligned {
                kernel: kernel.name.clone(),
                argument: binding.name.clone(),
                offset: off.bindings[i].offset_bytes,
                alignment: ALIGNMENT,
                device: NAME.to_owned(),
            };
            assert_eq!(mock.launch(kernel, &off), Err(expected));
            any.launch(kernel, &off).unwrap();
        }
    }
}

#[test]
fn a_written_range_overlaps_nothing() {
    let mock = Mock::new(|caps| caps.limits.binding_offset_alignment = 1);
    let (mut refused, mut shared) = (0, 0);
    for (kernel, args) in launches() {
        let bindings = &kernel.layout.bindings;
        for (i, j) in (0..bindings.len()).flat_map(|i| (i + 1..bindings.len()).map(move |j| (i, j))) {
            let first = args.bindings[i];
            let mut behind = args.clone();
            behind.bindings[j].buffer = first.buffer;
            behind.bindings[j].offset_bytes = first.offset_bytes + first.bytes;
            mock.launch(kernel, &behind).unwrap();

            let mut over = behind;
            over.bindings[j].offset_bytes -= 1;
            let writes = [i, j].into_iter().find(|&at| bindings[at].access.writes());
            let Some(written) = writes else {
                mock.launch(kernel, &over).unwrap();
                shared += 1;
                continue;
            };
            let expected = LaunchError::Overlap {
                kernel: kernel.name.clone(),
                written: bindings[written].name.clone(),
                other: bindings[i + j - written].name.clone(),
            };
            assert_eq!(mock.launch(kernel, &over), Err(expected));
            refused += 1;
        }
    }
    println!("{refused} overlaps refused, {shared} shared by readers");
    assert!(refused > 0 && shared > 0);
}

type Row = (&'static str, fn(&KernelLayout) -> u32, fn(&mut Limits, u32));

/// What a kernel's layout needs of a limit, and how a mock allows so much and no more.
const LIMITS: [Row; 7] = [
    ("invocations per workgroup", |l| l.local_size.iter().product(), |l, n| l.max_invocations = n),
    ("invocations along x", |l| l.local_size[0], |l, n| l.max_local_size[0] = n),
    ("invocations along y", |l| l.local_size[1], |l, n| l.max_local_size[1] = n),
    ("invocations along z", |l| l.local_size[2], |l, n| l.max_local_size[2] = n),
    ("bytes of workgroup memory", |l| l.workgroup_bytes, |l, n| l.max_workgroup_bytes = n),
    ("bytes of push constants", |l| 4 * l.push.len() as u32, |l, n| l.max_push_bytes = n),
    ("storage buffers", |l| l.bindings.len() as u32, |l, n| l.max_bindings = n),
];

fn over_limit(kernel: &StagedKernel, what: &'static str, needed: u64) -> Result<(), LaunchError> {
    let (kernel, device) = (kernel.name.clone(), NAME.to_owned());
    Err(LaunchError::OverLimit { kernel, what, needed, allowed: needed - 1, device })
}

#[test]
fn a_kernel_over_a_limit_is_refused_by_name() {
    for (what, needs, allow) in LIMITS {
        let mut refused = 0;
        for (kernel, args) in launches() {
            let needed = needs(&kernel.layout);
            Mock::new(|caps| allow(&mut caps.limits, needed)).launch(kernel, args).unwrap();
            if needed > 0 {
                let mock = Mock::new(|caps| allow(&mut caps.limits, needed - 1));
                assert_eq!(mock.launch(kernel, args), over_limit(kernel, what, needed.into()));
                refused += 1;
            }
        }
        println!("{what}: {refused} of {} refused one below", launches().len());
        assert!(refused > 0, "{what}");
    }
}

#[test]
fn a_launch_over_a_limit_is_refused_by_name() {
    for (kernel, args) in launches() {
        for (axis, what) in
            ["workgroups along x", "workgroups along y", "workgroups along z"].into_iter().enumerate()
        {
            let needed = args.grid.0[axis];
            Mock::new(|caps| caps.limits.max_grid[axis] = needed).launch(kernel, args).unwrap();
            let mock = Mock::new(|caps| caps.limits.max_grid[axis] = needed - 1);
            assert_eq!(mock.launch(kernel, args), over_limit(kernel, what, needed.into()));
        }
        let longest = args.bindings.iter().map(|range| range.bytes).max().unwrap();
        Mock::new(|caps| caps.limits.max_binding_bytes = longest).launch(kernel, args).unwrap();
        let mock = Mock::new(|caps| caps.limits.max_binding_bytes = longest - 1);
        assert_eq!(mock.launch(kernel, args), over_limit(kernel, "bytes in one binding", longest));
    }
}

#[test]
fn a_subgroup_size_that_the_device_lacks_is_refused() {
    for (kernel, args) in launches() {
        let mut asking = kernel.clone();
        asking.layout.subgroup_size = Some(kernel.layout.subgroup_size.unwrap_or(32));
        let needed = asking.layout.subgroup_size.unwrap();
        for (lowest, highest) in [(needed + 1, 128), (1, needed - 1)] {
            let mock = Mock::new(|caps| caps.subgroup_sizes = (lowest, highest));
            let (name, device) = (kernel.name.clone(), NAME.to_owned());
            let refusal = LaunchError::SubgroupSize { kernel: name, needed, lowest, highest, device };
            assert_eq!(mock.launch(&asking, args), Err(refusal));
            assert_eq!(mock.launch(kernel, args).is_ok(), kernel.layout.subgroup_size.is_none());
        }
        Mock::new(|caps| caps.subgroup_sizes = (needed, needed)).launch(&asking, args).unwrap();
    }
}

#[test]
fn windows_begin_at_any_64_bit_byte() {
    let mock = Mock::new(|_| ());
    for (kernel, args) in launches() {
        let mut far = args.clone();
        for (i, range) in (1u64..).zip(&mut far.bindings) {
            // Beyond what 32 bits count, all in one buffer, one behind the other.
            range.buffer = BufferId(0);
            range.offset_bytes = i * ((5 << 30) + u64::from(ALIGNMENT));
        }
        assert_eq!(mock.launch(kernel, &far), Ok(()), "{}", kernel.name);
        assert_eq!(mock.seen.borrow().as_slice(), far.bindings, "{}", kernel.name);
        // The control: two windows whose low 32 bits lie apart, and whose bytes do not.
        let written = kernel.layout.bindings.iter().position(|b| b.access.writes()).unwrap();
        if far.bindings.len() < 2 || far.bindings[written].bytes <= u64::from(ALIGNMENT) {
            continue;
        }
        let other = usize::from(written == 0);
        far.bindings[other].offset_bytes = far.bindings[written].offset_bytes + u64::from(ALIGNMENT);
        let refused = mock.launch(kernel, &far);
        assert!(matches!(refused, Err(LaunchError::Overlap { .. })), "{}: {refused:?}", kernel.name);
    }
}
