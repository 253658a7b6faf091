//! The interpreter behind the device trait: launches through the shared checks, buffers, counters, throughput.
// Test code outside the test functions themselves may stop a test too.
#![allow(clippy::panic, clippy::unwrap_used)]

mod asm;

use std::time::Instant;

use asm::{Content, Fixture, run};
use kiln_abi::{
    BufferId, BufferRange, Device, DeviceError, Grid, LaunchArgs, LaunchError, launch::launch_staged,
};
use kiln_spirv_interp::{InterpOptions, Interpreter};

fn double() -> Fixture {
    let body = "
%px = OpAccessChain %StorageBuffer_u32 %x %u_0 %gx
%v = OpLoad %u32 %px
%w = OpIAdd %u32 %v %v
%py = OpAccessChain %StorageBuffer_u32 %y %u_0 %gx
OpStore %py %w
";
    Fixture::new(32, body).buffer("x", "u32").buffer("y", "u32")
}

fn args(x: BufferRange, y: BufferRange) -> LaunchArgs {
    LaunchArgs { bindings: vec![x, y], needed_bytes: vec![None, None], push: Vec::new(), grid: Grid::from(1) }
}

#[test]
fn a_launch_reads_and_writes_ranges_of_one_buffer() {
    let interp = Interpreter::new(InterpOptions { binding_offset_alignment: 64, ..Default::default() });
    let buffer = interp.allocate(512, "both").unwrap();
    interp.write(buffer, 0, &[0xee; 512]).unwrap();
    let data: Vec<u8> = (0..32u32).flat_map(u32::to_le_bytes).collect();
    interp.write(buffer, 64, &data).unwrap();
    let x = BufferRange { buffer, offset_bytes: 64, bytes: 128 };
    let y = BufferRange { buffer, offset_bytes: 256, bytes: 128 };
    launch_staged(&interp, &double().kernel(), &args(x, y)).unwrap();
    let mut all = vec![0; 512];
    interp.read(buffer, 0, &mut all).unwrap();
    let out: Vec<u32> = all[256..384].chunks(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect();
    assert_eq!(out, (0..32).map(|k| 2 * k).collect::<Vec<_>>());
    assert!(
        all[192..256].iter().chain(&all[384..]).all(|&b| b == 0xee),
        "bytes around the range are as they were"
    );
    assert_eq!(interp.last_counters().buffers.stores, 32);
    // One byte off the alignment, and one element short.
    let off = BufferRange { offset_bytes: 65, ..x };
    assert!(matches!(
        launch_staged(&interp, &double().kernel(), &args(off, y)),
        Err(LaunchError::Misaligned { .. })
    ));
    let short = BufferRange { bytes: 124, ..y };
    match launch_staged(&interp, &double().kernel(), &args(x, short)) {
        Err(LaunchError::Device(DeviceError::Trap { kernel, trap })) => {
            assert_eq!(kernel, "fixture");
            assert!(trap.contains("fixture.spvasm:6:1") && trap.contains("invocation 31"), "{trap}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_empty_grid_is_a_no_op() {
    let interp = Interpreter::new(InterpOptions::default());
    let buffer = interp.allocate(4, "unused").unwrap();
    let range = BufferRange { buffer, offset_bytes: 0, bytes: 4 };
    let empty = LaunchArgs { grid: Grid([3, 0, 1]), ..args(range, range) };
    let mut kernel = double().kernel();
    for b in &mut kernel.layout.bindings {
        b.access = kiln_abi::Access::Read;
    }
    launch_staged(&interp, &kernel, &empty).unwrap();
}

#[test]
fn ranges_outside_buffers_are_errors() {
    let interp = Interpreter::new(InterpOptions::default());
    let buffer = interp.allocate(8, "small").unwrap();
    assert!(matches!(interp.write(buffer, 4, &[0; 5]), Err(DeviceError::OutOfRange { end: 9, size: 8, .. })));
    assert!(matches!(interp.read(buffer, u64::MAX, &mut [0; 2]), Err(DeviceError::OutOfRange { .. })));
    assert!(matches!(interp.read(BufferId(77), 0, &mut [0]), Err(DeviceError::OutOfRange { size: 0, .. })));
    assert!(matches!(interp.allocate(0, "none"), Err(DeviceError::OutOfMemory { .. })));
    interp.free(buffer);
    assert!(matches!(interp.read(buffer, 0, &mut [0]), Err(DeviceError::OutOfRange { size: 0, .. })));
    let gone = BufferRange { buffer, offset_bytes: 0, bytes: 8 };
    let other = interp.allocate(128, "other").unwrap();
    let y = BufferRange { buffer: other, offset_bytes: 0, bytes: 128 };
    let e = launch_staged(&interp, &double().kernel(), &args(gone, y)).unwrap_err();
    assert!(e.to_string().contains("argument x"), "{e}");
}

#[test]
fn buffers_survive_a_trap() {
    let interp = Interpreter::new(InterpOptions::default());
    let (a, b) = (interp.allocate(64, "a").unwrap(), interp.allocate(128, "b").unwrap());
    interp.write(a, 0, &[7; 64]).unwrap();
    let x = BufferRange { buffer: a, offset_bytes: 0, bytes: 64 };
    let y = BufferRange { buffer: b, offset_bytes: 0, bytes: 128 };
    launch_staged(&interp, &double().kernel(), &args(x, y)).unwrap_err();
    let mut out = [0; 64];
    interp.read(a, 0, &mut out).unwrap();
    assert_eq!(out, [7; 64]);
}

#[test]
fn counters_are_exact() {
    for width in [4, 32] {
        let got = run(&double(), width, &[asm::words(0..32), Content::Fresh(128)]).unwrap();
        let n = got.counters;
        assert_eq!((n.workgroups, n.barriers, n.f16_overflows), (1, 0, 0));
        assert_eq!((n.buffers.loads, n.buffers.loaded_bytes), (32, 128));
        assert_eq!((n.buffers.stores, n.buffers.stored_bytes), (32, 128));
        assert_eq!(n.lane_operations, n.instructions * u64::from(width));
    }
}

/// The floor of the whole test suite's speed; `examples/throughput.rs` prints more.
#[test]
fn at_least_150_million_lane_operations_a_second() {
    let body = "
%i = OpVariable %Function_u32 Function
%s = OpVariable %Function_f32 Function
OpStore %i %u_0
OpStore %s %f_0
OpBranch %header
%header = OpLabel
OpLoopMerge %done %next 0
OpBranch %work
%work = OpLabel
%i0 = OpLoad %u32 %i
%k = OpBitwiseAnd %u32 %i0 %u_63
%px = OpAccessChain %StorageBuffer_f32 %x %u_0 %k
%v = OpLoad %f32 %px
%s0 = OpLoad %f32 %s
%s1 = OpExtInst %f32 %glsl Fma %v %f_0.5 %s0
OpStore %s %s1
OpBranch %next
%next = OpLabel
%i1 = OpIAdd %u32 %i0 %u_1
OpStore %i %i1
%go = OpULessThan %bool %i1 %u_4000
OpBranchConditional %go %header %done
%done = OpLabel
%r = OpLoad %f32 %s
%py = OpAccessChain %StorageBuffer_f32 %y %u_0 %gx
OpStore %py %r
";
    let f = Fixture::new(256, body).buffer("x", "f32").buffer("y", "f32");
    let contents = [asm::floats((0..64).map(|k| k as f32)), Content::Fresh(1024)];
    let rates = (0..3).map(|_| {
        let start = Instant::now();
        let n = run(&f, 32, &contents).unwrap().counters.lane_operations;
        n as f64 / start.elapsed().as_secs_f64() / 1e6
    });
    let best = rates.fold(0.0, f64::max);
    println!("width 32, every check on: {best:.0} M lane-operations/s");
    assert!(best >= 150.0, "{best:.0} M lane-operations/s");
}
