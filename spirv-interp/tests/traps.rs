//! Each fault has a kernel that commits it and a twin that does not: bounds, uninitialized data, integers, addresses,
//! divergence, lanes, fuel.
// Test code outside the test functions themselves may stop a test too.
#![allow(clippy::panic, clippy::unwrap_used)]

mod asm;

use asm::{Content, FILE, Fixture, floats, run, words};
use kiln_spirv_interp::{SUBGROUP_SIZES, Trap, TrapKind};

/// The trap, which has to name the line with `text`.
fn trap(f: &Fixture, contents: &[Content], kind: TrapKind, text: &str) -> Trap {
    let mut last = None;
    for width in SUBGROUP_SIZES {
        let t = run(f, width, contents).expect_err("the kernel has to trap");
        assert_eq!(t.kind, kind, "{t}");
        let at = t.at.expect("a source place");
        assert_eq!((at.file, at.line), (FILE, f.line(text)), "{t}");
        assert!(t.to_string().starts_with("fixture: "), "{t}");
        assert!(t.text().contains(&format!("{FILE}:{}:{}", at.line, at.column)), "{t}");
        last = Some(t);
    }
    last.unwrap()
}

fn passes(f: &Fixture, contents: &[Content]) {
    for width in SUBGROUP_SIZES {
        run(f, width, contents).unwrap_or_else(|t| panic!("width {width}: {t}"));
    }
}

/// y[gx] = x[index], 64 invocations.
fn copy(index: &str) -> Fixture {
    let body = format!(
        "{index}
%px = OpAccessChain %StorageBuffer_f32 %x %u_0 %i
%v = OpLoad %f32 %px
%py = OpAccessChain %StorageBuffer_f32 %y %u_0 %gx
OpStore %py %v
"
    );
    Fixture::new(64, &body).buffer("x", "f32").buffer("y", "f32")
}

#[test]
fn load_past_the_range() {
    let f = copy("%i = OpIAdd %u32 %gx %u_1");
    passes(&f, &[floats((0..65).map(|v| v as f32)), Content::Fresh(256)]);
    let t = trap(
        &f,
        &[floats((0..64).map(|v| v as f32)), Content::Fresh(256)],
        TrapKind::OutOfBounds,
        "%v = OpLoad",
    );
    assert_eq!(t.invocation, 63);
    assert!(t.detail.contains("index 64 of an array of 64"), "{t}");
}

#[test]
fn load_of_a_partly_bound_element() {
    let f = copy("%i = OpIAdd %u32 %gx %u_0");
    let t =
        trap(&f, &[Content::Bytes(vec![0; 255]), Content::Fresh(256)], TrapKind::OutOfBounds, "%v = OpLoad");
    assert!(t.detail.contains("bytes 252..256 of x (binding 0), whose range has 255 bytes"), "{t}");
}

#[test]
fn store_past_the_range() {
    let f = copy("%i = OpIAdd %u32 %gx %u_0");
    let x = floats((0..64).map(|v| v as f32));
    passes(&f, &[x.clone(), Content::Fresh(256)]);
    trap(&f, &[x, Content::Fresh(252)], TrapKind::OutOfBounds, "OpStore %py");
}

#[test]
fn index_past_a_workgroup_and_a_function_array() {
    for (class, declare) in [("Workgroup", ""), ("Function", "%tile = OpVariable %ptr Function\n")] {
        let body = |mask| {
            format!(
                "{declare}%i = OpBitwiseAnd %u32 %li %u_{mask}
%pt = OpAccessChain %{class}_u32 %tile %i
OpStore %pt %li
"
            )
        };
        let make = |mask| {
            // One invocation, so that a masked index cannot race.
            let mut f =
                Fixture::new(1, &body(mask).replace("%li %u_", "%big %u_").replace("%pt %li", "%pt %u_7"));
            f.body = format!("%big = OpIAdd %u32 %li %u_5\n{}", f.body);
            f.declare = "%a4 = OpTypeArray %u32 %u_4\n%ptr = OpTypePointer Function %a4".to_owned();
            if class == "Workgroup" { f.shared("tile", "u32", 4) } else { f }
        };
        passes(&make(3), &[]);
        let t = trap(&make(7), &[], TrapKind::OutOfBounds, "OpStore %pt");
        assert!(t.detail.contains("index 5 of an array of 4"), "{t}");
    }
}

#[test]
fn push_constants_have_a_length() {
    let mut f = Fixture::new(
        1,
        "%p = OpAccessChain %PushConstant_u32 %push %u_1
%v = OpLoad %u32 %p
%py = OpAccessChain %StorageBuffer_u32 %y %u_0 %u_0
OpStore %py %v
",
    )
    .buffer("y", "u32");
    f.push = 2;
    let run =
        |push: &[u8]| asm::run_with(Default::default(), &f.kernel(), [1; 3], push, &[Content::Fresh(4)]);
    assert_eq!(run(&[1, 0, 0, 0, 9, 0, 0, 0]).unwrap().words(0), [9]);
    let t = run(&[1, 0, 0, 0]).unwrap_err();
    assert_eq!(t.kind, TrapKind::OutOfBounds, "{t}");
}

#[test]
fn fresh_buffer_content_is_not_stored() {
    let f = copy("%i = OpIAdd %u32 %gx %u_0");
    trap(&f, &[Content::Fresh(256), Content::Fresh(256)], TrapKind::Uninitialized, "OpStore %py");
    // Arithmetic carries the mark, a comparison too.
    let sum = f.replaced("OpStore %py %v", "%w = OpFAdd %f32 %v %f_1\nOpStore %py %w");
    trap(&sum, &[Content::Fresh(256), Content::Fresh(256)], TrapKind::Uninitialized, "OpStore %py");
    let branch = f.replaced(
        "OpStore %py %v",
        "%c = OpFOrdLessThan %bool %v %f_1
OpSelectionMerge %end 0
OpBranchConditional %c %then %end
%then = OpLabel
OpStore %py %f_1
OpBranch %end
%end = OpLabel",
    );
    passes(&branch, &[floats([0.0; 64]), Content::Fresh(256)]);
    trap(
        &branch,
        &[Content::Fresh(256), Content::Fresh(256)],
        TrapKind::Uninitialized,
        "OpBranchConditional",
    );
}

#[test]
fn a_select_takes_only_what_it_takes() {
    // The load of undefined bytes is harmless as long as the select drops it.
    let f = copy("%i = OpIAdd %u32 %gx %u_0").replaced(
        "OpStore %py %v",
        "%c = OpULessThan %bool %gx %u_64\n%w = OpSelect %f32 %c %f_3 %v\nOpStore %py %w",
    );
    passes(&f, &[Content::Fresh(256), Content::Fresh(256)]);
    let f = f.replaced("%gx %u_64", "%gx %u_63");
    let t = trap(&f, &[Content::Fresh(256), Content::Fresh(256)], TrapKind::Uninitialized, "OpStore %py");
    assert_eq!(t.invocation, 63);
}

#[test]
fn unwritten_variables() {
    let body = "%s = OpVariable %Function_u32 Function
OpStore %s %gx
%v = OpLoad %u32 %s
%py = OpAccessChain %StorageBuffer_u32 %y %u_0 %gx
OpStore %py %v
";
    let f = Fixture::new(64, body).buffer("y", "u32");
    passes(&f, &[Content::Fresh(256)]);
    let f = f.replaced("OpStore %s %gx\n", "");
    trap(&f, &[Content::Fresh(256)], TrapKind::Uninitialized, "OpStore %py");

    let body = "%t = OpAccessChain %Workgroup_u32 %tile %li
OpStore %t %gx
%v = OpLoad %u32 %t
%py = OpAccessChain %StorageBuffer_u32 %y %u_0 %gx
OpStore %py %v
";
    let f = Fixture::new(64, body).buffer("y", "u32").shared("tile", "u32", 64);
    passes(&f, &[Content::Fresh(256)]);
    let f = f.replaced("OpStore %t %gx\n", "");
    trap(&f, &[Content::Fresh(256)], TrapKind::Uninitialized, "OpStore %py");
}

#[test]
fn unwritten_index() {
    let body = "%s = OpVariable %Function_u32 Function
OpStore %s %gx
%i = OpLoad %u32 %s
%py = OpAccessChain %StorageBuffer_u32 %y %u_0 %i
OpStore %py %gx
";
    let f = Fixture::new(64, body).buffer("y", "u32");
    passes(&f, &[Content::Fresh(256)]);
    let f = f.replaced("OpStore %s %gx\n", "");
    trap(&f, &[Content::Fresh(256)], TrapKind::Uninitialized, "OpStore %py");
}

#[test]
fn workgroup_memory_does_not_outlive_its_workgroup() {
    // The first workgroup writes the tile, later ones only read it.
    let body = "%t = OpAccessChain %Workgroup_u32 %tile %li
%n0 = OpLoad %v3u32 %nwg
%c = OpINotEqual %bool %wx %u_1
OpSelectionMerge %end 0
OpBranchConditional %c %then %end
%then = OpLabel
OpStore %t %gx
OpBranch %end
%end = OpLabel
%v = OpLoad %u32 %t
%py = OpAccessChain %StorageBuffer_u32 %y %u_0 %gx
OpStore %py %v
";
    let f = Fixture::new(64, body).buffer("y", "u32").shared("tile", "u32", 64);
    let run =
        |f: &Fixture| asm::run_with(Default::default(), &f.kernel(), [3, 1, 1], &[], &[Content::Fresh(768)]);
    let t = run(&f).unwrap_err();
    assert_eq!((t.kind.clone(), t.workgroup), (TrapKind::Uninitialized, [1, 0, 0]), "{t}");
    run(&f.replaced("%wx %u_1", "%wx %u_9")).unwrap();
}

#[test]
fn integer_faults_name_the_line() {
    let f = copy("%d = OpISub %u32 %u_64 %gx\n%i = OpUDiv %u32 %gx %d");
    let x = floats((0..64).map(|v| v as f32));
    passes(&f, &[x.clone(), Content::Fresh(256)]);
    let f = f.replaced("%u_64 %gx", "%u_63 %gx");
    let t = trap(&f, &[x, Content::Fresh(256)], TrapKind::Integer, "OpUDiv");
    assert_eq!(t.detail, "63 divided by zero");
}

#[test]
fn an_integer_fault_on_an_inactive_lane_is_none() {
    let f = copy(
        "%r = OpVariable %Function_u32 Function
OpStore %r %u_0
%c = OpULessThan %bool %gx %u_63
OpSelectionMerge %end 0
OpBranchConditional %c %then %end
%then = OpLabel
%d = OpISub %u32 %u_63 %gx
%q = OpUDiv %u32 %gx %d
OpStore %r %q
OpBranch %end
%end = OpLabel
%i = OpLoad %u32 %r",
    );
    let x = floats((0..64).map(|v| v as f32));
    passes(&f, &[x.clone(), Content::Fresh(256)]);
    trap(&f.replaced("%gx %u_63", "%gx %u_64"), &[x, Content::Fresh(256)], TrapKind::Integer, "OpUDiv");
}

#[test]
fn a_guarded_load_never_loads_on_the_unguarded_lanes() {
    // i < n && x[i] > 0 with i far out of range.
    let body = "%r = OpVariable %Function_bool Function
%i = OpIMul %u32 %gx %u_1000000
%inside = OpULessThan %bool %i %u_64
OpStore %r %inside
OpSelectionMerge %end 0
OpBranchConditional %inside %then %end
%then = OpLabel
%px = OpAccessChain %StorageBuffer_f32 %x %u_0 %i
%v = OpLoad %f32 %px
%positive = OpFOrdGreaterThan %bool %v %f_0
OpStore %r %positive
OpBranch %end
%end = OpLabel
%b = OpLoad %bool %r
%w = OpSelect %f32 %b %f_1 %f_0
%py = OpAccessChain %StorageBuffer_f32 %y %u_0 %gx
OpStore %py %w
";
    let f = Fixture::new(64, body).buffer("x", "f32").buffer("y", "f32");
    let x = floats((0..64).map(|v| v as f32 + 1.0));
    for width in SUBGROUP_SIZES {
        let out = run(&f, width, &[x.clone(), Content::Fresh(256)]).unwrap();
        assert_eq!(out.counters.buffers.loads, 1, "only invocation 0 is inside");
        assert_eq!(out.floats(1).iter().sum::<f32>(), 1.0);
    }
    let eager = f.replaced("OpBranchConditional %inside %then %end", "OpBranchConditional %true %then %end");
    trap(&eager, &[x, Content::Fresh(256)], TrapKind::OutOfBounds, "%v = OpLoad");
}

#[test]
fn wrapped_addresses() {
    // gx × 0x0400_0001 wraps from gx = 64 on only; at 2^27 it wraps at gx = 32.
    let f = copy("%m = OpIMul %u32 %gx %u_67108865\n%i = OpUMod %u32 %m %u_64");
    let x = floats((0..64).map(|v| v as f32));
    passes(&f, &[x.clone(), Content::Fresh(256)]);
    let wraps = f.replaced("%u_67108865", "%u_134217729");
    let t = trap(&wraps, &[x.clone(), Content::Fresh(256)], TrapKind::IndexWrap, "%v = OpLoad");
    assert_eq!(t.invocation, 32);
    let cleared = wraps.replaced("OpUMod %u32 %m %u_64", "OpBitwiseAnd %u32 %m %u_63");
    passes(&cleared, &[x.clone(), Content::Fresh(256)]);
    // Subtraction below zero wraps in u32, not in i32.
    let f = copy("%d = OpISub %u32 %gx %u_1\n%i = OpIAdd %u32 %d %u_1");
    trap(&f, &[x.clone(), Content::Fresh(256)], TrapKind::IndexWrap, "%v = OpLoad");
    let f = copy("%s = OpBitcast %i32 %gx\n%d = OpISub %i32 %s %i_1\n%i = OpIAdd %i32 %d %i_1");
    passes(&f, &[x, Content::Fresh(256)]);
}

#[test]
fn negative_indices_are_out_of_bounds() {
    let f = copy("%s = OpBitcast %i32 %gx\n%i = OpISub %i32 %s %i_1");
    let x = floats((0..64).map(|v| v as f32));
    let t = trap(&f, &[x.clone(), Content::Fresh(256)], TrapKind::OutOfBounds, "%v = OpLoad");
    assert_eq!(t.invocation, 0);
    passes(&f.replaced("%s %i_1", "%s %i_0"), &[x, Content::Fresh(256)]);
}

const BARRIER: &str = "OpControlBarrier %u_2 %u_2 %u_24840";

fn diverging(condition: &str) -> Fixture {
    let body = format!(
        "{condition}
OpSelectionMerge %end 0
OpBranchConditional %c %then %end
%then = OpLabel
{BARRIER}
OpBranch %end
%end = OpLabel
"
    );
    Fixture::new(64, &body)
}

#[test]
fn barrier_under_a_partial_mask() {
    passes(&diverging("%c = OpULessThan %bool %li %u_64"), &[]);
    let t = trap(&diverging("%c = OpULessThan %bool %li %u_63"), &[], TrapKind::Divergence, BARRIER);
    assert!(t.detail.contains("1 lanes"), "{t}");
}

#[test]
fn barrier_that_some_subgroups_skip() {
    let f = diverging("%c = OpIEqual %bool %sg %u_0");
    for width in [4, 8, 16, 32] {
        let t = run(&f, width, &[]).unwrap_err();
        assert_eq!(t.kind, TrapKind::Divergence, "{t}");
        assert!(t.detail.contains("which is gone"), "{t}");
    }
    run(&f, 64, &[]).unwrap();
}

#[test]
fn barriers_of_two_branches_are_two_barriers() {
    let body = format!(
        "%c = OpIEqual %bool %sg %u_0
OpSelectionMerge %end 0
OpBranchConditional %c %then %else
%then = OpLabel
{BARRIER} ; one
OpBranch %end
%else = OpLabel
{BARRIER} ; other
OpBranch %end
%end = OpLabel
"
    );
    let f = Fixture::new(64, &body);
    let t = run(&f, 16, &[]).unwrap_err();
    assert_eq!(t.kind, TrapKind::Divergence, "{t}");
    assert!(t.detail.contains(FILE), "{t}");
    run(&f, 64, &[]).unwrap();
}

#[test]
fn barrier_after_a_return() {
    let body = format!(
        "%c = OpULessThan %bool %li %u_5
OpSelectionMerge %go 0
OpBranchConditional %c %leave %go
%leave = OpLabel
OpReturn
%go = OpLabel
{BARRIER}
"
    );
    let f = Fixture::new(64, &body);
    trap(&f, &[], TrapKind::Divergence, BARRIER);
    // A whole workgroup may leave before the first barrier.
    passes(&f.replaced("%li %u_5", "%wx %u_5"), &[]);
    passes(&f.replaced("%li %u_5", "%li %u_0"), &[]);
}

#[test]
fn subgroup_operation_under_a_partial_mask() {
    let body = "%c = OpULessThan %bool %li %u_63
OpSelectionMerge %end 0
OpBranchConditional %c %then %end
%then = OpLabel
%r = OpGroupNonUniformIAdd %u32 %u_3 Reduce %li
OpBranch %end
%end = OpLabel
";
    let f = Fixture::new(64, body);
    trap(&f, &[], TrapKind::Divergence, "OpGroupNonUniformIAdd");
    passes(&f.replaced("%li %u_63", "%li %u_64"), &[]);
    passes(
        &f.replaced(
            "%r = OpGroupNonUniformIAdd %u32 %u_3 Reduce %li",
            "%r = OpGroupNonUniformElect %bool %u_3",
        ),
        &[],
    );
}

#[test]
fn shuffle_from_a_lane_that_is_not_there() {
    let body = "%s = OpBitwiseXor %u32 %lane %u_0
%r = OpGroupNonUniformShuffle %u32 %u_3 %li %s
";
    let f = Fixture::new(64, body);
    passes(&f, &[]);
    let past = f.replaced("%s = OpBitwiseXor %u32 %lane %u_0", "%s = OpIAdd %u32 %lane %u_1");
    trap(&past, &[], TrapKind::InactiveLane, "OpGroupNonUniformShuffle");
    let broadcast = f.replaced("Shuffle %u32 %u_3 %li %s", "Broadcast %u32 %u_3 %li %u_64");
    trap(&broadcast, &[], TrapKind::InactiveLane, "OpGroupNonUniformBroadcast");
    let own = f.replaced("Shuffle %u32 %u_3 %li %s", "Broadcast %u32 %u_3 %li %s");
    trap(&own, &[], TrapKind::Divergence, "OpGroupNonUniformBroadcast");
    // A relative shuffle past the end is undefined; it traps when it is used.
    let body = "%r = OpGroupNonUniformShuffleUp %u32 %u_3 %li %u_1
%first = OpIEqual %bool %lane %u_0
%v = OpSelect %u32 %first %u_0 %r
%py = OpAccessChain %StorageBuffer_u32 %y %u_0 %li
OpStore %py %v
";
    let f = Fixture::new(64, body).buffer("y", "u32");
    passes(&f, &[Content::Fresh(256)]);
    trap(
        &f.replaced("OpStore %py %v", "OpStore %py %r"),
        &[Content::Fresh(256)],
        TrapKind::Uninitialized,
        "OpStore",
    );
}

#[test]
fn endless_loops_run_out_of_fuel() {
    let body = "%i = OpVariable %Function_u32 Function
OpStore %i %u_0
OpBranch %header
%header = OpLabel
%i0 = OpLoad %u32 %i
OpLoopMerge %done %next 0
OpBranch %test
%test = OpLabel
%go = OpULessThan %bool %i0 %u_100
OpBranchConditional %go %next %done
%next = OpLabel
%i1 = OpIAdd %u32 %i0 %u_1
OpStore %i %i1
OpBranch %header
%done = OpLabel
";
    let f = Fixture::new(64, body);
    passes(&f, &[]);
    let f = f.replaced("OpIAdd %u32 %i0 %u_1", "OpIAdd %u32 %i0 %u_0");
    let options = kiln_spirv_interp::InterpOptions { fuel: 100_000, ..Default::default() };
    let t = asm::run_with(options, &f.kernel(), [1; 3], &[], &[]).unwrap_err();
    assert_eq!((t.kind.clone(), t.at.unwrap().line), (TrapKind::Fuel, f.line("OpLoopMerge")), "{t}");
}

#[test]
fn unreachable_and_dynamic_components() {
    let body = "%c = OpULessThan %bool %li %u_64
OpSelectionMerge %end 0
OpBranchConditional %c %end %never
%never = OpLabel
OpUnreachable
%end = OpLabel
%v = OpCompositeConstruct %v4u32 %li %gx %u_7 %u_8
%n = OpBitwiseAnd %u32 %li %u_3
%e = OpVectorExtractDynamic %u32 %v %n
%py = OpAccessChain %StorageBuffer_u32 %y %u_0 %li
OpStore %py %e
";
    let f = Fixture::new(64, body).buffer("y", "u32");
    for width in SUBGROUP_SIZES {
        let got = run(&f, width, &[Content::Fresh(256)]).unwrap().words(0);
        let expected: Vec<u32> = (0..64).map(|k| [k, k, 7, 8][k as usize & 3]).collect();
        assert_eq!(got, expected);
    }
    trap(
        &f.replaced("%li %u_64", "%li %u_60"),
        &[Content::Fresh(256)],
        TrapKind::Unreachable,
        "OpUnreachable",
    );
    let past = f.replaced("%li %u_3", "%li %u_7");
    trap(&past, &[Content::Fresh(256)], TrapKind::OutOfBounds, "OpVectorExtractDynamic");
}

#[test]
fn words_without_a_map_name_the_word() {
    let f = copy("%i = OpIAdd %u32 %gx %u_1");
    let mut kernel = f.kernel();
    kernel.source.entries.clear();
    let contents = [words([0; 64]), Content::Fresh(256)];
    let t = asm::run_with(Default::default(), &kernel, [1; 3], &[], &contents).unwrap_err();
    assert_eq!((t.kind.clone(), t.at), (TrapKind::OutOfBounds, None));
    assert!(t.text().contains(&format!("word {}", t.word)), "{t}");
}
