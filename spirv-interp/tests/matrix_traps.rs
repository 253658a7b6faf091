//! What a kernel must not do with matrices: each fault beside a twin that runs, and the place it names.
// Test code outside the test functions themselves may stop a test too.
#![allow(clippy::panic, clippy::unwrap_used)]

mod asm;

use asm::{Fixture, floats, run_with};
use kiln_abi::spirv::Op;
use kiln_spirv_interp::{DecodeError, InterpOptions, SUBGROUP_SIZES, Trap, TrapKind};

const TYPES: &str = "
%M = OpTypeCooperativeMatrixKHR %f32 %u_3 %u_4 %u_8 %u_2
%W = OpTypeCooperativeMatrixKHR %f32 %u_2 %u_4 %u_8 %u_2
%A = OpTypeCooperativeMatrixKHR %i8 %u_3 %u_4 %u_8 %u_0
%pM = OpTypePointer Function %M
%pa = OpTypePointer StorageBuffer %array_f32
%t0 = OpTypeTensorLayoutNV %u_2 %u_0
%null = OpConstantNull %M
%wnull = OpConstantNull %W
%nothing = OpUndef %M
";

/// One subgroup of four lanes at width 4, or as many lanes as there are.
fn fixture(body: &str) -> Fixture {
    let body = format!(
        "
%px = OpAccessChain %StorageBuffer_f32 %x %u_0 %u_0
%py = OpAccessChain %StorageBuffer_f32 %y %u_0 %u_0
{body}
"
    );
    Fixture { declare: TYPES.to_owned(), ..Fixture::new(4, &body) }
        .buffer("x", "f32")
        .buffer("y", "f32")
        .shared("tile", "f32", 32)
        .shared("other", "f32", 32)
}

fn outcome(f: &Fixture, subgroup_size: u32) -> Result<(), Trap> {
    let x = (0..32u32).map(|k| k as f32);
    let contents = [floats(x), floats([0.0; 32])];
    let options = InterpOptions { subgroup_size, fuel: 1 << 16, ..InterpOptions::default() };
    run_with(options, &f.kernel(), [1, 1, 1], &[], &contents).map(drop)
}

/// At every width `right` runs, and with one text replaced it traps at the line of `line`.
fn traps(right: &Fixture, from: &str, to: &str, kind: &TrapKind, line: &str, says: &str) {
    let wrong = right.replaced(from, to);
    for width in SUBGROUP_SIZES {
        outcome(right, width).unwrap_or_else(|t| panic!("width {width}: the control stops: {t}"));
        let trap = outcome(&wrong, width).expect_err("no trap");
        assert_eq!(trap.kind, *kind, "width {width}: {trap}");
        assert_eq!(trap.at.map(|at| at.line), Some(wrong.line(line)), "{trap}");
        assert!(trap.detail.contains(says), "{trap}");
    }
}

const COPY: &str = "
%m = OpCooperativeMatrixLoadKHR %M %px %u_0 %u_8
OpCooperativeMatrixStoreKHR %py %m %u_0 %u_8
";

#[test]
fn memory_outside_its_range() {
    let f = fixture(COPY);
    let says = "row 3, column 0: bytes 144..148 of x (binding 0), whose range has 128 bytes";
    traps(&f, "%px %u_0 %u_8", "%px %u_0 %u_12", &TrapKind::OutOfBounds, "LoadKHR", says);
    traps(&f, "%m %u_0 %u_8", "%m %u_0 %u_12", &TrapKind::OutOfBounds, "StoreKHR", "of y (binding 1)");
    let shared = fixture(
        "
%t = OpAccessChain %Workgroup_f32 %tile %u_0
OpCooperativeMatrixStoreKHR %t %null %u_0 %u_8
",
    );
    let says = "leave the workgroup variable";
    traps(&shared, "%null %u_0 %u_8", "%null %u_0 %u_12", &TrapKind::OutOfBounds, "StoreKHR", says);
    traps(&shared, "%tile %u_0", "%tile %u_4", &TrapKind::OutOfBounds, "StoreKHR", says);
}

#[test]
fn strides_and_pointers_that_are_not_aligned() {
    let f = fixture("%m = OpCooperativeMatrixLoadKHR %M %px %u_0 %u_4");
    let says = "byte 20, which has to be a multiple of 16";
    traps(&f, "%px %u_0 %u_4", "%px %u_0 %u_5", &TrapKind::Matrix, "LoadKHR", says);
    let says = "byte 4, which has to be a multiple of 16";
    traps(&f, "%x %u_0 %u_0", "%x %u_0 %u_1", &TrapKind::Matrix, "LoadKHR", says);
    let f = fixture("OpCooperativeMatrixStoreKHR %py %null %u_0 %u_8");
    traps(&f, "%null %u_0 %u_8", "%null %u_0 %u_0", &TrapKind::Matrix, "StoreKHR", "stride of 0");
}

#[test]
fn elements_that_nothing_wrote() {
    let f = fixture(COPY);
    let says = "row 0, column 0: an uninitialized element is stored to y";
    traps(&f, "%py %m", "%py %nothing", &TrapKind::Uninitialized, "StoreKHR", says);
    // It is no fault to copy it, to compute with it, nor to keep it in workgroup memory.
    let f = fixture(
        "
%v = OpVariable %pM Function
OpStore %v %null
%a = OpLoad %M %v
%b = OpFAdd %M %a %null
%t = OpAccessChain %Workgroup_f32 %tile %u_0
OpCooperativeMatrixStoreKHR %t %b %u_0 %u_8 NonPrivatePointer
OpControlBarrier %u_3 %u_3 %u_24840
%c = OpCooperativeMatrixLoadKHR %M %t %u_0 %u_8 NonPrivatePointer
OpCooperativeMatrixStoreKHR %py %c %u_0 %u_8
",
    );
    traps(&f, "OpStore %v %null\n", "\n", &TrapKind::Uninitialized, "%py %c", "uninitialized");
}

#[test]
fn halves_of_scalars_in_workgroup_memory() {
    // Rows of two f16 fill a u32 each, rows of one leave the upper half.
    let body = "
%t = OpAccessChain %Workgroup_u32 %words %u_0
OpCooperativeMatrixStoreKHR %t %two %u_0 %u_1 NonPrivatePointer
OpControlBarrier %u_3 %u_3 %u_24840
%p = OpAccessChain %Workgroup_u32 %words %lane
%w = OpLoad %u32 %p NonPrivatePointer
%f = OpConvertUToF %f32 %w
%pl = OpAccessChain %StorageBuffer_f32 %y %u_0 %lane
OpStore %pl %f
";
    let mut f = fixture(body).shared("words", "u32", 4);
    f.declare += "
%Two = OpTypeCooperativeMatrixKHR %f16 %u_3 %u_4 %u_2 %u_2
%One = OpTypeCooperativeMatrixKHR %f16 %u_3 %u_4 %u_1 %u_2
%two = OpConstantComposite %Two %h_1
%one = OpConstantComposite %One %h_1
";
    traps(&f, "%t %two", "%t %one", &TrapKind::Uninitialized, "OpStore %pl", "uninitialized");
}

#[test]
fn lanes_that_stay_away() {
    let f = fixture(
        "
%two = OpULessThan %bool %lane %u_4
OpSelectionMerge %end 0
OpBranchConditional %two %part %end
%part = OpLabel
%m = OpCooperativeMatrixLoadKHR %M %px %u_0 %u_8
%s = OpFAdd %M %m %m
OpBranch %end
%end = OpLabel
",
    );
    let says = "matrix operation without lane 2";
    traps(&f, "%lane %u_4", "%lane %u_2", &TrapKind::Divergence, "LoadKHR", says);
}

#[test]
fn subgroups_that_stay_away() {
    let body = "
%here = OpULessThan %bool %li %u_64
OpSelectionMerge %end 0
OpBranchConditional %here %part %end
%part = OpLabel
%m = OpCooperativeMatrixLoadKHR %W %px %u_0 %u_8
OpBranch %end
%end = OpLabel
";
    let f = Fixture { local: [64, 1, 1], ..fixture(body) };
    for width in [4, 8, 16, 32] {
        outcome(&f, width).unwrap();
        let wrong = f.replaced("%li %u_64", "%li %u_32");
        let trap = outcome(&wrong, width).unwrap_err();
        assert_eq!(trap.kind, TrapKind::Divergence, "{trap}");
        assert!(trap.detail.contains("matrix operation without subgroup"), "{trap}");
        assert_eq!(trap.at.unwrap().line, wrong.line("LoadKHR"));
    }
}

#[test]
fn operands_that_differ_among_invocations() {
    let f = fixture("%m = OpCooperativeMatrixLoadKHR %M %px %u_0 %wx");
    let says = "the scope has to agree";
    traps(&f, "%u_0 %wx", "%u_0 %lane", &TrapKind::Divergence, "LoadKHR", says);
    let f = fixture("%i = OpConvertUToF %f32 %wx\n%m = OpCompositeConstruct %M %i");
    traps(&f, "%f32 %wx", "%f32 %lane", &TrapKind::Divergence, "Construct", says);
    let f = fixture(
        "%p = OpAccessChain %StorageBuffer_f32 %x %u_0 %wx\n%m = OpCooperativeMatrixLoadKHR %M %p %u_0 %u_0",
    );
    traps(&f, "%x %u_0 %wx", "%x %u_0 %lane", &TrapKind::Divergence, "LoadKHR", says);
}

#[test]
fn races_of_matrices_with_invocations() {
    let f = fixture(
        "
%t = OpAccessChain %Workgroup_f32 %tile %u_0
%i = OpConvertUToF %f32 %lane
OpCooperativeMatrixStoreKHR %t %null %u_0 %u_8 NonPrivatePointer
OpControlBarrier %u_3 %u_3 %u_24840
%p = OpAccessChain %Workgroup_f32 %tile %lane
OpStore %p %i NonPrivatePointer
OpControlBarrier %u_3 %u_3 %u_24840
%m = OpCooperativeMatrixLoadKHR %M %t %u_0 %u_8 NonPrivatePointer
",
    );
    let barrier = "OpStore %p %i NonPrivatePointer\nOpControlBarrier %u_3 %u_3 %u_24840";
    let says = "no barrier orders them";
    traps(&f, barrier, "OpStore %p %i NonPrivatePointer", &TrapKind::Race, "LoadKHR", says);
    let flag = "%t %u_0 %u_8 NonPrivatePointer";
    traps(&f, flag, "%t %u_0 %u_8", &TrapKind::Race, "LoadKHR", "lacks NonPrivatePointer");
    // Rows that overlap are stored by more than one invocation.
    let f = fixture("OpCooperativeMatrixStoreKHR %py %null %u_0 %u_8");
    traps(&f, "%null %u_0 %u_8", "%null %u_0 %u_4", &TrapKind::Race, "StoreKHR", "this store of y");
}

#[test]
fn elements_past_the_length() {
    let f = fixture(
        "
%v = OpVariable %pM Function
OpStore %v %null
%n = OpCooperativeMatrixLengthKHR %u32 %M
%last = OpISub %u32 %n %u_1
%p = OpAccessChain %Function_f32 %v %last
%e = OpLoad %f32 %p
OpStore %p %e
",
    );
    traps(
        &f,
        "%v %last",
        "%v %n",
        &TrapKind::OutOfBounds,
        "%e = OpLoad",
        "of the 8 that the invocation holds",
    );
    let f = fixture("%e = OpCompositeExtract %f32 %null 7");
    traps(&f, "%null 7", "%null 8", &TrapKind::OutOfBounds, "Extract", "element 8 of the 8");
}

#[test]
fn integer_faults_name_the_element() {
    let mut f = fixture("%d = OpSDiv %I %seven %seven");
    f.declare += "
%I = OpTypeCooperativeMatrixKHR %i32 %u_3 %u_4 %u_8 %u_2
%seven = OpConstantComposite %I %i_7
%zero = OpConstantNull %I
";
    traps(&f, "%seven %seven", "%seven %zero", &TrapKind::Integer, "SDiv", "row 0, column 0");
}

#[test]
fn tensors_out_of_their_rules() {
    let f = fixture(
        "
%pt = OpAccessChain %pa %x %u_0
%l0 = OpCreateTensorLayoutNV %t0
%lb = OpTensorLayoutSetBlockSizeNV %t0 %l0 %u_1 %u_1
%l1 = OpTensorLayoutSetDimensionNV %t0 %lb %u_4 %u_8
%l2 = OpTensorLayoutSliceNV %t0 %l1 %u_0 %u_4 %u_0 %u_8
%m = OpCooperativeMatrixLoadTensorNV %M %pt %null %l2 0 0
",
    );
    let load = "LoadTensor";
    traps(&f, "%l1 %u_0 %u_4", "%l1 %u_0 %u_0", &TrapKind::Matrix, load, "a span of 0");
    traps(
        &f,
        "%l0 %u_1 %u_1",
        "%l0 %u_1 %u_8",
        &TrapKind::Matrix,
        load,
        "without a function that decodes it",
    );
    traps(&f, "%l0 %u_1 %u_1", "%l0 %u_1 %u_0", &TrapKind::Integer, "SetDimension", "zero");
    traps(&f, "%l1 %u_0 %u_4", "%l1 %lane %u_4", &TrapKind::Divergence, load, "the scope has to agree");
    traps(&f, "%lb %u_4 %u_8", "%lb %u_4 %u_12", &TrapKind::OutOfBounds, load, "of x (binding 0)");
    let huge = "%lb %u_4 %u_8";
    let mut g = f.replaced(
        "%l0 = OpCreate",
        "%big = OpIMul %u32 %nsg %u_65536\n%wrap = OpIMul %u32 %big %big\n%l0 = OpCreate",
    );
    g = g.replaced(huge, "%lb %u_4 %u_8");
    traps(&g, "%l1 %u_0 %u_4", "%l1 %wrap %u_4", &TrapKind::IndexWrap, load, "wrapped");
}

#[test]
fn modules_that_do_not_fit_are_refused() {
    let right = fixture("%m = OpCooperativeMatrixLoadKHR %M %px %u_0 %u_8\n%s = OpFAdd %M %m %null");
    outcome(&right, 32).unwrap();
    let wrong = [
        ("%s = OpFAdd %M %m %null", "%s = OpFAdd %M %m %wnull", "another scope"),
        ("%s = OpFAdd %M %m %null", "%s = OpIAdd %M %m %null", "another kind of number"),
        ("%s = OpFAdd %M %m %null", "%s = OpFRem %M %m %null", "no operation of matrices"),
        ("%s = OpFAdd %M %m %null", "%s = OpFAdd %f32 %m %null", "a scalar result"),
        ("%s = OpFAdd %M %m %null", "%s = OpMatrixTimesScalar %M %m %u_2", "another scalar"),
        ("%s = OpFAdd %M %m %null", "%s = OpCooperativeMatrixMulAddKHR %M %m %m %m", "uses"),
        ("%s = OpFAdd %M %m %null", "%s = OpCooperativeMatrixConvertNV %A %m", "another element"),
        ("%s = OpFAdd %M %m %null", "%s = OpCooperativeMatrixTransposeNV %M %m", "extents"),
        ("%s = OpFAdd %M %m %null", "%s = OpCompositeConstruct %M %f_1 %f_2", "two scalars"),
        ("%s = OpFAdd %M %m %null", "%s = OpBitcast %A %m", "a cast of floats"),
        ("%s = OpFAdd %M %m %null", "%s = OpCooperativeMatrixLengthKHR %u32 %f32", "no matrix"),
        ("%s = OpFAdd %M %m %null", "%s = OpCooperativeMatrixReduceNV %M %m 5 %main", "a mask"),
        ("%s = OpFAdd %M %m %null", "OpStore %px %m", "a matrix in a buffer"),
        ("%px %u_0 %u_8", "%px %u_2 %u_8", "a layout"),
        ("%px %u_0 %u_8", "%px %lane %u_8", "a layout that is not constant"),
    ];
    for (from, to, what) in wrong {
        match outcome(&right.replaced(from, to), 32).map_err(|t| t.kind) {
            Err(TrapKind::Module(e)) => {
                let named = matches!(
                    *e,
                    DecodeError::Type { .. }
                        | DecodeError::WrongId { .. }
                        | DecodeError::UnknownEnumerant { .. }
                );
                assert!(named, "{what}: {e}");
            }
            other => panic!("{what}: {other:?}"),
        }
    }
}

#[test]
fn callbacks_hold_no_barrier() {
    let mut f = fixture("%m = OpCooperativeMatrixPerElementOpNV %M %null %each");
    f.declare += "%each_type = OpTypeFunction %f32 %u32 %u32 %f32";
    f.functions = "
%each = OpFunction %f32 0 %each_type
%row = OpFunctionParameter %u32
%col = OpFunctionParameter %u32
%elem = OpFunctionParameter %f32
%each_label = OpLabel
OpReturnValue %elem
OpFunctionEnd
"
    .to_owned();
    outcome(&f, 32).unwrap();
    for bad in ["OpControlBarrier %u_2 %u_2 %u_24840", "%all = OpGroupNonUniformFAdd %f32 %u_3 Reduce %elem"]
    {
        let functions = f.functions.replace("OpReturnValue", &format!("{bad}\nOpReturnValue"));
        let trap = outcome(&Fixture { functions, ..f.clone() }, 32).unwrap_err();
        assert!(
            matches!(&trap.kind, TrapKind::Module(e) if matches!(**e, DecodeError::Malformed { .. })),
            "{trap}"
        );
    }
    // A callback that does not end runs out of fuel, and one that calls itself is no module.
    let functions = f.functions.replace(
        "OpReturnValue %elem",
        "OpBranch %h\n%h = OpLabel\nOpLoopMerge %e %c 0\nOpBranch %c\n%c = OpLabel\nOpBranch %h\n%e = OpLabel\nOpReturnValue %elem",
    );
    let trap = outcome(&Fixture { functions, ..f }, 32).unwrap_err();
    assert_eq!(trap.kind, TrapKind::Fuel, "{trap}");
}

/// Every matrix and tensor instruction of the table stands in a test of these files.
#[test]
fn every_instruction_has_a_test() {
    let texts = [
        include_str!("matrices.rs"),
        include_str!("decode_functions.rs"),
        include_str!("tensors.rs"),
        include_str!("matrix_traps.rs"),
    ];
    let mut found = 0;
    for op in Op::ALL.iter().filter(|o| o.name().contains("CooperativeMatrix") || o.name().contains("Tensor"))
    {
        let text = format!("Op{} ", op.name());
        assert!(texts.iter().any(|t| t.contains(&text)), "no test has {text}");
        found += 1;
    }
    assert!(found >= 20, "{found} instructions");
}
