//! Cooperative matrices of the KHR extension: every instruction against plain Rust, at every width and several seeds.
// Test code outside the test functions themselves may stop a test too.
#![allow(clippy::panic, clippy::unwrap_used)]

mod asm;

use asm::{Content, Fixture, Outcome, each_width, floats, run_with, words};
use half::f16;
use kiln_spirv_interp::{InterpOptions, ReduceOrder, TrapKind};

/// 4 × 8 by 8 × 12, of f16, with f32 accumulators, shared by a subgroup.
const TYPES: &str = "
%A = OpTypeCooperativeMatrixKHR %f16 %u_3 %u_4 %u_8 %u_0
%B = OpTypeCooperativeMatrixKHR %f16 %u_3 %u_8 %u_12 %u_1
%C = OpTypeCooperativeMatrixKHR %f32 %u_3 %u_4 %u_12 %u_2
%Ch = OpTypeCooperativeMatrixKHR %f16 %u_3 %u_4 %u_12 %u_2
%pC = OpTypePointer Function %C
%C_0 = OpConstantNull %C
%C_2 = OpConstantComposite %C %f_2
";

/// Instructions, and what they make of an element.
type Case<T> = (&'static str, fn(T) -> T);

fn halves(values: impl IntoIterator<Item = f32>) -> Content {
    Content::Bytes(values.into_iter().flat_map(|v| f16::from_f32(v).to_le_bytes()).collect())
}

fn a() -> Vec<f32> {
    (0..32u32).map(|k| (k * 37 % 23) as f32 - 11.0).collect()
}

fn b() -> Vec<f32> {
    (0..96u32).map(|k| ((k * 53 % 17) as f32 - 8.0) / 4.0).collect()
}

/// b with rows of 16.
fn right() -> Content {
    halves(b().chunks(12).flat_map(|row| [row, &[f32::NAN; 4]].concat()))
}

fn product(a: &[f32], b: &[f32], [m, n, k]: [usize; 3]) -> Vec<f32> {
    let dot = |e: usize| (0..k).map(|i| a[e / n * k + i] * b[i * n + e % n]).sum();
    (0..m * n).map(dot).collect()
}

fn with(options: InterpOptions, f: &Fixture, contents: &[Content]) -> Outcome {
    run_with(options, &f.kernel(), [1, 1, 1], &[], contents).unwrap_or_else(|t| panic!("{t}"))
}

/// y = 4 × 12 of what `compute` leaves in %r, from f16 x and w and f32 z.
fn fixture(compute: &str) -> Fixture {
    let body = format!(
        "
%px = OpAccessChain %StorageBuffer_f16 %x %u_0 %u_0
%pw = OpAccessChain %StorageBuffer_f16 %w %u_0 %u_0
%py = OpAccessChain %StorageBuffer_f32 %y %u_0 %u_0
%a = OpCooperativeMatrixLoadKHR %A %px %u_0 %u_8
%b = OpCooperativeMatrixLoadKHR %B %pw %u_0 %u_16
{compute}
OpCooperativeMatrixStoreKHR %py %r %u_0 %u_12
"
    );
    // One subgroup stores; a partial one would be the same.
    Fixture { declare: TYPES.to_owned(), ..Fixture::new(4, &body) }
        .buffer("x", "f16")
        .buffer("w", "f16")
        .buffer("y", "f32")
}

fn contents() -> [Content; 3] {
    [halves(a()), right(), Content::Fresh(4 * 48)]
}

const MULTIPLY: &str = "%r = OpCooperativeMatrixMulAddKHR %C %a %b %C_2";

fn expected() -> Vec<f32> {
    product(&a(), &b(), [4, 12, 8]).into_iter().map(|v| v + 2.0).collect()
}

#[test]
fn a_product_of_halves() {
    let f = fixture(MULTIPLY);
    each_width(&f, &contents(), |o| {
        assert_eq!(o.floats(2), expected());
        assert_eq!(o.counters.matrices.multiply_adds, 4 * 12 * 8);
    });
    // The control: one element of the left factor is another.
    let mut other = a();
    other[9] += 1.0;
    let options = InterpOptions::default();
    let wrong = with(options, &f, &[halves(other), right(), Content::Fresh(4 * 48)]);
    assert_ne!(wrong.floats(2), expected());
}

#[test]
fn column_major_is_the_transpose() {
    let mut turned = vec![0.0; 32];
    for (e, v) in a().into_iter().enumerate() {
        turned[e % 8 * 4 + e / 8] = v;
    }
    let f = fixture(MULTIPLY).replaced("%px %u_0 %u_8", "%px %u_1 %u_4");
    let contents = [halves(turned), right(), Content::Fresh(4 * 48)];
    each_width(&f, &contents, |o| assert_eq!(o.floats(2), expected()));
}

#[test]
fn a_stride_leaves_gaps() {
    let f = fixture(MULTIPLY).replaced("%r %u_0 %u_12", "%r %u_0 %u_16");
    let gaps = floats(std::iter::repeat_n(-1.0, 64));
    each_width(&f, &[halves(a()), right(), gaps], |o| {
        for (row, want) in o.floats(2).chunks(16).zip(expected().chunks(12)) {
            assert_eq!(row, [want, &[-1.0; 4]].concat());
        }
    });
}

#[test]
fn the_order_of_a_sum_is_the_run_s() {
    let declare = "
%A = OpTypeCooperativeMatrixKHR %f32 %u_3 %u_1 %u_8 %u_0
%B = OpTypeCooperativeMatrixKHR %f32 %u_3 %u_8 %u_4 %u_1
%C = OpTypeCooperativeMatrixKHR %f32 %u_3 %u_1 %u_4 %u_2
%one = OpConstantComposite %B %f_1
%z = OpConstantNull %C
";
    let body = "
%px = OpAccessChain %StorageBuffer_f32 %x %u_0 %u_0
%py = OpAccessChain %StorageBuffer_f32 %y %u_0 %u_0
%a = OpCooperativeMatrixLoadKHR %A %px %u_0 %u_8
%r = OpCooperativeMatrixMulAddKHR %C %a %one %z
OpCooperativeMatrixStoreKHR %py %r %u_0 %u_4
";
    let f = Fixture { declare: declare.to_owned(), ..Fixture::new(4, body) }
        .buffer("x", "f32")
        .buffer("y", "f32");
    let x = [1e8f32, 1.0, 1.0, 1.0, -1e8, 3.0, 1.0, 1.0];
    let sum = |order| {
        let options = InterpOptions { reduce_order: order, ..InterpOptions::default() };
        with(options, &f, &[floats(x), Content::Fresh(16)]).floats(1)[0]
    };
    let forward = x.iter().fold(0.0, |s, v| s + v);
    let reverse = x.iter().rev().fold(0.0, |s, v| s + v);
    let tree = ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
    assert_eq!(sum(ReduceOrder::Forward), forward);
    assert_eq!(sum(ReduceOrder::Reverse), reverse);
    assert_eq!(sum(ReduceOrder::Tree), tree);
    assert!(forward != reverse && reverse != tree, "the case tells the orders apart");
}

#[test]
fn f16_sums_that_overflow_are_counted() {
    let f = fixture(
        "%z = OpCompositeConstruct %Ch %h_1
%h = OpCooperativeMatrixMulAddKHR %Ch %a %b %z
%r = OpFConvert %C %h",
    );
    let run = |scale: f32| {
        let x = a().into_iter().map(|v| v * scale);
        with(InterpOptions::default(), &f, &[halves(x), right(), Content::Fresh(192)])
    };
    let fine = run(1.0);
    assert_eq!(fine.counters.f16_overflows, 0);
    let want: Vec<f32> = expected().into_iter().map(|v| f16::from_f32(v - 1.0).to_f32()).collect();
    assert_eq!(fine.floats(2), want);
    assert!(run(5900.0).counters.f16_overflows > 0);
}

/// i32 accumulators of 8-bit factors.
fn bytes_fixture(result: &str, operands: u32) -> Fixture {
    let declare = format!(
        "
%A = OpTypeCooperativeMatrixKHR %u8 %u_3 %u_4 %u_16 %u_0
%B = OpTypeCooperativeMatrixKHR %u8 %u_3 %u_16 %u_4 %u_1
%C = OpTypeCooperativeMatrixKHR %{result} %u_3 %u_4 %u_4 %u_2
"
    );
    let body = format!(
        "
%px = OpAccessChain %StorageBuffer_u8 %x %u_0 %u_0
%pw = OpAccessChain %StorageBuffer_u8 %w %u_0 %u_0
%py = OpAccessChain %StorageBuffer_{result} %y %u_0 %u_0
%a = OpCooperativeMatrixLoadKHR %A %px %u_0 %u_16
%b = OpCooperativeMatrixLoadKHR %B %pw %u_0 %u_4
%c = OpCooperativeMatrixLoadKHR %C %py %u_0 %u_4
%r = OpCooperativeMatrixMulAddKHR %C %a %b %c {operands}
OpCooperativeMatrixStoreKHR %py %r %u_0 %u_4
"
    );
    let scalar = if result == "i32" { "i32" } else { "u32" };
    Fixture { declare, ..Fixture::new(4, &body) }.buffer("x", "u8").buffer("w", "u8").buffer("y", scalar)
}

#[test]
fn integer_products_are_exact_by_sign() {
    let x: Vec<u8> = (0..64u32).map(|k| (k * 91 + 200) as u8).collect();
    let w: Vec<u8> = (0..64u32).map(|k| (k * 57 + 130) as u8).collect();
    let c: Vec<u32> = (0..16u32).map(|k| k.wrapping_mul(0x3000_0001)).collect();
    let number = |v: u8, signed: bool| if signed { i64::from(v as i8) } else { i64::from(v) };
    for (operands, a_signed, b_signed) in
        [(0, false, false), (0xf, true, true), (1, true, false), (2, false, true)]
    {
        let f = bytes_fixture(if operands == 0xf { "i32" } else { "u32" }, operands);
        let contents = [Content::Bytes(x.clone()), Content::Bytes(w.clone()), words(c.clone())];
        each_width(&f, &contents, |o| {
            let want = |e: usize| {
                let dot: i64 = (0..16)
                    .map(|k| number(x[e / 4 * 16 + k], a_signed) * number(w[k * 4 + e % 4], b_signed))
                    .sum();
                (dot as u32).wrapping_add(c[e])
            };
            assert_eq!(o.words(2), (0..16).map(want).collect::<Vec<_>>(), "operands {operands}");
        });
    }
}

#[test]
fn saturation_stays_at_the_ends() {
    let (x, w) = ([127u8; 64], [127u8; 64]);
    let near = (i32::MAX - 5) as u32;
    let contents = [Content::Bytes(x.into()), Content::Bytes(w.into()), words([near; 16])];
    let run = |operands| with(InterpOptions::default(), &bytes_fixture("i32", operands), &contents).words(2);
    assert_eq!(run(0x1f), [i32::MAX as u32; 16]);
    assert_eq!(run(0xf), [near.wrapping_add(16 * 127 * 127); 16], "without it the sum wraps");
}

#[test]
fn elementwise_arithmetic_and_conversions() {
    let cases: [Case<f32>; 8] = [
        ("%r = OpFAdd %C %m %C_2", |v| v + 2.0),
        ("%r = OpFSub %C %C_2 %m", |v| 2.0 - v),
        ("%r = OpFMul %C %m %m", |v| v * v),
        ("%r = OpFDiv %C %m %C_2", |v| v / 2.0),
        ("%r = OpFNegate %C %m", |v| -v),
        ("%r = OpMatrixTimesScalar %C %m %f_0.5", |v| v * 0.5),
        ("%h = OpFConvert %Ch %m\n%r = OpFConvert %C %h", |v| f16::from_f32(v).to_f32()),
        ("%t = OpConvertFToS %Ci %m\n%n = OpSNegate %Ci %t\n%r = OpConvertSToF %C %n", |v| -v.trunc()),
    ];
    let plain = product(&a(), &b(), [4, 12, 8]);
    for (compute, want) in cases {
        let mut f = fixture(&format!("%m = OpCooperativeMatrixMulAddKHR %C %a %b %C_0\n{compute}"));
        f.declare += "%Ci = OpTypeCooperativeMatrixKHR %i32 %u_3 %u_4 %u_12 %u_2";
        let want: Vec<f32> = plain.iter().map(|&v| want(v)).collect();
        each_width(&f, &contents(), |o| assert_eq!(o.floats(2), want, "{compute}"));
    }
}

#[test]
fn integer_arithmetic_of_matrices() {
    let declare = "
%C = OpTypeCooperativeMatrixKHR %i32 %u_3 %u_4 %u_4 %u_2
%U = OpTypeCooperativeMatrixKHR %u32 %u_3 %u_4 %u_4 %u_2
%S = OpTypeCooperativeMatrixKHR %i16 %u_3 %u_4 %u_4 %u_2
";
    let cases: [Case<i32>; 7] = [
        ("%r = OpIAdd %C %m %m", |v| v.wrapping_add(v)),
        ("%r = OpISub %C %t %m", |v| 3i32.wrapping_sub(v)),
        ("%r = OpIMul %C %m %t", |v| v.wrapping_mul(3)),
        ("%r = OpSDiv %C %m %t", |v| v / 3),
        ("%r = OpMatrixTimesScalar %C %m %i_3", |v| v.wrapping_mul(3)),
        ("%u = OpBitcast %U %m\n%v = OpBitcast %U %t\n%q = OpUDiv %U %u %v\n%r = OpBitcast %C %q", |v| {
            (v as u32 / 3) as i32
        }),
        ("%s = OpSConvert %S %m\n%r = OpSConvert %C %s", |v| i32::from(v as i16)),
    ];
    let x: Vec<u32> = (0..16u32).map(|k| k.wrapping_mul(0x9e37_79b9)).collect();
    for (compute, want) in cases {
        let body = format!(
            "
%px = OpAccessChain %StorageBuffer_i32 %x %u_0 %u_0
%py = OpAccessChain %StorageBuffer_i32 %y %u_0 %u_0
%m = OpCooperativeMatrixLoadKHR %C %px %u_0 %u_4
%t = OpCompositeConstruct %C %i_3
{compute}
OpCooperativeMatrixStoreKHR %py %r %u_0 %u_4
"
        );
        let f = Fixture { declare: declare.to_owned(), ..Fixture::new(4, &body) }
            .buffer("x", "i32")
            .buffer("y", "i32");
        let want: Vec<u32> = x.iter().map(|&v| want(v as i32) as u32).collect();
        each_width(&f, &[words(x.clone()), Content::Fresh(64)], |o| {
            assert_eq!(o.words(1), want, "{compute}")
        });
    }
}

/// Doubles the invocation's own elements through a pointer, in a loop over the length.
const OWN: &str = "
%i = OpVariable %Function_u32 Function
%v = OpVariable %pC Function
%m = OpCooperativeMatrixMulAddKHR %C %a %b %C_2
OpStore %v %m
OpStore %i %u_0
%n = OpCooperativeMatrixLengthKHR %u32 %C
OpBranch %header
%header = OpLabel
%i0 = OpLoad %u32 %i
OpLoopMerge %done %next 0
OpBranch %test
%test = OpLabel
%go = OpULessThan %bool %i0 %n
OpBranchConditional %go %work %done
%work = OpLabel
%pe = OpAccessChain %Function_f32 %v %i0
%e = OpLoad %f32 %pe
%d = OpFAdd %f32 %e %e
OpStore %pe %d
OpBranch %next
%next = OpLabel
%i1 = OpIAdd %u32 %i0 %u_1
OpStore %i %i1
OpBranch %header
%done = OpLabel
%r = OpLoad %C %v
";

#[test]
fn each_invocation_reaches_its_own_elements() {
    let want: Vec<f32> = expected().into_iter().map(|v| 2.0 * v).collect();
    for local in [4, 3] {
        // 48 elements do not divide by 5 lanes of 64; a loop of other length in each lane is legal.
        let mut f = fixture(OWN);
        f.local[0] = local;
        each_width(&f, &contents(), |o| assert_eq!(o.floats(2), want));
    }
    let mut f = fixture(OWN);
    f.local[0] = 5;
    for subgroup_size in [8, 16, 32, 64] {
        let options = InterpOptions { subgroup_size, ..InterpOptions::default() };
        assert_eq!(with(options, &f, &contents()).floats(2), want);
    }
}

#[test]
fn the_mapping_is_the_seed_s_and_the_product_is_not() {
    let f = Fixture {
        declare: TYPES.to_owned(),
        ..Fixture::new(
            4,
            "
%px = OpAccessChain %StorageBuffer_f16 %x %u_0 %u_0
%pw = OpAccessChain %StorageBuffer_f16 %w %u_0 %u_0
%py = OpAccessChain %StorageBuffer_f32 %y %u_0 %u_0
%pl = OpAccessChain %StorageBuffer_f32 %z %u_0 %li
%a = OpCooperativeMatrixLoadKHR %A %px %u_0 %u_8
%b = OpCooperativeMatrixLoadKHR %B %pw %u_0 %u_16
%r = OpCooperativeMatrixMulAddKHR %C %a %b %C_2
OpCooperativeMatrixStoreKHR %py %r %u_0 %u_12
%e = OpCompositeExtract %f32 %r 0
OpStore %pl %e
",
        )
    }
    .buffer("x", "f16")
    .buffer("w", "f16")
    .buffer("y", "f32")
    .buffer("z", "f32");
    let contents = [halves(a()), right(), Content::Fresh(192), Content::Fresh(16)];
    let run = |seed| {
        let options = InterpOptions { seed, ..InterpOptions::default() };
        let o = with(options, &f, &contents);
        assert_eq!(o.floats(2), expected());
        o.floats(3)
    };
    let own: Vec<Vec<f32>> = (0..4).map(run).collect();
    assert!(own.iter().any(|o| *o != own[0]), "{own:?}");
    assert_eq!(run(1), own[1], "one seed, one mapping");
}

#[test]
fn inserting_an_element_changes_one_per_invocation() {
    let f = fixture("%m = OpCooperativeMatrixMulAddKHR %C %a %b %C_2\n%r = OpCompositeInsert %C %f_777 %m 2");
    each_width(&f, &contents(), |o| {
        let (got, want) = (o.floats(2), expected());
        let changed = got.iter().filter(|&&v| v == 777.0).count();
        assert_eq!(changed, 4);
        assert!(got.iter().zip(want).all(|(&g, w)| g == 777.0 || g == w));
    });
}

#[test]
fn arrays_functions_and_choices_of_matrices() {
    let cases = [
        // An array in a variable, with an index that is not constant.
        "
%v = OpVariable %ppair Function
%m = OpCooperativeMatrixMulAddKHR %C %a %b %C_2
%at = OpIMul %u32 %wx %u_2
%one = OpIAdd %u32 %at %u_1
%p0 = OpAccessChain %pC %v %at
%p1 = OpAccessChain %pC %v %one
OpStore %p0 %C_0
OpStore %p1 %m
%all = OpLoad %pair %v
%r = OpCompositeExtract %C %all 1",
        // An array as a value, with a matrix put into it.
        "
%m = OpCooperativeMatrixMulAddKHR %C %a %b %C_2
%two = OpCompositeConstruct %pair %C_0 %C_2
%put = OpCompositeInsert %pair %m %two 0
%r = OpCompositeExtract %C %put 0",
        "%m = OpCooperativeMatrixMulAddKHR %C %a %b %C_0\n%r = OpFunctionCall %C %add %m %C_2",
        "
%m = OpCooperativeMatrixMulAddKHR %C %a %b %C_2
%yes = OpIEqual %bool %wx %u_0
%r = OpSelect %C %yes %m %C_0",
        // A variable of the module.
        "
%m = OpCooperativeMatrixMulAddKHR %C %a %b %C_2
OpStore %own %m
%r = OpLoad %C %own",
    ];
    for compute in cases {
        let mut f = fixture(compute);
        f.declare += "
%pair = OpTypeArray %C %u_2
%ppair = OpTypePointer Function %pair
%add_type = OpTypeFunction %C %C %C
%pown = OpTypePointer Private %C
%own = OpVariable %pown Private
";
        f.functions = "
%add = OpFunction %C 0 %add_type
%add_x = OpFunctionParameter %C
%add_y = OpFunctionParameter %C
%add_label = OpLabel
%sum = OpFAdd %C %add_x %add_y
OpReturnValue %sum
OpFunctionEnd
"
        .to_owned();
        each_width(&f, &contents(), |o| assert_eq!(o.floats(2), expected(), "{compute}"));
    }
}

/// y = x + x through workgroup memory that is declared as `scalar`, `len` of them.
fn through_workgroup(scalar: &'static str, len: u32, stride: u32) -> Fixture {
    let body = format!(
        "
%px = OpAccessChain %StorageBuffer_f16 %x %u_0 %u_0
%py = OpAccessChain %StorageBuffer_f16 %y %u_0 %u_0
%a = OpCooperativeMatrixLoadKHR %A %px %u_0 %u_8
%t = OpAccessChain %Workgroup_{scalar} %tile %u_0
OpCooperativeMatrixStoreKHR %t %a %u_0 %u_{stride} NonPrivatePointer
OpControlBarrier %u_3 %u_3 %u_24840
%b = OpCooperativeMatrixLoadKHR %A %t %u_0 %u_{stride} NonPrivatePointer
%s = OpFAdd %A %a %b
OpCooperativeMatrixStoreKHR %py %s %u_0 %u_8
"
    );
    Fixture { declare: TYPES.to_owned(), ..Fixture::new(4, &body) }
        .buffer("x", "f16")
        .buffer("y", "f16")
        .shared("tile", scalar, len)
}

#[test]
fn workgroup_memory_of_any_scalar_holds_matrices() {
    for (scalar, len, stride) in [("f16", 32, 8), ("u32", 16, 4), ("u8", 64, 16), ("u32", 32, 8)] {
        let f = through_workgroup(scalar, len, stride);
        each_width(&f, &[halves(a()), Content::Fresh(64)], |o| {
            let got: Vec<f32> =
                o.buffers[1].chunks(2).map(|c| f16::from_le_bytes([c[0], c[1]]).to_f32()).collect();
            assert_eq!(got, a().into_iter().map(|v| 2.0 * v).collect::<Vec<_>>(), "{scalar}");
        });
    }
}

#[test]
fn a_buffer_of_vectors_has_strides_in_vectors() {
    let f = fixture(MULTIPLY).replaced(
        "%px = OpAccessChain %StorageBuffer_f16 %x %u_0 %u_0",
        "%px = OpAccessChain %pv4h %xv %u_0 %u_0",
    );
    let f = f.replaced("%px %u_0 %u_8", "%px %u_0 %u_2");
    let f = Fixture {
        declare: format!(
            "{TYPES}
OpDecorate %av4h ArrayStride 8
%av4h = OpTypeRuntimeArray %v4f16
OpDecorate %bv4h Block
OpMemberDecorate %bv4h 0 Offset 0
%bv4h = OpTypeStruct %av4h
%pbv4h = OpTypePointer StorageBuffer %bv4h
%pv4h = OpTypePointer StorageBuffer %v4f16
OpDecorate %xv DescriptorSet 0
OpDecorate %xv Binding 0
%xv = OpVariable %pbv4h StorageBuffer
"
        ),
        ..f
    };
    each_width(&f, &contents(), |o| assert_eq!(o.floats(2), expected()));
}

#[test]
fn bfloat16_is_moved_converted_and_multiplied() {
    let declare = "
%bf = OpTypeFloat 16 0
%A = OpTypeCooperativeMatrixKHR %bf %u_3 %u_4 %u_8 %u_0
%B = OpTypeCooperativeMatrixKHR %bf %u_3 %u_8 %u_4 %u_1
%C = OpTypeCooperativeMatrixKHR %f32 %u_3 %u_4 %u_4 %u_2
%Cb = OpTypeCooperativeMatrixKHR %bf %u_3 %u_4 %u_4 %u_2
%z = OpConstantNull %C
";
    let body = "
%px = OpAccessChain %StorageBuffer_u16 %x %u_0 %u_0
%pw = OpAccessChain %StorageBuffer_u16 %w %u_0 %u_0
%py = OpAccessChain %StorageBuffer_f32 %y %u_0 %u_0
%a = OpCooperativeMatrixLoadKHR %A %px %u_0 %u_8
%b = OpCooperativeMatrixLoadKHR %B %pw %u_0 %u_4
%m = OpCooperativeMatrixMulAddKHR %C %a %b %z
%n = OpFConvert %Cb %m
%r = OpFConvert %C %n
OpCooperativeMatrixStoreKHR %py %r %u_0 %u_4
%three = OpConvertSToF %bf %i_-259
%bits = OpBitcast %u16 %three
%wide = OpFConvert %f32 %three
%int = OpConvertFToS %i32 %three
%f = OpConvertSToF %f32 %int
%word = OpUConvert %u32 %bits
%fw = OpConvertUToF %f32 %word
%p16 = OpAccessChain %StorageBuffer_f32 %y %u_0 %at16
%p17 = OpAccessChain %StorageBuffer_f32 %y %u_0 %at17
%p18 = OpAccessChain %StorageBuffer_f32 %y %u_0 %at18
%e = OpIEqual %bool %li %u_0
OpSelectionMerge %end 0
OpBranchConditional %e %write %end
%write = OpLabel
OpStore %p16 %wide
OpStore %p17 %f
OpStore %p18 %fw
OpBranch %end
%end = OpLabel
";
    let body = body.replace("%at16", "%u_16").replace("%at17", "%u_17").replace("%at18", "%u_18");
    let f = Fixture { declare: declare.to_owned(), ..Fixture::new(4, &body) }
        .buffer("x", "u16")
        .buffer("w", "u16")
        .buffer("y", "f32");
    let upper = |v: &f32| (v.to_bits() >> 16) as u16;
    let rounded = |v: f32| half::bf16::from_f32(v).to_f32();
    let (x, w) = (a(), b()[..32].to_vec());
    let bytes = |v: &[f32]| Content::Bytes(v.iter().flat_map(|v| upper(v).to_le_bytes()).collect());
    let mut want: Vec<f32> = product(&x, &w, [4, 4, 8]).into_iter().map(rounded).collect();
    // -259 lies between -258 and -260, and the even one is -260.
    want.extend([-260.0, -260.0, f32::from(upper(&-260.0))]);
    each_width(&f, &[bytes(&x), bytes(&w), Content::Fresh(76)], |o| assert_eq!(o.floats(2), want));
    for (from, to) in [
        ("%wide = OpFConvert %f32 %three", "%sum = OpFAdd %bf %three %three\n%wide = OpFConvert %f32 %three"),
        ("%r = OpFConvert %C %n", "%n2 = OpFAdd %Cb %n %n\n%r = OpFConvert %C %n"),
    ] {
        let wrong = f.replaced(from, to);
        let contents = [bytes(&x), bytes(&w), Content::Fresh(76)];
        let trap =
            run_with(InterpOptions::default(), &wrong.kernel(), [1, 1, 1], &[], &contents).unwrap_err();
        assert!(matches!(trap.kind, TrapKind::Module(_)), "{trap}");
    }
}
