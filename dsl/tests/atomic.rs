//! Atomic and plain accesses to one place need a barrier between them; each kernel has the twin that keeps it.
#![expect(clippy::panic, clippy::unwrap_used, reason = "tests")]

mod device;

use device::run;
use kiln_abi::{BufferRange, Device, DeviceError, Kernel, LaunchError, launch::launch_staged};
use kiln_dsl::prelude::*;
use kiln_spirv_interp::{InterpOptions, Interpreter, SUBGROUP_SIZES};

macro_rules! kernels {
    ($($(#[$doc:meta])* $name:ident($grid:literal, $x:ident, $y:ident, $t:ident) $body:block)*) => { $(
        $(#[$doc])*
        #[kernel(local_size = 16, grid = $grid)]
        pub fn $name($x: &Buf<u32>, $y: &BufMut<u32>) {
            let $t = local_id();
            $body
        }
    )* };
}

kernels! {
    /// A plain read after the others' atomics.
    unordered_read(1, x, y, t) {
        let n = Shared::<u32>::new(1);
        if t == 0 { n[0] = 0; }
        barrier();
        atomic::add(&n[0], x[t]);
        y[t] = n[0];
    }
    /// With the barrier.
    ordered_read(1, x, y, t) {
        let n = Shared::<u32>::new(1);
        if t == 0 { n[0] = 0; }
        barrier();
        atomic::add(&n[0], x[t]);
        barrier();
        y[t] = n[0];
    }
    /// The first zero is a plain store that nothing orders with the atomics.
    unordered_start(1, x, y, t) {
        if t == 0 { y[0] = 0; }
        atomic::add(&y[0], x[t]);
    }
    /// Nothing is there yet.
    uninitialized(1, x, y, t) {
        let n = Shared::<u32>::new(1);
        atomic::max(&n[0], x[t]);
        barrier();
        y[t] = n[0];
    }
    /// A plain read of what another workgroup adds to.
    other_workgroup(2, x, y, t) {
        if workgroup_id_x() == 0 {
            atomic::add(&y[0], x[t]);
        } else if t == 0 {
            y[1] = y[0];
        }
    }
    /// A plain read after one's own atomic, where others had theirs.
    own_after_others(1, x, y, t) {
        atomic::add(&y[0], x[t]);
        if t == 15 { y[1] = y[0]; }
    }
    /// An atomic read is in no race with atomic writes.
    atomic_read(2, x, y, t) {
        atomic::add(&y[0], x[t]);
        if t == 15 { atomic::max(&y[1], atomic::load(&y[0])); }
    }
    /// A plain store over atomic reads.
    store_over_reads(1, x, y, t) {
        let n = Shared::<u32>::new(1);
        if t == 0 { n[0] = x[t]; }
        barrier();
        let seen = atomic::load(&n[0]);
        if t == 3 { n[0] = seen; }
        barrier();
        y[t] = n[0];
    }
    /// An atomic store over atomic reads.
    atomic_store_over_reads(1, x, y, t) {
        let n = Shared::<u32>::new(1);
        if t == 0 { n[0] = x[t]; }
        barrier();
        let seen = atomic::load(&n[0]);
        if t == 3 { atomic::store(&n[0], seen); }
        barrier();
        y[t] = n[0];
    }
    /// The last workgroup adds up what each released.
    last_adds_up(4, x, y, t) {
        if t == 0 {
            let w = workgroup_id_x();
            y[2 + w] = x[w] + w;
            if atomic::acquire_release::add(&y[0], 1) == 3 {
                let mut sum: u32 = 0;
                for i in 0..4 { sum += y[2 + i]; }
                y[1] = sum;
            }
        }
    }
    /// Nothing is acquired.
    last_without_acquire(4, x, y, t) {
        if t == 0 {
            let w = workgroup_id_x();
            y[2 + w] = x[w] + w;
            if atomic::release::add(&y[0], 1) == 3 {
                for i in 0..4 { y[1] = y[2 + i]; }
            }
        }
    }
    /// Nothing is released.
    last_without_release(4, x, y, t) {
        if t == 0 {
            let w = workgroup_id_x();
            y[2 + w] = x[w] + w;
            if atomic::acquire::add(&y[0], 1) == 3 {
                for i in 0..4 { y[1] = y[2 + i]; }
            }
        }
    }
    /// Released before it is stored.
    released_too_early(4, x, y, t) {
        if t == 0 {
            let w = workgroup_id_x();
            let before = atomic::acquire_release::add(&y[0], 1);
            y[2 + w] = x[w];
            if before == 3 {
                for i in 0..4 { y[1] = y[2 + i]; }
            }
        }
    }
    /// What all invocations stored is released behind a barrier, and read behind another.
    last_together(4, x, y, t) {
        let last = Shared::<u32>::new(1);
        let w = workgroup_id_x();
        if t < 3 { y[2 + 3 * w + t] = x[t] + w; }
        barrier_buffers();
        if t == 0 {
            last[0] = (atomic::acquire_release::add(&y[0], 1) == 3) as u32;
        }
        barrier_buffers();
        if last[0] == 1 && t == 15 {
            let mut sum: u32 = 0;
            for i in 0..12 { sum += y[2 + i]; }
            y[1] = sum;
        }
    }
    /// The barrier before the release orders workgroup memory alone.
    last_without_buffers(4, x, y, t) {
        let last = Shared::<u32>::new(1);
        let w = workgroup_id_x();
        if t < 3 { y[2 + 3 * w + t] = x[t] + w; }
        barrier();
        if t == 0 {
            last[0] = (atomic::acquire_release::add(&y[0], 1) == 3) as u32;
        }
        barrier_buffers();
        if last[0] == 1 && t == 15 {
            for i in 0..12 { y[1] = y[2 + i]; }
        }
    }
    /// One invocation hands workgroup memory to another of its workgroup.
    handed_over(1, x, y, t) {
        let cells = Shared::<u32>::new(2);
        if t == 0 { cells[0] = 0; }
        barrier();
        if t == 0 {
            cells[1] = x[0] + 40;
            atomic::release::store(&cells[0], 1);
        }
        if t == 15 {
            while atomic::acquire::load(&cells[0]) == 0 {}
            y[0] = cells[1];
        }
    }
    /// The flag is stored as it is.
    handed_over_relaxed(1, x, y, t) {
        let cells = Shared::<u32>::new(2);
        if t == 0 { cells[0] = 0; }
        barrier();
        if t == 0 {
            cells[1] = x[0] + 40;
            atomic::store(&cells[0], 1);
        }
        if t == 15 {
            while atomic::acquire::load(&cells[0]) == 0 {}
            y[0] = cells[1];
        }
    }
    /// Outside the buffer.
    outside(1, x, y, t) {
        atomic::add(&y[t + 3], x[t]);
    }
}

macro_rules! result {
    ($kernel:ident, $args:ident) => {
        run(&$kernel, &[1; 16], (16, 0), |x, y| $args { x, y })
    };
}

fn trap(result: Result<Vec<u32>, LaunchError>) -> String {
    match result {
        Err(LaunchError::Device(DeviceError::Trap { trap, .. })) => trap,
        other => panic!("expected a trap; found {other:?}"),
    }
}

#[test]
fn what_no_barrier_orders_traps() {
    for (result, expected) in [
        (result!(UnorderedRead, UnorderedReadArgs), "no barrier orders them"),
        (result!(UnorderedStart, UnorderedStartArgs), "no barrier orders them"),
        (result!(OtherWorkgroup, OtherWorkgroupArgs), "no barrier orders workgroups"),
        (result!(OwnAfterOthers, OwnAfterOthersArgs), "no barrier orders them"),
        (result!(StoreOverReads, StoreOverReadsArgs), "no barrier orders them"),
        (result!(Uninitialized, UninitializedArgs), "uninitialized bytes of workgroup memory"),
        (result!(LastWithoutAcquire, LastWithoutAcquireArgs), "no barrier orders workgroups"),
        (result!(LastWithoutRelease, LastWithoutReleaseArgs), "no barrier orders workgroups"),
        (result!(ReleasedTooEarly, ReleasedTooEarlyArgs), "no barrier orders workgroups"),
        (result!(LastWithoutBuffers, LastWithoutBuffersArgs), "no barrier orders workgroups"),
        (result!(HandedOverRelaxed, HandedOverRelaxedArgs), "no barrier orders them"),
        (result!(Outside, OutsideArgs), "index 16 of an array of 16"),
    ] {
        let trap = trap(result);
        assert!(trap.contains(expected), "{trap}");
        assert!(trap.contains("atomic.rs:"), "{trap}");
    }
}

#[test]
fn their_twins_run() {
    assert_eq!(result!(OrderedRead, OrderedReadArgs), Ok(vec![16; 16]));
    assert_eq!(result!(AtomicStoreOverReads, AtomicStoreOverReadsArgs), Ok(vec![1; 16]));
    let read = result!(AtomicRead, AtomicReadArgs).unwrap();
    assert_eq!((read[0], read[1]), (32, 32));
    assert_eq!(result!(LastAddsUp, LastAddsUpArgs).unwrap()[1], 4 + 6);
    assert_eq!(result!(LastTogether, LastTogetherArgs).unwrap()[1], 12 + 3 * 6);
    assert_eq!(result!(HandedOver, HandedOverArgs).unwrap()[0], 41);
}

/// `last_adds_up` with the order of its atomic replaced by `semantics`.
fn with_order(semantics: u32, options: InterpOptions) -> Result<(), LaunchError> {
    let mut kernel = LastAddsUp.stage().unwrap();
    // The constant's value: acquire and release, both memories, available and visible.
    let at = (5..kernel.words.len()).filter(|&i| kernel.words[i] == 0x6148).collect::<Vec<_>>();
    let [at] = at[..] else { panic!("{at:?}") };
    kernel.words[at] = semantics;
    let device = Interpreter::new(options);
    let ranges = [device.allocate(64, "x")?, device.allocate(64, "y")?].map(|buffer| BufferRange {
        buffer,
        offset_bytes: 0,
        bytes: 64,
    });
    ranges.iter().try_for_each(|r| device.write(r.buffer, 0, &[0; 64]))?;
    let args = LastAddsUpArgs { x: ranges[0].into(), y: ranges[1].into() };
    launch_staged(&device, &kernel, &LastAddsUp.bind(&args))
}

#[test]
fn every_part_of_an_order_counts_at_every_width_in_every_schedule() {
    for subgroup_size in SUBGROUP_SIZES {
        for seed in 0..8 {
            let options = || InterpOptions { subgroup_size, seed, ..Default::default() };
            assert_eq!(with_order(0x6148, options()), Ok(()));
            let dropped = [
                (0x0, "no barrier orders workgroups"),
                (0x4142, "no barrier orders workgroups"),
                (0x2144, "no barrier orders workgroups"),
                (0x2148, "lacks MakeVisible"),
                (0x4148, "lacks MakeAvailable"),
                (0x6108, "lacks UniformMemory"),
            ];
            for (semantics, expected) in dropped {
                let trap = trap(with_order(semantics, options()).map(|()| Vec::new()));
                assert!(trap.contains(expected), "{semantics:#x}: {trap}");
            }
        }
    }
}
