//! A quantized tile of 128 × 64 × 256 with every check on: right, and quick enough to test kernels with.
// Test code outside the test functions themselves may stop a test too.
#![allow(clippy::panic, clippy::unwrap_used)]

mod asm;

use std::time::{Duration, Instant};

use asm::{Content, Fixture, run_with};
use half::f16;
use kiln_spirv_interp::InterpOptions;

/// Blocks of two f16 scales and 16 words: 128 numbers of 4 bits, d × q - m.
const DECLARE: &str = "
OpDecorate %words ArrayStride 4
%words = OpTypeArray %u32 %u_16
OpMemberDecorate %blk 0 Offset 0
OpMemberDecorate %blk 1 Offset 2
OpMemberDecorate %blk 2 Offset 4
%blk = OpTypeStruct %f16 %f16 %words
OpDecorate %blocks ArrayStride 68
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
%p32 = OpTypePointer PhysicalStorageBuffer %u32
%coord = OpTypeArray %u32 %u_2
%decode_type = OpTypeFunction %f16 %ref_type %coord %coord
%twin_type = OpTypeFunction %v4f16 %ref_type %coord %coord
%tw = OpTypeTensorLayoutNV %u_2 %u_0
%pah = OpTypePointer StorageBuffer %array_f16
%paf = OpTypePointer StorageBuffer %array_f32
%turned = OpTypeTensorViewNV %u_2 %false %u_1 %u_0
%A = OpTypeCooperativeMatrixKHR %f16 %u_2 %u_128 %u_256 %u_0
%B = OpTypeCooperativeMatrixKHR %f16 %u_2 %u_256 %u_64 %u_1
%C = OpTypeCooperativeMatrixKHR %f32 %u_2 %u_128 %u_64 %u_2
%noA = OpConstantNull %A
%noB = OpConstantNull %B
%zero = OpConstantNull %C
";

const BODY: &str = "
%pw = OpAccessChain %pblocks %w %u_0
%px = OpAccessChain %pah %x %u_0
%py = OpAccessChain %paf %y %u_0
%l0 = OpCreateTensorLayoutNV %tw
%l1 = OpTensorLayoutSetBlockSizeNV %tw %l0 %u_1 %u_128
%l2 = OpTensorLayoutSetDimensionNV %tw %l1 %u_128 %u_256
%a = OpCooperativeMatrixLoadTensorNV %A %pw %noA %l2 0 OPERANDS
%m1 = OpTensorLayoutSetDimensionNV %tw %l0 %u_64 %u_256
%v = OpCreateTensorViewNV %turned
%b = OpCooperativeMatrixLoadTensorNV %B %px %noB %m1 0 1 %v
%c = OpCooperativeMatrixMulAddKHR %C %a %b %zero
%n1 = OpTensorLayoutSetDimensionNV %tw %l0 %u_128 %u_64
OpCooperativeMatrixStoreTensorNV %py %c %n1 0 0
";

/// A function of the block's word at `4 × at`, its scales, and what it yields of them.
fn function(name: &str, ty: &str, result: &str, lanes: u32) -> String {
    let mut text = format!(
        "
%{name} = OpFunction %{result} 0 %{ty}
%{name}_ref = OpFunctionParameter %ref_type
%{name}_at = OpFunctionParameter %coord
%{name}_in = OpFunctionParameter %coord
%{name}_label = OpLabel
%{name}_k = OpCompositeExtract %u32 %{name}_in 1
%{name}_pd = OpAccessChain %ph %{name}_ref %u_0
%{name}_d = OpLoad %f16 %{name}_pd Aligned 2
%{name}_pm = OpAccessChain %ph %{name}_ref %u_1
%{name}_m = OpLoad %f16 %{name}_pm Aligned 2
%{name}_i = OpShiftRightLogical %u32 %{name}_k %u_3
%{name}_pq = OpAccessChain %p32 %{name}_ref %u_2 %{name}_i
%{name}_w = OpLoad %u32 %{name}_pq Aligned 4
%{name}_n = OpBitwiseAnd %u32 %{name}_k %u_7
%{name}_s = OpShiftLeftLogical %u32 %{name}_n %u_2
"
    );
    let mut parts = String::new();
    for l in 0..lanes {
        text += &format!(
            "%{name}_s{l} = OpIAdd %u32 %{name}_s %u_{}
%{name}_h{l} = OpShiftRightLogical %u32 %{name}_w %{name}_s{l}
%{name}_q{l} = OpBitwiseAnd %u32 %{name}_h{l} %u_15
%{name}_f{l} = OpConvertUToF %f16 %{name}_q{l}
%{name}_p{l} = OpFMul %f16 %{name}_f{l} %{name}_d
%{name}_r{l} = OpFSub %f16 %{name}_p{l} %{name}_m
",
            4 * l
        );
        parts += &format!(" %{name}_r{l}");
    }
    if lanes == 1 {
        return text + &format!("OpReturnValue{parts}\nOpFunctionEnd\n");
    }
    text + &format!(
        "%{name}_v = OpCompositeConstruct %{result}{parts}\nOpReturnValue %{name}_v\nOpFunctionEnd\n"
    )
}

fn tile(operands: &str) -> Fixture {
    let functions = function("decode", "decode_type", "f16", 1) + &function("twin", "twin_type", "v4f16", 4);
    let body = BODY.replace("OPERANDS", operands);
    Fixture { declare: DECLARE.to_owned(), functions, ..Fixture::new(128, &body) }
        .buffer("unused", "u32")
        .buffer("x", "f16")
        .buffer("y", "f32")
}

#[test]
fn a_quantized_tile_takes_less_than_a_tenth_of_a_second() {
    let scale = |b: u32| [f16::from_f32(0.125 + (b % 7) as f32 / 16.0), f16::from_f32((b % 5) as f32 / 2.0)];
    let word = |b: u32, i: u32| (b * 16 + i).wrapping_mul(0x9e37_79b9);
    let mut blocks = Vec::new();
    for b in 0..256 {
        scale(b).iter().for_each(|s| blocks.extend(s.to_le_bytes()));
        (0..16).for_each(|i| blocks.extend(word(b, i).to_le_bytes()));
    }
    let x: Vec<f32> = (0..64 * 256u32).map(|k| (k * 31 % 17) as f32 - 8.0).collect();
    let weight = |row: usize, k: usize| {
        let (b, at) = ((row * 2 + k / 128) as u32, (k % 128) as u32);
        let q = word(b, at / 8) >> (at % 8 * 4) & 15;
        let [d, m] = scale(b);
        f16::from_f32(f16::from_f32(q as f32 * d.to_f32()).to_f32() - m.to_f32()).to_f32()
    };
    let rows: Vec<Vec<f32>> = (0..128).map(|r| (0..256).map(|k| weight(r, k)).collect()).collect();
    let want: Vec<f32> = (0..128 * 64)
        .map(|e| rows[e / 64].iter().zip(&x[e % 64 * 256..]).map(|(w, x)| w * x).sum())
        .collect();
    let halves = x.iter().flat_map(|&v| f16::from_f32(v).to_le_bytes()).collect();
    let contents = [Content::Bytes(blocks), Content::Bytes(halves), Content::Fresh(4 * 128 * 64)];
    for (operands, subgroup_size) in [("2 %decode", 32), ("6 %decode %twin", 32), ("6 %decode %twin", 4)] {
        let kernel = tile(operands).kernel();
        let options = InterpOptions { subgroup_size, ..InterpOptions::default() };
        let mut best = Duration::MAX;
        for _ in 0..4 {
            let start = Instant::now();
            let o = run_with(options.clone(), &kernel, [1, 1, 1], &[], &contents).unwrap();
            best = best.min(start.elapsed());
            assert_eq!(o.floats(2), want);
            assert_eq!(o.counters.matrices.multiply_adds, 128 * 64 * 256);
        }
        println!("{operands}, {subgroup_size} lanes: {:.1} ms", best.as_secs_f64() * 1e3);
        assert!(best < Duration::from_millis(100), "{operands}, {subgroup_size} lanes: {best:?}");
    }
}
