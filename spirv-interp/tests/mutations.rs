//! Typical mistakes in a right kernel: each has to trap or to change the result, whatever the width and the seed.
// Test code outside the test functions themselves may stop a test too.
#![allow(clippy::panic, clippy::unwrap_used)]

mod asm;

use asm::{Content, Fixture, run_with};
use kiln_spirv_interp::{InterpOptions, SUBGROUP_SIZES, TrapKind};

/// y[wx] = Σ max(x[64 wx + li], 0) through workgroup memory, one halving per round, with a guard for the tail.
fn sum() -> Fixture {
    let body = "
%half = OpVariable %Function_u32 Function
%mine = OpVariable %Function_f32 Function
OpStore %mine %f_0
%in = OpULessThan %bool %gx %u_150
OpSelectionMerge %loaded 0
OpBranchConditional %in %load %loaded
%load = OpLabel
%px = OpAccessChain %StorageBuffer_f32 %x %u_0 %gx
%v = OpLoad %f32 %px
%positive = OpExtInst %f32 %glsl FMax %v %f_0
OpStore %mine %positive
OpBranch %loaded
%loaded = OpLabel
%t = OpAccessChain %Workgroup_f32 %tile %li
%m = OpLoad %f32 %mine
OpStore %t %m NonPrivatePointer
OpStore %half %u_32
OpBranch %header
%header = OpLabel
%h = OpLoad %u32 %half
OpLoopMerge %done %next 0
OpBranch %round
%round = OpLabel
OpControlBarrier %u_2 %u_2 %u_24840
%low = OpULessThan %bool %li %h
OpSelectionMerge %added 0
OpBranchConditional %low %add %added
%add = OpLabel
%o = OpIAdd %u32 %li %h
%po = OpAccessChain %Workgroup_f32 %tile %o
%b = OpLoad %f32 %po NonPrivatePointer
%a = OpLoad %f32 %t NonPrivatePointer
%s = OpFAdd %f32 %a %b
OpStore %t %s NonPrivatePointer
OpBranch %added
%added = OpLabel
OpBranch %next
%next = OpLabel
%h2 = OpShiftRightLogical %u32 %h %u_1
OpStore %half %h2
%more = OpINotEqual %bool %h2 %u_0
OpBranchConditional %more %header %done
%done = OpLabel
%zero = OpIEqual %bool %li %u_0
OpSelectionMerge %end 0
OpBranchConditional %zero %write %end
%write = OpLabel
%r = OpLoad %f32 %t NonPrivatePointer
%py = OpAccessChain %StorageBuffer_f32 %y %u_0 %wx
OpStore %py %r
OpBranch %end
%end = OpLabel
";
    Fixture::new(64, body).buffer("x", "f32").buffer("y", "f32").shared("tile", "f32", 64)
}

fn inputs() -> Vec<f32> {
    (0..150u32).map(|k| (k * 7919 % 251) as f32 - 100.0).collect()
}

fn outcome(f: &Fixture, subgroup_size: u32, seed: u64) -> Result<Vec<f32>, TrapKind> {
    let options = InterpOptions { subgroup_size, seed, fuel: 100_000, ..InterpOptions::default() };
    let contents = [asm::floats(inputs()), Content::Fresh(12)];
    run_with(options, &f.kernel(), [3, 1, 1], &[], &contents).map(|o| o.floats(1)).map_err(|t| t.kind)
}

fn expected() -> Vec<f32> {
    inputs().chunks(64).map(|c| c.iter().map(|v| v.max(0.0)).sum()).collect()
}

#[test]
fn the_kernel_is_right() {
    for width in SUBGROUP_SIZES {
        for seed in 0..8 {
            assert_eq!(outcome(&sum(), width, seed), Ok(expected()), "width {width} seed {seed}");
        }
    }
}

#[test]
fn every_mistake_shows() {
    let mistakes = [
        ("a barrier dropped", "OpControlBarrier %u_2 %u_2 %u_24840\n", ""),
        ("its semantics dropped", "OpControlBarrier %u_2 %u_2 %u_24840", "OpControlBarrier %u_2 %u_2 %u_0"),
        ("one semantics flag dropped", "%u_24840", "%u_8456"),
        ("a bound widened", "%gx %u_150", "%gx %u_151"),
        (
            "a bound removed",
            "OpBranchConditional %in %load %loaded",
            "OpBranchConditional %true %load %loaded",
        ),
        ("a bound narrowed", "%gx %u_150", "%gx %u_149"),
        ("the tile's index widened", "%tile %o", "%tile %gx"),
        ("a store forgotten", "OpStore %t %m NonPrivatePointer\n", ""),
        ("the start value forgotten", "OpStore %mine %f_0\n", ""),
        ("a sum not stored", "OpStore %t %s NonPrivatePointer\n", ""),
        ("a store's flag dropped", "OpStore %t %s NonPrivatePointer", "OpStore %t %s"),
        ("a load's flag dropped", "%po NonPrivatePointer", "%po"),
        ("operands swapped", "%low = OpULessThan %bool %li %h", "%low = OpULessThan %bool %h %li"),
        ("the wrong comparison", "%low = OpULessThan %bool", "%low = OpULessThanEqual %bool"),
        ("the wrong operation", "%s = OpFAdd", "%s = OpFSub"),
        ("no step", "%h2 = OpShiftRightLogical %u32 %h %u_1", "%h2 = OpShiftRightLogical %u32 %h %u_0"),
        ("a round too few", "%more = OpINotEqual %bool %h2 %u_0", "%more = OpUGreaterThan %bool %h2 %u_1"),
        (
            "every invocation writes",
            "OpBranchConditional %zero %write %end",
            "OpBranchConditional %true %write %end",
        ),
        ("one place for all workgroups", "%y %u_0 %wx", "%y %u_0 %u_0"),
        (
            "a barrier under a condition",
            "OpBranchConditional %low %add %added\n%add = OpLabel",
            "OpBranchConditional %low %add %added\n%add = OpLabel\nOpControlBarrier %u_2 %u_2 %u_24840",
        ),
    ];
    for (what, from, to) in mistakes {
        let f = sum().replaced(from, to);
        for width in SUBGROUP_SIZES {
            for seed in 0..4 {
                let got = outcome(&f, width, seed);
                assert_ne!(got, Ok(expected()), "{what}: not seen at width {width}, seed {seed}");
            }
        }
    }
}
