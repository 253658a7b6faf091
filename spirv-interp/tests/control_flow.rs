//! Structured control flow under divergence, calls, variables, builtins, subgroup operations.
// Test code outside the test functions themselves may stop a test too.
#![allow(clippy::panic, clippy::unwrap_used)]

mod asm;

use asm::{Content, Fixture, run, run_with};
use kiln_spirv_interp::{InterpOptions, ReduceOrder, SUBGROUP_SIZES};

/// Nested loops with break and continue that differ per lane, against the same in Rust.
#[test]
fn lanes_meet_again_behind_loops() {
    let body = "
%i = OpVariable %Function_u32 Function
%j = OpVariable %Function_u32 Function
%sum = OpVariable %Function_u32 Function
OpStore %i %u_0
OpStore %sum %u_0
OpBranch %outer
%outer = OpLabel
%i0 = OpLoad %u32 %i
OpLoopMerge %done %outer_next 0
OpBranch %outer_test
%outer_test = OpLabel
%more = OpULessThan %bool %i0 %gx
OpBranchConditional %more %outer_body %done
%outer_body = OpLabel
%odd = OpBitwiseAnd %u32 %i0 %u_1
%is_odd = OpINotEqual %bool %odd %u_0
OpSelectionMerge %even 0
OpBranchConditional %is_odd %outer_next %even
%even = OpLabel
OpStore %j %u_0
OpBranch %inner
%inner = OpLabel
%j0 = OpLoad %u32 %j
OpLoopMerge %inner_done %inner_next 0
OpBranch %inner_body
%inner_body = OpLabel
%s0 = OpLoad %u32 %sum
%t0 = OpIMul %u32 %i0 %u_3
%t1 = OpIAdd %u32 %t0 %j0
%s1 = OpIAdd %u32 %s0 %t1
OpStore %sum %s1
%enough = OpUGreaterThan %bool %s1 %u_200
OpSelectionMerge %go_on 0
OpBranchConditional %enough %leave %go_on
%leave = OpLabel
OpBranch %inner_done
%go_on = OpLabel
OpBranch %inner_next
%inner_next = OpLabel
%j1 = OpIAdd %u32 %j0 %u_1
OpStore %j %j1
%again = OpULessThanEqual %bool %j1 %i0
OpBranchConditional %again %inner %inner_done
%inner_done = OpLabel
OpBranch %outer_next
%outer_next = OpLabel
%i1 = OpIAdd %u32 %i0 %u_1
OpStore %i %i1
OpBranch %outer
%done = OpLabel
%all = OpGroupNonUniformIAdd %u32 %u_3 Reduce %u_1
%r = OpLoad %u32 %sum
%py = OpAccessChain %StorageBuffer_u32 %y %u_0 %gx
OpStore %py %r
%pn = OpAccessChain %StorageBuffer_u32 %n %u_0 %gx
OpStore %pn %all
";
    let expected: Vec<u32> = (0..64u32)
        .map(|gx| {
            let mut sum = 0;
            for i in (0..gx).filter(|i| i % 2 == 0) {
                for j in 0..=i {
                    sum += i * 3 + j;
                    if sum > 200 {
                        break;
                    }
                }
            }
            sum
        })
        .collect();
    let f = Fixture::new(64, body).buffer("y", "u32").buffer("n", "u32");
    for width in SUBGROUP_SIZES {
        let got = run(&f, width, &[Content::Fresh(256), Content::Fresh(256)]).unwrap();
        assert_eq!(got.words(0), expected, "width {width}");
        assert_eq!(got.words(1), vec![width; 64], "every lane is back for the subgroup operation");
    }
}

/// A value made in a loop keeps, for each lane, what the lane's own last round gave it.
#[test]
fn values_of_a_loop_outlive_it() {
    let body = "
%i = OpVariable %Function_u32 Function
OpStore %i %u_0
OpBranch %header
%header = OpLabel
%i0 = OpLoad %u32 %i
%square = OpIMul %u32 %i0 %i0
OpLoopMerge %done %next 0
OpBranch %test
%test = OpLabel
%go = OpULessThan %bool %i0 %lane
OpBranchConditional %go %next %done
%next = OpLabel
%i1 = OpIAdd %u32 %i0 %u_1
OpStore %i %i1
OpBranch %header
%done = OpLabel
%py = OpAccessChain %StorageBuffer_u32 %y %u_0 %gx
OpStore %py %square
";
    let f = Fixture::new(64, body).buffer("y", "u32");
    for width in SUBGROUP_SIZES {
        let expected: Vec<u32> = (0..64).map(|k| (k % width).pow(2)).collect();
        assert_eq!(run(&f, width, &[Content::Fresh(256)]).unwrap().words(0), expected);
    }
}

#[test]
fn calls_return_early_and_write_through_pointers() {
    let mut f = Fixture::new(
        64,
        "
%s = OpVariable %Function_u32 Function
OpStore %s %u_0
%a = OpFunctionCall %u32 %pick %gx
%b = OpFunctionCall %u32 %pick %a
%v = OpFunctionCall %void %bump %s %b
%w = OpFunctionCall %void %bump %s %u_1
%r = OpLoad %u32 %s
%py = OpAccessChain %StorageBuffer_u32 %y %u_0 %gx
OpStore %py %r
",
    )
    .buffer("y", "u32");
    f.declare = "%pick_type = OpTypeFunction %u32 %u32
%bump_type = OpTypeFunction %void %Function_u32 %u32"
        .to_owned();
    f.functions = "
%pick = OpFunction %u32 0 %pick_type
%x = OpFunctionParameter %u32
%pick_label = OpLabel
%local = OpVariable %Function_u32 Function
%low = OpULessThan %bool %x %u_20
OpSelectionMerge %high_label 0
OpBranchConditional %low %low_label %high_label
%low_label = OpLabel
%x3 = OpIMul %u32 %x %u_3
OpReturnValue %x3
%high_label = OpLabel
OpStore %local %x
%x0 = OpLoad %u32 %local
%x1 = OpIAdd %u32 %x0 %u_1
OpReturnValue %x1
OpFunctionEnd
%bump = OpFunction %void 0 %bump_type
%target = OpFunctionParameter %Function_u32
%by = OpFunctionParameter %u32
%bump_label = OpLabel
%t0 = OpLoad %u32 %target
%t1 = OpIAdd %u32 %t0 %by
OpStore %target %t1
OpReturn
OpFunctionEnd
"
    .to_owned();
    let pick = |x: u32| if x < 20 { 3 * x } else { x + 1 };
    let expected: Vec<u32> = (0..64).map(|x| pick(pick(x)) + 1).collect();
    for width in SUBGROUP_SIZES {
        assert_eq!(run(&f, width, &[Content::Fresh(256)]).unwrap().words(0), expected);
    }
}

#[test]
fn arrays_structs_and_private_variables() {
    let mut f = Fixture::new(
        64,
        "
%t = OpVariable %table_pointer Function
OpStore %t %table
%i = OpBitwiseAnd %u32 %gx %u_3
%pt = OpAccessChain %Function_u32 %t %i
%v = OpLoad %u32 %pt
OpStore %hidden %v
OpStore %pt %u_9
%whole = OpLoad %array4 %t
%second = OpCompositeExtract %u32 %whole 1
%pair = OpCompositeConstruct %two %second %v
%swapped = OpCompositeInsert %two %v %pair 0
%p0 = OpCompositeExtract %u32 %swapped 0
%p1 = OpCompositeExtract %u32 %swapped 1
%h = OpLoad %u32 %hidden
%s0 = OpIAdd %u32 %second %p0
%s1 = OpIAdd %u32 %s0 %p1
%s2 = OpIAdd %u32 %s1 %h
%py = OpAccessChain %StorageBuffer_u32 %y %u_0 %gx
OpStore %py %s2
",
    )
    .buffer("y", "u32");
    f.declare = "
%array4 = OpTypeArray %u32 %u_4
%two = OpTypeStruct %u32 %u32
%table_pointer = OpTypePointer Function %array4
%table = OpConstantComposite %array4 %u_10 %u_20 %u_30 %u_40
%hidden = OpVariable %Private_u32 Private
"
    .to_owned();
    let table = [10, 20, 30, 40];
    let expected: Vec<u32> = (0..64)
        .map(|k| (table[k & 3], if k & 3 == 1 { 9 } else { 20 }))
        .map(|(v, second)| second + 3 * v)
        .collect();
    for width in SUBGROUP_SIZES {
        let got = run(&f, width, &[Content::Fresh(256)]).unwrap();
        assert_eq!(got.words(0), expected);
        assert!(got.counters.variables.stores >= 64 * 6, "{:?}", got.counters);
    }
}

#[test]
fn builtins_of_a_grid_in_three_dimensions() {
    let body = "
%g = OpLoad %v3u32 %gid
%x = OpCompositeExtract %u32 %g 0
%y = OpCompositeExtract %u32 %g 1
%z = OpCompositeExtract %u32 %g 2
%l = OpLoad %v3u32 %lid
%lz = OpCompositeExtract %u32 %l 2
%n = OpLoad %v3u32 %nwg
%nx = OpCompositeExtract %u32 %n 0
%row = OpIMul %u32 %z %u_6
%row_y = OpIAdd %u32 %row %y
%at0 = OpIMul %u32 %row_y %u_15
%at = OpIAdd %u32 %at0 %x
%sub = OpIMul %u32 %sg %width
%sub_lane = OpIAdd %u32 %sub %lane
%same = OpIEqual %bool %sub_lane %li
%ok = OpSelect %u32 %same %u_1000 %u_0
%v0 = OpIAdd %u32 %ok %lz
%n10 = OpIMul %u32 %nx %u_10
%v = OpIAdd %u32 %v0 %n10
%p = OpAccessChain %StorageBuffer_u32 %out %u_0 %at
OpStore %p %v
";
    let mut f = Fixture::new(1, body).buffer("out", "u32");
    f.local = [5, 3, 2];
    for width in SUBGROUP_SIZES {
        // 30 invocations: the last subgroup is partial at most widths.
        let options = InterpOptions { subgroup_size: width, ..InterpOptions::default() };
        let got = run_with(options, &f.kernel(), [3, 2, 2], &[], &[Content::Fresh(15 * 6 * 4 * 4)]).unwrap();
        let expected: Vec<u32> = (0..4u32).flat_map(|z| vec![1000 + 30 + z % 2; 90]).collect();
        assert_eq!(got.words(0), expected, "width {width}");
        assert_eq!(got.counters.workgroups, 12);
    }
}

/// Runs `instruction`, whose operand is `%v`, over 40 lanes with values of scalar type `ty`.
fn exchange(
    instruction: &str,
    ty: &'static str,
    width: u32,
    order: ReduceOrder,
    v: impl Fn(u32) -> u32,
) -> Vec<u32> {
    let body = format!(
        "%px = OpAccessChain %StorageBuffer_{ty} %x %u_0 %li
%v = OpLoad %{ty} %px
%r = {instruction}
%py = OpAccessChain %StorageBuffer_{ty} %y %u_0 %li
OpStore %py %r
"
    );
    let f = Fixture::new(40, &body).buffer("x", ty).buffer("y", ty);
    let options = InterpOptions { subgroup_size: width, reduce_order: order, ..InterpOptions::default() };
    let contents = [asm::words((0..40).map(v)), Content::Fresh(160)];
    run_with(options, &f.kernel(), [1; 3], &[], &contents).unwrap().words(1)
}

/// The lanes of each subgroup of 40 invocations.
fn groups(width: u32) -> impl Iterator<Item = Vec<u32>> {
    (0..40u32.div_ceil(width)).map(move |s| (s * width..(s * width + width).min(40)).collect())
}

#[test]
fn reductions_and_scans() {
    type Fold = (&'static str, u32, fn(u32, u32) -> u32);
    let cases: [Fold; 9] = [
        ("IAdd", 0, u32::wrapping_add),
        ("IMul", 1, u32::wrapping_mul),
        ("UMin", u32::MAX, u32::min),
        ("UMax", 0, u32::max),
        ("SMin", i32::MAX as u32, |a, b| (a as i32).min(b as i32) as u32),
        ("SMax", i32::MIN as u32, |a, b| (a as i32).max(b as i32) as u32),
        ("BitwiseAnd", u32::MAX, |a, b| a & b),
        ("BitwiseOr", 0, |a, b| a | b),
        ("BitwiseXor", 0, |a, b| a ^ b),
    ];
    let value = |k: u32| (k + 1).wrapping_mul(0x9e37_79b9);
    for width in SUBGROUP_SIZES {
        for (name, identity, f) in cases {
            for order in [ReduceOrder::Forward, ReduceOrder::Reverse, ReduceOrder::Tree] {
                let run = |group: &str| {
                    exchange(
                        &format!("OpGroupNonUniform{name} %u32 %u_3 {group} %v"),
                        "u32",
                        width,
                        order,
                        value,
                    )
                };
                let (all, inclusive, exclusive) = (run("Reduce"), run("InclusiveScan"), run("ExclusiveScan"));
                for lanes in groups(width) {
                    let mut sum = identity;
                    for &k in &lanes {
                        assert_eq!(exclusive[k as usize], sum, "{name} width {width}");
                        sum = f(sum, value(k));
                        assert_eq!(inclusive[k as usize], sum, "{name} width {width}");
                    }
                    assert!(lanes.iter().all(|&k| all[k as usize] == sum), "{name} width {width}");
                }
            }
        }
    }
}

#[test]
fn float_reductions_follow_the_order_asked_for() {
    let value = |k: u32| if k.is_multiple_of(3) { 1e8f32 } else { 1.0 + k as f32 }.to_bits();
    let sum = |order| {
        exchange("OpGroupNonUniformFAdd %f32 %u_3 Reduce %v", "f32", 32, order, value)
            .into_iter()
            .map(f32::from_bits)
            .collect::<Vec<_>>()
    };
    let (forward, reverse, tree) =
        (sum(ReduceOrder::Forward), sum(ReduceOrder::Reverse), sum(ReduceOrder::Tree));
    let values: Vec<f32> = (0..32).map(|k| f32::from_bits(value(k))).collect();
    let rust = values.iter().copied().reduce(|a, b| a + b).unwrap();
    let backward = values.iter().rev().copied().reduce(|a, b| a + b).unwrap();
    assert_eq!((forward[0], reverse[0]), (rust, backward));
    assert!(forward[0] != tree[0] || reverse[0] != tree[0], "the case has to be sensitive to the order");
    let max = exchange("OpGroupNonUniformFMax %f32 %u_3 Reduce %v", "f32", 8, ReduceOrder::Tree, value);
    assert_eq!(f32::from_bits(max[0]), 1e8);
    let min =
        exchange("OpGroupNonUniformFMin %f32 %u_3 ExclusiveScan %v", "f32", 8, ReduceOrder::Tree, value);
    assert_eq!(f32::from_bits(min[0]), f32::INFINITY);
    let product =
        exchange("OpGroupNonUniformFMul %f32 %u_3 Reduce %v", "f32", 4, ReduceOrder::Forward, |_| {
            2f32.to_bits()
        });
    assert_eq!(f32::from_bits(product[39]), 16.0);
}

#[test]
fn shuffles_votes_and_ballots() {
    let value = |k: u32| 100 + k;
    for width in [4, 8] {
        // 40 lanes are whole subgroups of 4 and 8.
        let run = |text: &str| exchange(text, "u32", width, ReduceOrder::Forward, value);
        let base = |k: u32| k / width * width;
        let check = |got: Vec<u32>, f: &dyn Fn(u32) -> u32| {
            assert_eq!(got, (0..40).map(f).collect::<Vec<_>>(), "width {width}");
        };
        check(run("OpGroupNonUniformShuffleXor %u32 %u_3 %v %u_3"), &|k| 100 + (k ^ 3));
        check(run("OpGroupNonUniformBroadcast %u32 %u_3 %v %u_2"), &|k| 102 + base(k));
        check(run("OpGroupNonUniformBroadcastFirst %u32 %u_3 %v"), &|k| 100 + base(k));
        check(run("OpGroupNonUniformShuffle %u32 %u_3 %v %u_1"), &|k| 101 + base(k));
        check(run("OpGroupNonUniformShuffleDown %u32 %u_3 %v %u_0"), &|k| 100 + k);
    }
    let body = "
%low = OpULessThan %bool %li %u_33
%ballot = OpGroupNonUniformBallot %v4u32 %u_3 %low
%b0 = OpCompositeExtract %u32 %ballot 0
%b1 = OpCompositeExtract %u32 %ballot 1
%all = OpGroupNonUniformAll %bool %u_3 %low
%any = OpGroupNonUniformAny %bool %u_3 %low
%elected = OpGroupNonUniformElect %bool %u_3
%f0 = OpSelect %u32 %all %u_1 %u_0
%f1 = OpSelect %u32 %any %u_2 %u_0
%f2 = OpSelect %u32 %elected %u_4 %u_0
%f01 = OpBitwiseOr %u32 %f0 %f1
%f = OpBitwiseOr %u32 %f01 %f2
%p0 = OpAccessChain %StorageBuffer_u32 %y0 %u_0 %li
OpStore %p0 %b0
%p1 = OpAccessChain %StorageBuffer_u32 %y1 %u_0 %li
OpStore %p1 %b1
%p2 = OpAccessChain %StorageBuffer_u32 %y2 %u_0 %li
OpStore %p2 %f
";
    let f = Fixture::new(40, body).buffer("y0", "u32").buffer("y1", "u32").buffer("y2", "u32");
    for width in SUBGROUP_SIZES {
        let fresh = Content::Fresh(160);
        let got = run(&f, width, &[fresh.clone(), fresh.clone(), fresh]).unwrap();
        for lanes in groups(width) {
            let bits = lanes.iter().zip(0..).filter(|(k, _)| **k < 33).fold(0u64, |m, (_, b)| m | 1 << b);
            let (all, any) = (lanes.iter().all(|&k| k < 33), lanes.iter().any(|&k| k < 33));
            for (lane, &k) in lanes.iter().enumerate() {
                let flags = u32::from(all) | u32::from(any) << 1 | u32::from(lane == 0) << 2;
                let found = [got.words(0), got.words(1), got.words(2)].map(|w| w[k as usize]);
                assert_eq!(found, [bits as u32, (bits >> 32) as u32, flags], "width {width} lane {k}");
            }
        }
    }
}

#[test]
fn one_seed_is_one_run_and_seeds_differ() {
    // Workgroups append to nothing: only the order of their traps shows.
    let body = "%d = OpISub %u32 %wx %wx
%q = OpUDiv %u32 %wx %d
";
    let f = Fixture::new(1, body);
    let first = |seed| {
        let options = InterpOptions { seed, ..InterpOptions::default() };
        run_with(options, &f.kernel(), [64, 1, 1], &[], &[]).unwrap_err().workgroup
    };
    assert_eq!(first(1), first(1));
    let distinct: std::collections::HashSet<_> = (0..20).map(first).collect();
    assert!(distinct.len() > 5, "{distinct:?}");
}
