//! Matrices of workgroup scope through tensor layouts and views, reductions and per-element functions.
// Test code outside the test functions themselves may stop a test too.
#![allow(clippy::panic, clippy::unwrap_used)]

mod asm;

use asm::{Content, Fixture, Outcome, each_width, floats, run_with, words};
use kiln_spirv_interp::{InterpOptions, Trap, TrapKind};

fn run(f: &Fixture, options: InterpOptions, contents: &[Content]) -> Result<Outcome, Trap> {
    run_with(options, &f.kernel(), [1, 1, 1], &[], contents)
}

/// Types that every case here can name: an 8 × 8 accumulator of f32 shared by the workgroup, and layouts by clamp mode.
const TYPES: &str = "
%M = OpTypeCooperativeMatrixKHR %f32 %u_2 %u_8 %u_8 %u_2
%pa = OpTypePointer StorageBuffer %array_f32
%none = OpConstantComposite %M %f_-9
%t0 = OpTypeTensorLayoutNV %u_2 %u_0
%t1 = OpTypeTensorLayoutNV %u_2 %u_1
%t2 = OpTypeTensorLayoutNV %u_2 %u_2
%t3 = OpTypeTensorLayoutNV %u_2 %u_3
%t4 = OpTypeTensorLayoutNV %u_2 %u_4
%t3d = OpTypeTensorLayoutNV %u_3 %u_1
%turned = OpTypeTensorViewNV %u_2 %false %u_1 %u_0
%viewed = OpTypeTensorViewNV %u_2 %true %u_0 %u_1
%v3d = OpTypeTensorViewNV %u_3 %false %u_1 %u_2 %u_0
";

/// y[8, 8] = what `load` leaves in %m; %px and %py point to the buffers.
fn fixture(load: &str) -> Fixture {
    let body = format!(
        "
%px = OpAccessChain %pa %x %u_0
%py = OpAccessChain %StorageBuffer_f32 %y %u_0 %u_0
{load}
OpCooperativeMatrixStoreKHR %py %m %u_0 %u_8
"
    );
    Fixture { declare: TYPES.to_owned(), ..Fixture::new(64, &body) }.buffer("x", "f32").buffer("y", "f32")
}

fn numbers(n: u32) -> Vec<f32> {
    (0..n).map(|k| k as f32 + 1.0).collect()
}

/// What a coordinate outside 0..n becomes, by clamp mode; `None` is the clamp value.
fn clamped(mode: u32, c: i64, n: i64) -> Option<i64> {
    let inside = (0..n).contains(&c);
    match mode {
        _ if inside => Some(c),
        1 => None,
        2 => Some(if c < 0 { 0 } else { n - 1 }),
        3 => Some((c % n + n) % n),
        _ => {
            // Walk there and back between the ends.
            let (mut at, mut step) = (0, 1);
            let mut left = c.abs();
            while left > 0 {
                if !(0..n).contains(&(at + step)) {
                    step = -step;
                }
                at += step;
                left -= 1;
            }
            Some(at)
        }
    }
}

#[test]
fn clamp_modes_are_those_of_a_plain_model() {
    for mode in 1..=4 {
        for (rows, cols, row0, col0) in [(5, 6, -2i64, -1i64), (3, 7, 1, 2), (8, 8, 0, 0), (2, 3, -7, -8)] {
            let f = fixture(&format!(
                "
%l0 = OpCreateTensorLayoutNV %t{mode}
%l1 = OpTensorLayoutSetDimensionNV %t{mode} %l0 %u_{rows} %u_{cols}
%l2 = OpTensorLayoutSetClampValueNV %t{mode} %l1 %u_1084227584
%l3 = OpTensorLayoutSliceNV %t{mode} %l2 %i_{row0} %u_8 %i_{col0} %u_8
%m = OpCooperativeMatrixLoadTensorNV %M %px %none %l3 0 0"
            ));
            let x = numbers((rows * cols) as u32);
            let want = (0..64i64).map(|e| {
                let at = clamped(mode, e / 8 + row0, rows).zip(clamped(mode, e % 8 + col0, cols));
                at.map_or(5.0, |(r, c)| x[(r * cols + c) as usize])
            });
            let want: Vec<f32> = want.collect();
            each_width(&f, &[floats(x.clone()), Content::Fresh(256)], |o| {
                assert_eq!(o.floats(1), want, "mode {mode}, {rows} x {cols} from {row0}, {col0}");
            });
        }
    }
}

#[test]
fn without_a_clamp_mode_leaving_the_tensor_traps() {
    let f = fixture(
        "
%l0 = OpCreateTensorLayoutNV %t0
%l1 = OpTensorLayoutSetDimensionNV %t0 %l0 %u_9 %u_8
%l3 = OpTensorLayoutSliceNV %t0 %l1 %u_1 %u_8 %u_0 %u_8
%m = OpCooperativeMatrixLoadTensorNV %M %px %none %l3 0 0",
    );
    let contents = [floats(numbers(72)), Content::Fresh(256)];
    each_width(&f, &contents, |o| assert_eq!(o.floats(1), numbers(72)[8..]));
    let beyond = f.replaced("%l1 %u_1 %u_8", "%l1 %u_2 %u_8");
    let trap = run(&beyond, InterpOptions::default(), &contents).unwrap_err();
    assert_eq!(trap.kind, TrapKind::OutOfBounds);
    assert_eq!(trap.at.unwrap().line, beyond.line("LoadTensor"));
    assert!(trap.detail.contains("row 7, column 0: coordinate 9 of dimension 0, which has 9"), "{trap}");
    // Inside the tensor, past the buffer.
    let short = [floats(numbers(70)), Content::Fresh(256)];
    let trap = run(&f, InterpOptions::default(), &short).unwrap_err();
    assert_eq!(trap.kind, TrapKind::OutOfBounds);
    assert!(trap.detail.contains("row 7, column 6"), "{trap}");
}

#[test]
fn views_turn_reshape_and_clip() {
    let x = numbers(64);
    let turned: Vec<f32> = (0..64).map(|e| x[e % 8 * 8 + e / 8]).collect();
    let base = "
%l0 = OpCreateTensorLayoutNV %t0
%l1 = OpTensorLayoutSetDimensionNV %t0 %l0 %u_8 %u_8
";
    let cases = [
        (
            "%v = OpCreateTensorViewNV %turned
%m = OpCooperativeMatrixLoadTensorNV %M %px %none %l1 0 1 %v",
            turned.clone(),
        ),
        // Every second row twice: the view's own dimensions with a stride.
        (
            "%v0 = OpCreateTensorViewNV %viewed
%v1 = OpTensorViewSetDimensionNV %viewed %v0 %u_4 %u_16
%v = OpTensorViewSetStrideNV %viewed %v1 %u_16 %u_1
%m = OpCooperativeMatrixLoadTensorNV %M %px %none %l1 0 1 %v",
            x.clone(),
        ),
        (
            "%v0 = OpCreateTensorViewNV %viewed
%v1 = OpTensorViewSetDimensionNV %viewed %v0 %u_8 %u_8
%v = OpTensorViewSetStrideNV %viewed %v1 %u_0 %u_1
%m = OpCooperativeMatrixLoadTensorNV %M %px %none %l1 0 1 %v",
            (0..64).map(|e| x[e % 8]).collect(),
        ),
        // Rows 2 to 5 and columns 1 to 4 only; the others keep the old elements.
        (
            "%v0 = OpCreateTensorViewNV %turned
%v = OpTensorViewSetClipNV %turned %v0 %u_2 %u_4 %u_1 %u_4
%l2 = OpTensorLayoutSliceNV %t0 %l1 %u_3 %u_4 %u_0 %u_4
%m = OpCooperativeMatrixLoadTensorNV %M %px %none %l2 0 1 %v",
            (0..64)
                .map(|e| {
                    let (r, c) = (e / 8, e % 8);
                    let inside = (2..6).contains(&r) && (1..5).contains(&c);
                    if inside { x[(3 + c - 1) * 8 + r - 2] } else { -9.0 }
                })
                .collect(),
        ),
    ];
    for (load, want) in cases {
        let f = fixture(&format!("{base}{load}"));
        each_width(&f, &[floats(x.clone()), Content::Fresh(256)], |o| {
            assert_eq!(o.floats(1), want, "{load}")
        });
    }
}

#[test]
fn three_dimensions_with_strides_and_a_turn() {
    // A 3 × 5 × 4 tensor in rows of 6; the slice 2 × 4 × 4 from (1, 0, 0) fills half of the matrix, twice.
    let f = fixture(
        "
%l0 = OpCreateTensorLayoutNV %t3d
%l1 = OpTensorLayoutSetDimensionNV %t3d %l0 %u_3 %u_5 %u_4
%l2 = OpTensorLayoutSetStrideNV %t3d %l1 %u_30 %u_6 %u_1
%l3 = OpTensorLayoutSliceNV %t3d %l2 %u_1 %u_2 %u_0 %u_4 %u_0 %u_8
%v = OpCreateTensorViewNV %v3d
%m = OpCooperativeMatrixLoadTensorNV %M %px %none %l3 0 1 %v",
    );
    let x = numbers(96);
    let want: Vec<f32> = (0..64)
        .map(|e| {
            // The view counts axis 0 fastest, then 2, then 1: permutation 1, 2, 0.
            let (i, k, j) = (e % 2, e / 2 % 8, e / 16);
            if k < 4 { x[(1 + i) * 30 + j * 6 + k] } else { 0.0 }
        })
        .collect();
    each_width(&f, &[floats(x.clone()), Content::Fresh(256)], |o| assert_eq!(o.floats(1), want));
}

#[test]
fn tensor_stores_drop_what_lies_outside() {
    for mode in 1..=4 {
        let body = format!(
            "
%px = OpAccessChain %StorageBuffer_f32 %x %u_0 %u_0
%py = OpAccessChain %pa %y %u_0
%m = OpCooperativeMatrixLoadKHR %M %px %u_0 %u_8
%l0 = OpCreateTensorLayoutNV %t{mode}
%l1 = OpTensorLayoutSetDimensionNV %t{mode} %l0 %u_5 %u_6
%l2 = OpTensorLayoutSliceNV %t{mode} %l1 %i_-1 %u_8 %u_2 %u_8
%v = OpCreateTensorViewNV %turned
OpCooperativeMatrixStoreTensorNV %py %m %l2 0 1 %v
"
        );
        let f = Fixture { declare: TYPES.to_owned(), ..Fixture::new(64, &body) }
            .buffer("x", "f32")
            .buffer("y", "f32");
        let (x, mut want) = (numbers(64), vec![0.0; 30]);
        for r in 0..5 {
            for c in 2..6 {
                want[r * 6 + c] = x[(c - 2) * 8 + r + 1];
            }
        }
        each_width(&f, &[floats(x), floats(vec![0.0; 30])], |o| assert_eq!(o.floats(1), want, "mode {mode}"));
    }
}

#[test]
fn reductions_of_rows_columns_and_squares() {
    let x: Vec<f32> = (0..64u32).map(|k| (k * 29 % 31) as f32).collect();
    let row = |r: usize| x[r * 8..][..8].iter().sum::<f32>();
    let col = |c: usize| (0..8).map(|r| x[r * 8 + c]).sum::<f32>();
    let square = |r: usize, c: usize| {
        let at = r * 16 + c * 2;
        x[at] + x[at + 1] + x[at + 8] + x[at + 9]
    };
    let total: f32 = x.iter().sum();
    // Mode, rows, columns, and the element expected at a row and a column.
    type Want<'a> = (u32, u32, u32, Box<dyn Fn(usize, usize) -> f32 + 'a>);
    let cases: [Want<'_>; 5] = [
        (1, 8, 8, Box::new(|r, _| row(r))),
        (1, 8, 16, Box::new(|r, _| row(r))),
        (2, 4, 8, Box::new(|_, c| col(c))),
        (3, 8, 4, Box::new(|_, _| total)),
        (4, 4, 4, Box::new(square)),
    ];
    for (mode, rows, cols, want) in cases {
        let mut f = fixture(&format!(
            "%a = OpCooperativeMatrixLoadKHR %M %pl %u_0 %u_8\n%m = OpCooperativeMatrixReduceNV %R %a {mode} %add"
        ));
        f = f.replaced(
            "%px = OpAccessChain %pa %x %u_0",
            "%pl = OpAccessChain %StorageBuffer_f32 %x %u_0 %u_0",
        );
        f = f.replaced("%m %u_0 %u_8", &format!("%m %u_0 %u_{cols}"));
        f.declare += &format!(
            "%R = OpTypeCooperativeMatrixKHR %f32 %u_2 %u_{rows} %u_{cols} %u_2\n%add_type = OpTypeFunction %f32 %f32 %f32"
        );
        f.functions = "
%add = OpFunction %f32 0 %add_type
%add_x = OpFunctionParameter %f32
%add_y = OpFunctionParameter %f32
%add_label = OpLabel
%sum = OpFAdd %f32 %add_x %add_y
OpReturnValue %sum
OpFunctionEnd
"
        .to_owned();
        let n = (rows * cols) as usize;
        let expect: Vec<f32> = (0..n).map(|e| want(e / cols as usize, e % cols as usize)).collect();
        let contents = [floats(x.clone()), Content::Fresh(4 * n)];
        each_width(&f, &contents, |o| assert_eq!(o.floats(1), expect, "mode {mode}"));
        // A difference is not what a reduction may combine with.
        let wrong = Fixture { functions: f.functions.replace("OpFAdd", "OpFSub"), ..f };
        let trap = run(&wrong, InterpOptions::default(), &contents).unwrap_err();
        assert_eq!(trap.kind, TrapKind::Mismatch, "{trap}");
    }
}

#[test]
fn a_function_of_each_element_and_its_operands() {
    let mut f = fixture(
        "
%a = OpCooperativeMatrixLoadKHR %M %pl %u_0 %u_8
%m = OpCooperativeMatrixPerElementOpNV %M %a %each %f_0.5 %none %wx",
    );
    f = f.replaced("%px = OpAccessChain %pa %x %u_0", "%pl = OpAccessChain %StorageBuffer_f32 %x %u_0 %u_0");
    f.declare += "%each_type = OpTypeFunction %f32 %u32 %u32 %f32 %f32 %f32 %u32";
    // A branch that parts the lanes, a captured scalar, another matrix's element and a value of the kernel.
    f.functions = "
%each = OpFunction %f32 0 %each_type
%row = OpFunctionParameter %u32
%col = OpFunctionParameter %u32
%elem = OpFunctionParameter %f32
%scale = OpFunctionParameter %f32
%other = OpFunctionParameter %f32
%group = OpFunctionParameter %u32
%each_label = OpLabel
%upper = OpULessThan %bool %row %col
OpSelectionMerge %each_end 0
OpBranchConditional %upper %each_upper %each_lower
%each_upper = OpLabel
OpReturnValue %other
%each_lower = OpLabel
%scaled = OpFMul %f32 %elem %scale
%rg = OpIAdd %u32 %row %group
%rf = OpConvertUToF %f32 %rg
%sum = OpFAdd %f32 %scaled %rf
OpReturnValue %sum
%each_end = OpLabel
OpUnreachable
OpFunctionEnd
"
    .to_owned();
    let x = numbers(64);
    let want: Vec<f32> =
        (0..64).map(|e| if e / 8 < e % 8 { -9.0 } else { x[e] * 0.5 + (e / 8) as f32 }).collect();
    each_width(&f, &[floats(x), Content::Fresh(256)], |o| {
        assert_eq!(o.floats(1), want);
        assert_eq!(o.counters.matrices.calls, 64);
    });
}

#[test]
fn accumulators_become_factors() {
    let declare = "
%M = OpTypeCooperativeMatrixKHR %f32 %u_2 %u_4 %u_8 %u_2
%H = OpTypeCooperativeMatrixKHR %f16 %u_2 %u_4 %u_8 %u_2
%A = OpTypeCooperativeMatrixKHR %f16 %u_2 %u_4 %u_8 %u_0
%B = OpTypeCooperativeMatrixKHR %f16 %u_2 %u_8 %u_4 %u_1
%C = OpTypeCooperativeMatrixKHR %f32 %u_2 %u_4 %u_4 %u_2
%z = OpConstantNull %C
";
    let body = "
%px = OpAccessChain %StorageBuffer_f32 %x %u_0 %u_0
%py = OpAccessChain %StorageBuffer_f32 %y %u_0 %u_0
%m = OpCooperativeMatrixLoadKHR %M %px %u_0 %u_8
%h = OpFConvert %H %m
%a = OpCooperativeMatrixConvertNV %A %h
%a2 = OpFConvert %A %m
%s = OpFAdd %A %a %a2
%b = OpCooperativeMatrixTransposeNV %B %h
%r = OpCooperativeMatrixMulAddKHR %C %s %b %z
OpCooperativeMatrixStoreKHR %py %r %u_0 %u_4
";
    let f = Fixture { declare: declare.to_owned(), ..Fixture::new(64, body) }
        .buffer("x", "f32")
        .buffer("y", "f32");
    let x = numbers(32);
    let dot = |e: usize| (0..8).map(|k| 2.0 * x[e / 4 * 8 + k] * x[e % 4 * 8 + k]).sum::<f32>();
    let want: Vec<f32> = (0..16).map(dot).collect();
    each_width(&f, &[floats(x), Content::Fresh(64)], |o| assert_eq!(o.floats(1), want));
}

#[test]
fn layouts_in_variables_and_loops() {
    // y = Σ of four slices of x, by a layout that a variable holds and a function makes.
    let mut f = fixture(
        "
%i = OpVariable %Function_u32 Function
%vl = OpVariable %pl Function
%vm = OpVariable %pm Function
%l0 = OpCreateTensorLayoutNV %t0
%l1 = OpTensorLayoutSetDimensionNV %t0 %l0 %u_8 %u_32
OpStore %vl %l1
OpStore %vm %zero
OpStore %i %u_0
OpBranch %header
%header = OpLabel
%i0 = OpLoad %u32 %i
OpLoopMerge %done %next 0
OpBranch %test
%test = OpLabel
%go = OpULessThan %bool %i0 %u_32
OpBranchConditional %go %work %done
%work = OpLabel
%l2 = OpLoad %t0 %vl
%l3 = OpFunctionCall %t0 %slice %l2 %i0
%a = OpCooperativeMatrixLoadTensorNV %M %px %none %l3 0 0
%old = OpLoad %M %vm
%new = OpFAdd %M %old %a
OpStore %vm %new
OpBranch %next
%next = OpLabel
%i1 = OpIAdd %u32 %i0 %u_8
OpStore %i %i1
OpBranch %header
%done = OpLabel
%m = OpLoad %M %vm",
    );
    f.declare += "
%pl = OpTypePointer Function %t0
%pm = OpTypePointer Function %M
%zero = OpConstantNull %M
%slice_type = OpTypeFunction %t0 %t0 %u32
";
    f.functions = "
%slice = OpFunction %t0 0 %slice_type
%slice_l = OpFunctionParameter %t0
%slice_c = OpFunctionParameter %u32
%slice_label = OpLabel
%sliced = OpTensorLayoutSliceNV %t0 %slice_l %u_0 %u_8 %slice_c %u_8
OpReturnValue %sliced
OpFunctionEnd
"
    .to_owned();
    let x = numbers(256);
    let want: Vec<f32> = (0..64).map(|e| (0..4).map(|s| x[e / 8 * 32 + s * 8 + e % 8]).sum()).collect();
    each_width(&f, &[floats(x), Content::Fresh(256)], |o| assert_eq!(o.floats(1), want));
}

#[test]
fn integer_matrices_take_their_clamp_value() {
    let mut f = fixture(
        "
%l0 = OpCreateTensorLayoutNV %t1
%l1 = OpTensorLayoutSetDimensionNV %t1 %l0 %u_7 %u_8
%l2 = OpTensorLayoutSetClampValueNV %t1 %l1 %u_511
%l3 = OpTensorLayoutSliceNV %t1 %l2 %u_0 %u_8 %u_0 %u_8
%b = OpCooperativeMatrixLoadTensorNV %I %pi %nothing %l3 0 0
%m = OpConvertUToF %M %b",
    );
    f = f.replaced("%px = OpAccessChain %pa %x %u_0", "%pi = OpAccessChain %pu %x %u_0");
    f.declare += "
%pu = OpTypePointer StorageBuffer %array_u8
%I = OpTypeCooperativeMatrixKHR %u8 %u_2 %u_8 %u_8 %u_2
%nothing = OpConstantNull %I
";
    f.buffers[0] = ("x", "u8");
    let want: Vec<f32> = (0..64).map(|e| if e < 56 { e as f32 } else { 255.0 }).collect();
    let bytes = Content::Bytes((0..56).collect());
    each_width(&f, &[bytes, words([0; 64])], |o| assert_eq!(o.floats(1), want));
}

#[test]
fn five_dimensions_and_one() {
    let (dims, spans, offsets, order) =
        ([3u32, 2, 4, 3, 5], [2u32, 2, 2, 2, 4], [1u32, 0, 2, 2, 1], [4usize, 2, 0, 1, 3]);
    let five = |values: [u32; 5]| values.map(|v| format!(" %u_{v}")).concat();
    let slice: String = (0..5).map(|d| format!(" %u_{} %u_{}", offsets[d], spans[d])).collect();
    let mut f = fixture(&format!(
        "
%l0 = OpCreateTensorLayoutNV %t5
%l1 = OpTensorLayoutSetDimensionNV %t5 %l0{}
%l2 = OpTensorLayoutSliceNV %t5 %l1{slice}
%v = OpCreateTensorViewNV %v5
%m = OpCooperativeMatrixLoadTensorNV %M %px %none %l2 0 1 %v",
        five(dims)
    ));
    f.declare += &format!(
        "%t5 = OpTypeTensorLayoutNV %u_5 %u_1\n%v5 = OpTypeTensorViewNV %u_5 %false{}",
        five(order.map(|a| a as u32))
    );
    let x = numbers(dims.iter().product());
    // The axes in the view's order, the first one slowest.
    let mut want = Vec::new();
    let mut at = [0u32; 5];
    for e in 0..64u32 {
        let mut rest = e;
        for &axis in order.iter().rev() {
            at[axis] = rest % spans[axis] + offsets[axis];
            rest /= spans[axis];
        }
        let inside = (0..5).all(|d| at[d] < dims[d]);
        let index = (0..5).fold(0, |i, d| i * dims[d] + at[d]);
        want.push(if inside { x[index as usize] } else { 0.0 });
    }
    assert!(want.contains(&0.0) && want.iter().filter(|&&v| v == 0.0).count() < 64);
    each_width(&f, &[floats(x), Content::Fresh(256)], |o| assert_eq!(o.floats(1), want));

    let mut f = fixture(
        "
%l0 = OpCreateTensorLayoutNV %t1d
%l1 = OpTensorLayoutSetDimensionNV %t1d %l0 %u_70
%l2 = OpTensorLayoutSliceNV %t1d %l1 %u_5 %u_64
%m = OpCooperativeMatrixLoadTensorNV %M %px %none %l2 0 0",
    );
    f.declare += "%t1d = OpTypeTensorLayoutNV %u_1 %u_0";
    each_width(&f, &[floats(numbers(70)), Content::Fresh(256)], |o| {
        assert_eq!(o.floats(1), numbers(70)[5..69]);
    });
}
