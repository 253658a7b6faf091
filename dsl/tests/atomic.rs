//! Atomic and plain accesses to one place need a barrier between them; each kernel has the twin that keeps it.
#![expect(clippy::panic, reason = "tests")]

mod device;

use device::run;
use kiln_abi::{DeviceError, LaunchError};
use kiln_dsl::prelude::*;

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
}
