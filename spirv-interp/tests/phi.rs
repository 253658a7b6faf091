//! Phi instructions, which foreign modules have where ours have variables.
// Test code outside the test functions themselves may stop a test too.
#![allow(clippy::panic, clippy::unwrap_used)]

mod asm;

use asm::{Content, Fixture, each_width, floats, run_with, words};
use kiln_spirv_interp::{InterpOptions, TrapKind};

/// y[li] = a and b of `li` Fibonacci steps, swapped once more: the loop's phis read one another's old values.
const SWAP: &str = "
OpBranch %header
%header = OpLabel
%a = OpPhi %u32 %u_0 %main_label %b %next
%b = OpPhi %u32 %u_1 %main_label %sum %next
%i = OpPhi %u32 %u_0 %main_label %i1 %next
OpLoopMerge %done %next 0
OpBranch %test
%test = OpLabel
%go = OpULessThan %bool %i %li
OpBranchConditional %go %work %done
%work = OpLabel
%sum = OpIAdd %u32 %a %b
OpBranch %next
%next = OpLabel
%i1 = OpIAdd %u32 %i %u_1
OpBranch %header
%done = OpLabel
%odd = OpBitwiseAnd %u32 %li %u_1
%is_odd = OpIEqual %bool %odd %u_1
OpSelectionMerge %joined 0
OpBranchConditional %is_odd %upper %joined
%upper = OpLabel
%big = OpIAdd %u32 %a %u_1000
OpBranch %joined
%joined = OpLabel
%r = OpPhi %u32 %a %done %big %upper
%p = OpAccessChain %StorageBuffer_u32 %y %u_0 %li
OpStore %p %r
";

#[test]
fn each_lane_brings_its_own_value() {
    let f = Fixture::new(24, SWAP).buffer("y", "u32");
    let want: Vec<u32> = (0..24)
        .map(|li| {
            let (a, _) = (0..li).fold((0u32, 1u32), |(a, b), _| (b, a + b));
            if li % 2 == 1 { a + 1000 } else { a }
        })
        .collect();
    each_width(&f, &[Content::Fresh(96)], |o| assert_eq!(o.words(0), want));
    // One parent's value taken for another's is another result.
    let wrong = f.replaced("%a %done %big %upper", "%big %done %a %upper");
    let trap = run_with(InterpOptions::default(), &wrong.kernel(), [1, 1, 1], &[], &[Content::Fresh(96)]);
    assert!(!trap.is_ok_and(|o| o.words(0) == want));
    let mistyped = f.replaced("%b = OpPhi %u32 %u_1", "%b = OpPhi %u32 %f_1");
    let trap = run_with(InterpOptions::default(), &mistyped.kernel(), [1, 1, 1], &[], &[Content::Fresh(96)]);
    assert!(matches!(trap.unwrap_err().kind, TrapKind::Module(_)));
}

#[test]
fn matrices_go_round_a_loop() {
    let declare = "
%M = OpTypeCooperativeMatrixKHR %f32 %u_2 %u_4 %u_8 %u_2
%one = OpConstantComposite %M %f_1
";
    let body = "
%px = OpAccessChain %StorageBuffer_f32 %x %u_0 %u_0
%py = OpAccessChain %StorageBuffer_f32 %y %u_0 %u_0
%x0 = OpCooperativeMatrixLoadKHR %M %px %u_0 %u_8
OpBranch %header
%header = OpLabel
%m = OpPhi %M %one %main_label %product %next
%i = OpPhi %u32 %u_0 %main_label %i1 %next
OpLoopMerge %done %next 0
OpBranch %test
%test = OpLabel
%go = OpULessThan %bool %i %u_3
OpBranchConditional %go %next %done
%next = OpLabel
%product = OpFMul %M %m %x0
%i1 = OpIAdd %u32 %i %u_1
OpBranch %header
%done = OpLabel
OpCooperativeMatrixStoreKHR %py %m %u_0 %u_8
";
    let f = Fixture { declare: declare.to_owned(), ..Fixture::new(16, body) };
    let f = f.buffer("x", "f32").buffer("y", "f32");
    let x: Vec<f32> = (0..32u32).map(|k| k as f32 / 4.0).collect();
    let want: Vec<f32> = x.iter().map(|v| v * v * v).collect();
    each_width(&f, &[floats(x), words([0; 32])], |o| assert_eq!(o.floats(1), want));
}
