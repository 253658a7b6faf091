//! Data races and the memory-model flags that avoid them; every missing flag traps, with the whole set it does not.
// Test code outside the test functions themselves may stop a test too.
#![allow(clippy::panic, clippy::unwrap_used)]

mod asm;

use asm::{Content, FILE, Fixture, run, run_with, words};
use kiln_spirv_interp::{InterpOptions, SUBGROUP_SIZES, Trap, TrapKind};

/// AcquireRelease | WorkgroupMemory | MakeAvailable | MakeVisible.
const FULL: &str = "OpControlBarrier %u_2 %u_2 %u_24840";

/// Each invocation stores to the tile, and after a barrier loads its neighbor's word.
fn neighbor() -> Fixture {
    let body = "
%t = OpAccessChain %Workgroup_u32 %tile %li
OpStore %t %gx NonPrivatePointer
OpControlBarrier %u_2 %u_2 %u_24840
%n0 = OpIAdd %u32 %li %u_1
%n = OpBitwiseAnd %u32 %n0 %u_63
%s = OpAccessChain %Workgroup_u32 %tile %n
%v = OpLoad %u32 %s NonPrivatePointer
%py = OpAccessChain %StorageBuffer_u32 %y %u_0 %gx
OpStore %py %v
";
    Fixture::new(64, body).buffer("y", "u32").shared("tile", "u32", 64)
}

fn race(f: &Fixture, contents: &[Content], needle: &str) {
    for width in SUBGROUP_SIZES {
        for seed in 0..3 {
            let options = InterpOptions { subgroup_size: width, seed, ..InterpOptions::default() };
            let t = run_with(options, &f.kernel(), [1; 3], &[], contents).expect_err("a race");
            assert_eq!(t.kind, TrapKind::Race, "{t}");
            assert!(t.detail.contains(needle), "{t}");
            assert!(t.detail.contains(FILE), "the other access's place: {t}");
        }
    }
}

fn passes(f: &Fixture, contents: &[Content]) {
    for width in SUBGROUP_SIZES {
        run(f, width, contents).unwrap_or_else(|t| panic!("width {width}: {t}"));
    }
}

#[test]
fn workgroup_memory_with_every_flag() {
    let f = neighbor();
    for width in SUBGROUP_SIZES {
        for seed in 0..8 {
            let options = InterpOptions { subgroup_size: width, seed, ..InterpOptions::default() };
            let got = run_with(options, &f.kernel(), [1; 3], &[], &[Content::Fresh(256)]).unwrap();
            let expected: Vec<u32> = (0..64).map(|k| (k + 1) % 64).collect();
            assert_eq!(got.words(0), expected);
            assert_eq!(got.counters.barriers, 1);
        }
    }
}

#[test]
fn a_dropped_barrier() {
    let f = neighbor().replaced(FULL, "");
    for width in SUBGROUP_SIZES {
        let t = run(&f, width, &[Content::Fresh(256)]).unwrap_err();
        // The neighbor has stored already, and it is a race, or it has not, and the word is unwritten.
        assert!(matches!(t.kind, TrapKind::Race | TrapKind::Uninitialized), "{t}");
    }
}

#[test]
fn each_barrier_flag() {
    let fresh = [Content::Fresh(256)];
    let with = |semantics: &str| neighbor().replaced("%u_24840", semantics);
    race(&with("%u_24832"), &fresh, "lacks AcquireRelease");
    race(&with("%u_24584"), &fresh, "lacks WorkgroupMemory");
    race(&with("%u_24648"), &fresh, "lacks WorkgroupMemory");
    race(&with("%u_16648"), &fresh, "lacks MakeAvailable");
    race(&with("%u_8456"), &fresh, "lacks MakeVisible");
    let scope = neighbor().replaced(FULL, "OpControlBarrier %u_2 %u_3 %u_24840");
    race(&scope, &fresh, "memory scope that is too small");
    // Acquire and release apart are as good as together.
    passes(&with("%u_24838"), &fresh);
}

#[test]
fn each_access_flag() {
    let fresh = [Content::Fresh(256)];
    let store = neighbor().replaced("OpStore %t %gx NonPrivatePointer", "OpStore %t %gx");
    race(&store, &fresh, "the other store lacks NonPrivatePointer");
    let load = neighbor().replaced("%s NonPrivatePointer", "%s");
    race(&load, &fresh, "this access lacks NonPrivatePointer");
}

#[test]
fn availability_by_the_accesses_instead_of_the_barrier() {
    let fresh = [Content::Fresh(256)];
    let f = neighbor()
        .replaced("%u_24840", "%u_264")
        .replaced(
            "OpStore %t %gx NonPrivatePointer",
            "OpStore %t %gx MakePointerAvailable|NonPrivatePointer %u_2",
        )
        .replaced("%s NonPrivatePointer", "%s MakePointerVisible|NonPrivatePointer %u_2");
    passes(&f, &fresh);
    race(
        &f.replaced("MakePointerAvailable|NonPrivatePointer %u_2", "NonPrivatePointer"),
        &fresh,
        "MakePointerAvailable",
    );
    race(
        &f.replaced("MakePointerVisible|NonPrivatePointer %u_2", "NonPrivatePointer"),
        &fresh,
        "MakePointerVisible",
    );
    let small = f.replaced(
        "MakePointerAvailable|NonPrivatePointer %u_2",
        "MakePointerAvailable|NonPrivatePointer %u_3",
    );
    race(&small, &fresh, "MakePointerAvailable");
}

#[test]
fn the_older_memory_model_needs_no_flags() {
    let mut f = neighbor()
        .replaced("%u_24840", "%u_264")
        .replaced("OpStore %t %gx NonPrivatePointer", "OpStore %t %gx")
        .replaced("%s NonPrivatePointer", "%s");
    f.glsl_memory_model = true;
    passes(&f, &[Content::Fresh(256)]);
    race(&f.replaced("%u_264", "%u_256"), &[Content::Fresh(256)], "lacks AcquireRelease");
}

#[test]
fn stores_of_one_value_are_still_a_race() {
    let body = "%t = OpAccessChain %Workgroup_u32 %tile %u_0
OpStore %t %u_7 NonPrivatePointer
";
    let f = Fixture::new(64, body).shared("tile", "u32", 1);
    race(&f, &[], "this store of workgroup memory meets a store");
    let one = f.replaced(
        "OpStore %t %u_7 NonPrivatePointer",
        "%c = OpIEqual %bool %li %u_3
OpSelectionMerge %end 0
OpBranchConditional %c %then %end
%then = OpLabel
OpStore %t %u_7 NonPrivatePointer
OpBranch %end
%end = OpLabel",
    );
    passes(&one, &[]);
}

#[test]
fn a_store_after_loads_needs_a_barrier_too() {
    // All read word 0; then invocation 0 overwrites it.
    let body = "
%zero = OpIEqual %bool %li %u_0
%t = OpAccessChain %Workgroup_u32 %tile %u_0
OpSelectionMerge %a 0
OpBranchConditional %zero %first %a
%first = OpLabel
OpStore %t %u_5 NonPrivatePointer
OpBranch %a
%a = OpLabel
OpControlBarrier %u_2 %u_2 %u_24840
%v = OpLoad %u32 %t NonPrivatePointer
OpControlBarrier %u_2 %u_2 %u_24840 ; second
OpSelectionMerge %b 0
OpBranchConditional %zero %again %b
%again = OpLabel
OpStore %t %u_6 NonPrivatePointer
OpBranch %b
%b = OpLabel
%py = OpAccessChain %StorageBuffer_u32 %y %u_0 %gx
OpStore %py %v
";
    let f = Fixture::new(64, body).buffer("y", "u32").shared("tile", "u32", 1);
    let fresh = [Content::Fresh(256)];
    passes(&f, &fresh);
    assert_eq!(run(&f, 16, &fresh).unwrap().words(0), [5; 64]);
    let f = f.replaced("OpControlBarrier %u_2 %u_2 %u_24840 ; second", "");
    for width in SUBGROUP_SIZES {
        let t = run(&f, width, &fresh).unwrap_err();
        assert_eq!(t.kind, TrapKind::Race, "{t}");
    }
}

#[test]
fn barriers_order_buffers_only_with_uniform_memory() {
    let body = "
%t = OpAccessChain %StorageBuffer_u32 %z %u_0 %gx
OpStore %t %gx NonPrivatePointer
OpControlBarrier %u_2 %u_2 %u_24648
%n = OpBitwiseXor %u32 %gx %u_63
%s = OpAccessChain %StorageBuffer_u32 %z %u_0 %n
%v = OpLoad %u32 %s NonPrivatePointer
%py = OpAccessChain %StorageBuffer_u32 %y %u_0 %gx
OpStore %py %v
";
    let f = Fixture::new(64, body).buffer("z", "u32").buffer("y", "u32");
    let fresh = [Content::Fresh(256), Content::Fresh(256)];
    passes(&f, &fresh);
    race(&f.replaced("%u_24648", "%u_24840"), &fresh, "lacks UniformMemory");
}

#[test]
fn nothing_orders_workgroups() {
    // y[wx] by every invocation of a workgroup of one: apart. y[0] by all: a race across workgroups.
    let body = "%py = OpAccessChain %StorageBuffer_u32 %y %u_0 %wx
OpStore %py %u_7 NonPrivatePointer
";
    let f = Fixture::new(1, body).buffer("y", "u32");
    let go = |f: &Fixture| run_with(InterpOptions::default(), &f.kernel(), [8, 1, 1], &[], &[words([0; 9])]);
    go(&f).unwrap();
    let t: Trap = go(&f.replaced("%u_0 %wx", "%u_0 %u_0")).unwrap_err();
    assert_eq!(t.kind, TrapKind::Race);
    assert!(t.detail.contains("no barrier orders workgroups") && t.detail.contains("of workgroup"), "{t}");
    // A load of what another workgroup stores.
    let load = f.replaced(
        "OpStore %py %u_7 NonPrivatePointer",
        "OpStore %py %u_7 NonPrivatePointer
%n = OpIAdd %u32 %wx %u_1
%ps = OpAccessChain %StorageBuffer_u32 %y %u_0 %n
%v = OpLoad %u32 %ps NonPrivatePointer",
    );
    for seed in 0..16 {
        let options = InterpOptions { seed, ..InterpOptions::default() };
        let t = run_with(options, &load.kernel(), [8, 1, 1], &[], &[words([0; 9])]).unwrap_err();
        assert_eq!(t.kind, TrapKind::Race, "in every order of workgroups: {t}");
    }
}

#[test]
fn bytes_are_told_apart() {
    // Invocations store neighboring bytes of one word: no race; a u32 view of them is one.
    let body = "%t = OpAccessChain %StorageBuffer_u8 %z %u_0 %gx
%b = OpUConvert %u8 %gx
OpStore %t %b NonPrivatePointer
";
    let f = Fixture::new(64, body).buffer("z", "u8");
    passes(&f, &[Content::Fresh(64)]);
    let shared = f.replaced("%u_0 %gx", "%u_0 %half").body;
    let f = Fixture { body: format!("%half = OpShiftRightLogical %u32 %gx %u_1\n{shared}"), ..f };
    race(&f, &[Content::Fresh(64)], "this store of z (binding 0) meets a store");
}

#[test]
fn subgroup_barriers_order_their_own_lanes_only() {
    let body = "
%t = OpAccessChain %Workgroup_u32 %tile %li
OpStore %t %gx NonPrivatePointer
OpControlBarrier %u_3 %u_3 %u_24840
%n = OpBitwiseXor %u32 %li %u_1
%s = OpAccessChain %Workgroup_u32 %tile %n
%v = OpLoad %u32 %s NonPrivatePointer
OpControlBarrier %u_3 %u_3 %u_24840
OpStore %t %v NonPrivatePointer
%py = OpAccessChain %StorageBuffer_u32 %y %u_0 %gx
OpStore %py %v
";
    let f = Fixture::new(64, body).buffer("y", "u32").shared("tile", "u32", 64);
    passes(&f, &[Content::Fresh(256)]);
    // A partner of another subgroup is not ordered by it.
    let far = f.replaced("%li %u_1", "%li %u_32");
    for width in [4, 8, 16, 32] {
        let t = run(&far, width, &[Content::Fresh(256)]).unwrap_err();
        assert!(matches!(t.kind, TrapKind::Race | TrapKind::Uninitialized), "{t}");
    }
    run(&far, 64, &[Content::Fresh(256)]).unwrap();
}
