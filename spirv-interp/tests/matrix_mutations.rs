//! Changed words of matrix kernels: whatever the words, an answer and no panic; and the likely mistakes do not pass.
// Test code outside the test functions themselves may stop a test too.
#![allow(clippy::panic, clippy::unwrap_used)]

mod asm;

use std::collections::BTreeMap;

use asm::{Content, Fixture, floats, run_with};
use kiln_abi::{
    StagedKernel,
    spirv::{Op, OpResult},
};
use kiln_spirv_interp::{InterpOptions, TrapKind};

const DECLARE: &str = "
OpDecorate %bytes ArrayStride 1
%bytes = OpTypeArray %i8 %u_16
OpMemberDecorate %blk 0 Offset 0
OpMemberDecorate %blk 1 Offset 2
%blk = OpTypeStruct %f16 %bytes
OpDecorate %blocks ArrayStride 18
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
%add_type = OpTypeFunction %f32 %f32 %f32
%each_type = OpTypeFunction %f32 %u32 %u32 %f32 %f32
%tw = OpTypeTensorLayoutNV %u_2 %u_1
%paf = OpTypePointer StorageBuffer %array_f32
%turned = OpTypeTensorViewNV %u_2 %false %u_1 %u_0
%A = OpTypeCooperativeMatrixKHR %f16 %u_2 %u_4 %u_16 %u_0
%B = OpTypeCooperativeMatrixKHR %f16 %u_2 %u_16 %u_4 %u_1
%Bt = OpTypeCooperativeMatrixKHR %f32 %u_2 %u_16 %u_4 %u_2
%C = OpTypeCooperativeMatrixKHR %f32 %u_2 %u_4 %u_4 %u_2
%pair = OpTypeArray %C %u_2
%ppair = OpTypePointer Function %pair
%pC = OpTypePointer Function %C
%noA = OpConstantNull %A
%one = OpConstantComposite %C %f_1
%old = OpConstantNull %Bt
";

const FUNCTIONS: &str = "
%decode = OpFunction %f16 0 %decode_type
%ref = OpFunctionParameter %ref_type
%at = OpFunctionParameter %coord
%in = OpFunctionParameter %coord
%decode_label = OpLabel
%k = OpCompositeExtract %u32 %in 1
%pd = OpAccessChain %ph %ref %u_0
%d = OpLoad %f16 %pd Aligned 2
%pq = OpAccessChain %p8 %ref %u_1 %k
%q = OpLoad %i8 %pq Aligned 1
%qf = OpConvertSToF %f16 %q
%dq = OpFMul %f16 %d %qf
OpReturnValue %dq
OpFunctionEnd
%add = OpFunction %f32 0 %add_type
%add_x = OpFunctionParameter %f32
%add_y = OpFunctionParameter %f32
%add_label = OpLabel
%sum = OpFAdd %f32 %add_x %add_y
OpReturnValue %sum
OpFunctionEnd
%each = OpFunction %f32 0 %each_type
%each_row = OpFunctionParameter %u32
%each_col = OpFunctionParameter %u32
%each_elem = OpFunctionParameter %f32
%each_scale = OpFunctionParameter %f32
%each_label = OpLabel
%scaled = OpFMul %f32 %each_elem %each_scale
OpReturnValue %scaled
OpFunctionEnd
";

/// A product of decoded blocks with a turned tensor, in a variable, reduced, scaled, through workgroup memory.
fn rich() -> Fixture {
    let body = "
%v = OpVariable %ppair Function
%i = OpVariable %Function_u32 Function
%pw = OpAccessChain %pblocks %w %u_0
%px = OpAccessChain %paf %x %u_0
%py = OpAccessChain %StorageBuffer_f32 %y %u_0 %u_0
%l0 = OpCreateTensorLayoutNV %tw
%l1 = OpTensorLayoutSetBlockSizeNV %tw %l0 %u_1 %u_16
%l2 = OpTensorLayoutSetDimensionNV %tw %l1 %u_4 %u_32
%l3 = OpTensorLayoutSliceNV %tw %l2 %u_0 %u_4 %u_16 %u_16
%a = OpCooperativeMatrixLoadTensorNV %A %pw %noA %l3 0 2 %decode
%m1 = OpTensorLayoutSetDimensionNV %tw %l0 %u_3 %u_16
%m2 = OpTensorLayoutSliceNV %tw %m1 %u_0 %u_4 %u_0 %u_16
%view = OpCreateTensorViewNV %turned
%bf = OpCooperativeMatrixLoadTensorNV %Bt %px %old %m2 0 1 %view
%b = OpFConvert %B %bf
%p1 = OpAccessChain %pC %v %u_1
OpStore %p1 %one
OpStore %i %u_0
OpBranch %header
%header = OpLabel
%i0 = OpLoad %u32 %i
OpLoopMerge %done %next 0
OpBranch %test
%test = OpLabel
%go = OpULessThan %bool %i0 %u_2
OpBranchConditional %go %work %done
%work = OpLabel
%c0 = OpLoad %C %p1
%c1 = OpCooperativeMatrixMulAddKHR %C %a %b %c0
OpStore %p1 %c1
OpBranch %next
%next = OpLabel
%i1 = OpIAdd %u32 %i0 %u_1
OpStore %i %i1
OpBranch %header
%done = OpLabel
%n = OpCooperativeMatrixLengthKHR %u32 %C
%some = OpUGreaterThan %bool %n %u_0
OpSelectionMerge %joined 0
OpBranchConditional %some %own %joined
%own = OpLabel
%pe = OpAccessChain %Function_f32 %v %u_1 %u_0
%e = OpLoad %f32 %pe
%e2 = OpFAdd %f32 %e %e
OpStore %pe %e2
OpBranch %joined
%joined = OpLabel
%c2 = OpLoad %C %p1
%c3 = OpCooperativeMatrixReduceNV %C %c2 1 %add
%c4 = OpCooperativeMatrixPerElementOpNV %C %c2 %each %f_0.5
%c5 = OpFSub %C %c3 %c4
%c6 = OpMatrixTimesScalar %C %c5 %f_2
%t = OpAccessChain %Workgroup_f32 %tile %u_0
OpCooperativeMatrixStoreKHR %t %c6 %u_0 %u_4 NonPrivatePointer
OpControlBarrier %u_2 %u_2 %u_24840
%c7 = OpCooperativeMatrixLoadKHR %C %t %u_1 %u_4 NonPrivatePointer
OpCooperativeMatrixStoreKHR %py %c7 %u_0 %u_4
";
    Fixture { declare: DECLARE.to_owned(), functions: FUNCTIONS.to_owned(), ..Fixture::new(8, body) }
        .buffer("unused", "u32")
        .buffer("x", "f32")
        .buffer("y", "f32")
        .shared("tile", "f32", 16)
}

fn outcome(kernel: &StagedKernel) -> Result<Vec<u8>, TrapKind> {
    let blocks = (0..8u32).flat_map(|b| {
        let scale = half::f16::from_f32(b as f32 + 0.5).to_le_bytes();
        scale.into_iter().chain((0..16u32).map(move |k| (b * 7 + k * 3) as u8))
    });
    let contents =
        [Content::Bytes(blocks.collect()), floats((0..64u32).map(|k| (k % 9) as f32)), Content::Fresh(64)];
    let options = InterpOptions { subgroup_size: 4, fuel: 20_000, ..InterpOptions::default() };
    run_with(options, kernel, [1, 1, 1], &[], &contents).map(|o| o.buffers[2].clone()).map_err(|t| t.kind)
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

/// Per operand word that names a value: its position and the ids of the same type.
fn replaceable(words: &[u32]) -> Vec<(usize, Vec<u32>)> {
    let mut type_of = BTreeMap::new();
    let mut instructions = Vec::new();
    let mut at = 5;
    while at < words.len() {
        let (op, n) = (Op::from_number(words[at] as u16).unwrap(), (words[at] >> 16) as usize);
        if op.result() == OpResult::Typed {
            type_of.insert(words[at + 2], words[at + 1]);
        }
        instructions.push((op, at, n));
        at += n;
    }
    let mut out = Vec::new();
    for (op, at, n) in instructions {
        let skip = match op.result() {
            OpResult::Typed => 3,
            OpResult::Id => 2,
            OpResult::None => 1,
        };
        let decorates = op == Op::Decorate || op == Op::MemberDecorate;
        for (word, id) in words.iter().enumerate().take(at + n).skip(at + skip).filter(|_| !decorates) {
            if let Some(ty) = type_of.get(id) {
                out.push((word, type_of.iter().filter(|t| t.1 == ty).map(|t| *t.0).collect()));
            }
        }
    }
    out
}

#[test]
fn changed_words_are_refused_trap_or_run() {
    let kernel = rich().kernel();
    let intact = outcome(&kernel);
    assert!(intact.is_ok(), "{intact:?}");
    let rounds = if std::env::var_os("KILN_LONG").is_some() { 400_000 } else { 12_000 };
    let (mut random, mut different, mut seen) = (Random(0x2545_f491_4f6c_dd1d), 0, BTreeMap::new());
    let bound = kernel.words[3] as usize;
    let values = replaceable(&kernel.words);
    // The declarations of the fixture come first; the words that matter here stand behind them.
    for _ in 0..rounds {
        let mut changed = kernel.clone();
        let words = &mut changed.words;
        // Mostly another value of the right type, which decodes more often than any other change.
        if random.below(3) > 0 {
            let (word, others) = &values[random.below(values.len())];
            words[*word] = others[random.below(others.len())];
        }
        for _ in 0..random.below(2) {
            let at = if random.below(4) == 0 { 5 } else { words.len() * 2 / 5 };
            let at = at + random.below(words.len() - at);
            match random.below(7) {
                0 => words[at] = words[at].wrapping_add(1),
                1..=3 => words[at] = 1 + random.below(bound) as u32,
                4 => words[at] = [0, 1, 2, 7, 64, 65_536, u32::MAX, 1 << 31][random.below(8)],
                5 => words[at] ^= 1 << random.below(32),
                _ => drop(words.remove(at)),
            }
        }
        match outcome(&changed) {
            Ok(out) => different += u32::from(intact.as_ref() != Ok(&out)),
            Err(TrapKind::Module(_)) => *seen.entry("Module".to_owned()).or_insert(0) += 1,
            Err(kind) => *seen.entry(format!("{kind:?}")).or_insert(0) += 1,
        }
    }
    println!("{different} with another result, refused or trapped: {seen:?}");
    assert!(different > 50, "some changes have to reach the result: {different}");
    for kind in ["Module", "OutOfBounds", "Race", "Matrix", "Mismatch", "Divergence"] {
        assert!(seen.contains_key(kind), "{kind} is never seen: {seen:?}");
    }
}

#[test]
fn every_mistake_shows() {
    let right = outcome(&rich().kernel());
    let mistakes = [
        ("another block", "%l2 %u_0 %u_4 %u_16 %u_16", "%l2 %u_0 %u_4 %u_0 %u_16"),
        ("a slice too far", "%l2 %u_0 %u_4", "%l2 %u_1 %u_4"),
        ("no turn", "0 1 %view", "0 0"),
        ("a round too few", "%go = OpULessThan %bool %i0 %u_2", "%go = OpULessThan %bool %i0 %u_1"),
        ("the addend forgotten", "%a %b %c0", "%a %b %one"),
        ("the sum not kept", "OpStore %p1 %c1\n", ""),
        ("the start forgotten", "OpStore %p1 %one\n", ""),
        ("the element not kept", "OpStore %pe %e2\n", ""),
        ("columns for rows", "%c2 1 %add", "%c2 2 %add"),
        ("operands swapped", "%c3 %c4\n", "%c4 %c3\n"),
        ("the barrier dropped", "OpControlBarrier %u_2 %u_2 %u_24840\n", ""),
        ("a flag dropped", "%c6 %u_0 %u_4 NonPrivatePointer", "%c6 %u_0 %u_4"),
        ("rows for columns", "%t %u_1 %u_4", "%t %u_0 %u_4"),
        ("another stride", "%py %c7 %u_0 %u_4", "%py %c7 %u_0 %u_8"),
        ("blocks of another size", "%l0 %u_1 %u_16", "%l0 %u_1 %u_8"),
    ];
    for (what, from, to) in mistakes {
        assert_ne!(outcome(&rich().replaced(from, to).kernel()), right, "{what} is not seen");
    }
}
