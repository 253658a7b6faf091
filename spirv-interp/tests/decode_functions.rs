//! Functions that decode blocks inside a tensor load, one element or four neighbors at a time.
// Test code outside the test functions themselves may stop a test too.
#![allow(clippy::panic, clippy::unwrap_used)]

mod asm;

use asm::{Content, Fixture, Outcome, each_width, run_with};
use half::f16;
use kiln_spirv_interp::{InterpOptions, SUBGROUP_SIZES, Trap, TrapKind};

fn run(f: &Fixture, options: InterpOptions, contents: &[Content]) -> Result<Outcome, Trap> {
    run_with(options, &f.kernel(), [1, 1, 1], &[], contents)
}

/// Blocks of an f16 scale and 32 bytes, decoded into a 16 × 64 matrix, two blocks a row.
fn decoding(index: &str, twin: &str) -> Fixture {
    let declare = "
OpDecorate %bytes ArrayStride 1
%bytes = OpTypeArray %i8 %u_32
OpMemberDecorate %blk 0 Offset 0
OpMemberDecorate %blk 1 Offset 2
%blk = OpTypeStruct %f16 %bytes
OpDecorate %blocks ArrayStride 34
%blocks = OpTypeRuntimeArray %blk
OpMemberDecorate %bb 0 Offset 0
%bb = OpTypeStruct %blocks
%pbb = OpTypePointer StorageBuffer %bb
%pblocks = OpTypePointer StorageBuffer %blocks
OpDecorate %w DescriptorSet 0
OpDecorate %w Binding 0
%w = OpVariable %pbb StorageBuffer
%ref_type = OpTypePointer PhysicalStorageBuffer %blk
%ph = OpTypePointer PhysicalStorageBuffer %f16
%p8 = OpTypePointer PhysicalStorageBuffer %i8
%coord = OpTypeArray %u32 %u_2
%decode_type = OpTypeFunction %f16 %ref_type %coord %coord
%twin_type = OpTypeFunction %v4f16 %ref_type %coord %coord
%t1 = OpTypeTensorLayoutNV %u_2 %u_1
%M = OpTypeCooperativeMatrixKHR %f16 %u_2 %u_16 %u_64 %u_0
%N = OpTypeCooperativeMatrixKHR %f32 %u_2 %u_16 %u_64 %u_0
%none = OpConstantNull %M
";
    let part = |k: usize, shift: usize| {
        format!(
            "%k{k} = OpIAdd %u32 %tk %u_{}
%tq{k} = OpAccessChain %p8 %tref %u_1 %k{k}
%tb{k} = OpLoad %i8 %tq{k} Aligned 1
%tf{k} = OpConvertSToF %f16 %tb{k}
%tv{k} = OpFMul %f16 %td %tf{k}\n",
            k + shift
        )
    };
    let shift = usize::from(twin == "shifted");
    let functions = format!(
        "
%decode = OpFunction %f16 0 %decode_type
%ref = OpFunctionParameter %ref_type
%at = OpFunctionParameter %coord
%in = OpFunctionParameter %coord
%decode_label = OpLabel
%k = OpCompositeExtract %u32 %in 1
%i = {index}
%pd = OpAccessChain %ph %ref %u_0
%d = OpLoad %f16 %pd Aligned 2
%pq = OpAccessChain %p8 %ref %u_1 %i
%q = OpLoad %i8 %pq Aligned 1
%qf = OpConvertSToF %f16 %q
%dq = OpFMul %f16 %d %qf
OpReturnValue %dq
OpFunctionEnd
%twin = OpFunction %v4f16 0 %twin_type
%tref = OpFunctionParameter %ref_type
%tat = OpFunctionParameter %coord
%tin = OpFunctionParameter %coord
%twin_label = OpLabel
%tk = OpCompositeExtract %u32 %tin 1
%tpd = OpAccessChain %ph %tref %u_0
%td = OpLoad %f16 %tpd Aligned 2
{}{}{}{}%tv = OpCompositeConstruct %v4f16 %tv0 %tv1 %tv2 %tv3
OpReturnValue %tv
OpFunctionEnd
",
        part(0, 0),
        part(1, 0),
        part(2, shift),
        part(3, 0)
    );
    let operands = if twin.is_empty() { "2 %decode" } else { "6 %decode %twin" };
    let body = format!(
        "
%pw = OpAccessChain %pblocks %w %u_0
%py = OpAccessChain %StorageBuffer_f32 %y %u_0 %u_0
%l0 = OpCreateTensorLayoutNV %t1
%lb = OpTensorLayoutSetBlockSizeNV %t1 %l0 %u_1 %u_32
%l1 = OpTensorLayoutSetDimensionNV %t1 %lb %u_15 %u_128
%l2 = OpTensorLayoutSliceNV %t1 %l1 %u_0 %u_16 %u_32 %u_64
%h = OpCooperativeMatrixLoadTensorNV %M %pw %none %l2 0 {operands}
%m = OpFConvert %N %h
OpCooperativeMatrixStoreKHR %py %m %u_0 %u_64
"
    );
    Fixture { declare: declare.to_owned(), functions, ..Fixture::new(64, &body) }
        .buffer("unused", "u32")
        .buffer("y", "f32")
}

const PLAIN: &str = "OpIAdd %u32 %k %u_0";

fn blocks() -> Vec<u8> {
    let mut out = Vec::new();
    for b in 0..60u32 {
        out.extend(f16::from_f32(0.25 + b as f32 / 8.0).to_le_bytes());
        out.extend((0..32u32).map(|k| (b * 29 + k * 67) as u8));
    }
    out
}

/// 15 rows of 128; the matrix is columns 32 to 95, and a row of zeros below.
fn decoded() -> Vec<f32> {
    let blocks = blocks();
    let value = |row: usize, col: usize| {
        let block = &blocks[(row * 4 + col / 32) * 34..][..34];
        let d = f16::from_le_bytes([block[0], block[1]]).to_f32();
        f16::from_f32(d * f32::from(block[2 + col % 32] as i8)).to_f32()
    };
    (0..16 * 64).map(|e| if e / 64 < 15 { value(e / 64, 32 + e % 64) } else { 0.0 }).collect()
}

#[test]
fn a_decode_function_sees_its_block() {
    let contents = [Content::Bytes(blocks()), Content::Fresh(4096)];
    for twin in ["", "twin"] {
        each_width(&decoding(PLAIN, twin), &contents, |o| {
            assert_eq!(o.floats(1), decoded());
            let calls = 15 * 64 + if twin.is_empty() { 0 } else { 15 * 16 };
            assert_eq!(o.counters.matrices.calls, calls);
        });
    }
    // The control: a block pointer one element further on is another matrix.
    let shifted = decoding("OpBitwiseXor %u32 %k %u_1", "");
    let o = run(&shifted, InterpOptions::default(), &contents).unwrap();
    assert_ne!(o.floats(1), decoded());
    // Past the block's array.
    let trap = run(&decoding("OpIAdd %u32 %k %u_1", ""), InterpOptions::default(), &contents).unwrap_err();
    assert_eq!(trap.kind, TrapKind::OutOfBounds);
    assert!(trap.detail.contains("index 32 of an array of 32"), "{trap}");
}

#[test]
fn a_vector_twin_that_differs_traps() {
    let contents = [Content::Bytes(blocks()), Content::Fresh(4096)];
    for subgroup_size in SUBGROUP_SIZES {
        let options = InterpOptions { subgroup_size, ..InterpOptions::default() };
        let f = decoding(PLAIN, "shifted");
        let trap = run(&f, options, &contents).unwrap_err();
        assert_eq!(trap.kind, TrapKind::Mismatch, "{trap}");
        assert_eq!(trap.at.unwrap().line, f.line("LoadTensor"));
        assert!(trap.detail.contains("component 2"), "{trap}");
    }
    // Blocks that the vector does not divide.
    let f = decoding(PLAIN, "twin");
    let f = f.replaced("%l0 %u_1 %u_32", "%l0 %u_1 %u_30");
    let trap = run(&f, InterpOptions::default(), &contents).unwrap_err();
    assert_eq!(trap.kind, TrapKind::Matrix, "{trap}");
}
