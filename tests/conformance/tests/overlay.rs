//! Memory seen as other elements is checked byte by byte: a missing barrier between two lives is a race, and bytes that
//! nobody wrote are undefined in either.
#![expect(clippy::unwrap_used, reason = "tests")]

use kiln_abi::{BufferRange, Device, Dispatch, Grid, Kernel, StagedKernel, spirv::Op};
use kiln_conformance::language::overlay;
use kiln_dsl::prelude::*;
use kiln_golden::spirv_val;
use kiln_spirv_interp::{InterpOptions, Interpreter, SUBGROUP_SIZES, Trap, TrapKind};

/// Halves, then floats over them, then words over those; each phase reads what another invocation stored.
#[kernel(local_size = 64, grid = 1)]
fn three_lives(x: &Buf<u32>, y: &BufMut<u32>) {
    let t = local_id();
    let halves = Shared::<f16>::new(128);
    halves[t] = x[t] as f16;
    halves[t + 64] = 1.0;
    barrier();
    let mine = halves[63 - t] + halves[127 - t];
    let floats = halves.reuse_as::<f32>(64);
    floats[t] = mine as f32;
    barrier();
    let other = floats[t ^ 1];
    let fours = floats.reuse_as::<Vec4<u32>>(16);
    if t < 16 {
        fours[t] = vec4(t, t + 1, t + 2, t + 3);
    }
    barrier();
    y[t] = fours[t / 4][t & 3] + other as u32;
}

/// Half of the memory is stored to, all of it is read.
#[kernel(local_size = 64, grid = 1)]
fn half_written(x: &Buf<u32>, y: &BufMut<u32>, #[comptime] halves: u32) {
    let t = local_id();
    let memory = Shared::<f16>::new(128);
    for i in (t..halves).step_by(64) {
        memory[i] = x[t] as f16;
    }
    let words = memory.reuse_as::<u32>(64);
    y[t] = words[t];
}

fn launch(kernel: &StagedKernel, subgroup_size: u32) -> Result<Vec<u32>, Trap> {
    let interp = Interpreter::new(InterpOptions { subgroup_size, ..Default::default() });
    let whole = |buffer| BufferRange { buffer, offset_bytes: 0, bytes: 256 };
    let (x, y) = (interp.allocate(256, "x").unwrap(), interp.allocate(256, "y").unwrap());
    let bytes: Vec<u8> = (0..64u32).flat_map(|i| (i * 3).to_le_bytes()).collect();
    interp.write(x, 0, &bytes).unwrap();
    let bindings = [whole(x), whole(y)];
    interp.run(&Dispatch {
        kernel,
        bindings: &bindings,
        needed_bytes: &[],
        push: &[],
        grid: Grid([1, 1, 1]),
    })?;
    let mut out = [0; 256];
    interp.read(y, 0, &mut out).unwrap();
    Ok(out.chunks_exact(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect())
}

fn kind(result: Result<Vec<u32>, Trap>) -> Option<TrapKind> {
    result.err().map(|trap| trap.kind)
}

/// The kernel without its `n`th barrier; none where there are fewer.
fn without_barrier(kernel: &StagedKernel, n: usize) -> Option<StagedKernel> {
    let (mut at, mut seen) = (5, 0);
    while at < kernel.words.len() {
        let len = (kernel.words[at] >> 16) as usize;
        if Op::from_number(kernel.words[at] as u16) == Some(Op::ControlBarrier) {
            if seen == n {
                let mut words = kernel.words.clone();
                words.drain(at..at + len);
                return Some(StagedKernel { words, source: Default::default(), ..kernel.clone() });
            }
            seen += 1;
        }
        at += len;
    }
    None
}

#[test]
fn a_barrier_between_two_lives_cannot_be_left_out() {
    let kernel = ThreeLives.stage().unwrap();
    spirv_val(&kernel.words).unwrap();
    assert_eq!(kernel.layout.workgroup_bytes, 256);
    for subgroup_size in SUBGROUP_SIZES {
        let found = launch(&kernel, subgroup_size).unwrap();
        let right = |t: u32| t / 4 + (t & 3) + 3 * (63 - (t ^ 1)) + 1;
        assert_eq!(found, (0..64).map(right).collect::<Vec<_>>(), "subgroups of {subgroup_size}");
        let barriers = (0..).map_while(|n| without_barrier(&kernel, n));
        let kinds: Vec<_> = barriers.map(|broken| kind(launch(&broken, subgroup_size))).collect();
        // Two that are written, and the two of `reuse_as`; one more follows the last store.
        assert_eq!(kinds, vec![Some(TrapKind::Race); 5], "subgroups of {subgroup_size}");
    }
}

#[test]
fn bytes_that_the_first_life_left_out_are_undefined_in_the_second() {
    let all = HalfWritten::new(128).stage().unwrap();
    let some = HalfWritten::new(127).stage().unwrap();
    assert_eq!(launch(&all, 32).unwrap().len(), 64);
    assert_eq!(kind(launch(&some, 32)), Some(TrapKind::Uninitialized));
}

#[test]
fn tiles_lie_in_words_that_are_seen_as_halves_and_floats() {
    for subgroup_size in SUBGROUP_SIZES {
        let interp = Interpreter::new(InterpOptions { subgroup_size, ..Default::default() });
        assert_eq!(overlay::tiles(&interp), Ok(true));
    }
}
