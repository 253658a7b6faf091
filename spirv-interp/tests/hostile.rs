//! Broken words: every refusal has its name, and no change to a module makes the interpreter panic or hang.
// Test code outside the test functions themselves may stop a test too.
#![allow(clippy::panic, clippy::unwrap_used)]

mod asm;

use std::collections::BTreeMap;

use asm::{Content, Fixture, run_with};
use kiln_abi::{
    StagedKernel,
    spirv::{Op, OpResult},
};
use kiln_spirv_interp::{DecodeError, InterpOptions, TrapKind};

/// A kernel with loops, calls, workgroup memory, barriers, subgroup operations, vectors, f16 and packed bytes.
fn rich() -> Fixture {
    let body = "
%i = OpVariable %Function_u32 Function
%acc = OpVariable %Function_f32 Function
OpStore %i %u_0
OpStore %acc %f_0
OpBranch %header
%header = OpLabel
%i0 = OpLoad %u32 %i
OpLoopMerge %done %next 0
OpBranch %test
%test = OpLabel
%go = OpULessThan %bool %i0 %u_4
OpBranchConditional %go %work %done
%work = OpLabel
%at0 = OpIMul %u32 %i0 %u_16
%at = OpIAdd %u32 %at0 %li
%pw = OpAccessChain %StorageBuffer_u32 %w %u_0 %at
%word = OpLoad %u32 %pw
%four = OpBitcast %v4u8 %word
%last = OpCompositeExtract %u8 %four 3
%wide = OpUConvert %u32 %last
%dot = OpSDot %i32 %word %word 0
%f0 = OpConvertSToF %f32 %dot
%f1 = OpConvertUToF %f32 %wide
%h = OpFConvert %f16 %f1
%h2 = OpFMul %f16 %h %h_2
%f2 = OpFConvert %f32 %h2
%a0 = OpLoad %f32 %acc
%a1 = OpExtInst %f32 %glsl Fma %f0 %f_0.5 %a0
%a2 = OpFAdd %f32 %a1 %f2
OpStore %acc %a2
OpBranch %next
%next = OpLabel
%i1 = OpFunctionCall %u32 %inc %i0
OpStore %i %i1
OpBranch %header
%done = OpLabel
%t = OpAccessChain %Workgroup_f32 %tile %li
%a = OpLoad %f32 %acc
OpStore %t %a NonPrivatePointer
OpControlBarrier %u_2 %u_2 %u_24840
%n = OpBitwiseXor %u32 %li %u_15
%s = OpAccessChain %Workgroup_f32 %tile %n
%b = OpLoad %f32 %s NonPrivatePointer
%sum = OpGroupNonUniformFAdd %f32 %u_3 Reduce %b
%pair = OpCompositeConstruct %v2f32 %sum %b
%turn = OpVectorShuffle %v2f32 %pair %pair 1 2
%first = OpCompositeExtract %f32 %turn 0
%py = OpAccessChain %StorageBuffer_f32 %y %u_0 %gx
OpStore %py %first
";
    let mut f = Fixture::new(16, body).buffer("w", "u32").buffer("y", "f32").shared("tile", "f32", 16);
    f.declare = "%inc_type = OpTypeFunction %u32 %u32".to_owned();
    f.functions = "
%inc = OpFunction %u32 0 %inc_type
%x = OpFunctionParameter %u32
%inc_label = OpLabel
%x1 = OpIAdd %u32 %x %u_1
OpReturnValue %x1
OpFunctionEnd
"
    .to_owned();
    f
}

fn contents() -> [Content; 2] {
    [asm::words((0..64).map(|k: u32| k.wrapping_mul(0x0101_3107))), Content::Fresh(64)]
}

fn decode_error(kernel: &StagedKernel) -> DecodeError {
    match outcome(kernel) {
        Err(TrapKind::Module(e)) => *e,
        other => panic!("{other:?} instead of a refusal"),
    }
}

fn outcome(kernel: &StagedKernel) -> Result<Vec<u32>, TrapKind> {
    let options = InterpOptions { subgroup_size: 8, fuel: 20_000, ..InterpOptions::default() };
    run_with(options, kernel, [1; 3], &[], &contents()).map(|o| o.words(1)).map_err(|t| t.kind)
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

fn name(kind: &TrapKind) -> String {
    let text = match kind {
        TrapKind::Module(e) => format!("{e:?}"),
        other => format!("{other:?}"),
    };
    text.split([' ', '{']).next().unwrap_or_default().to_owned()
}

#[test]
fn ten_thousand_changed_modules_neither_panic_nor_hang() {
    let kernel = rich().kernel();
    let intact = outcome(&kernel).expect("the kernel itself is right");
    let bound = kernel.words[3];
    let (mut random, mut seen, mut equal, mut different) = (Random(0x5eed_1234_abcd), BTreeMap::new(), 0, 0);
    // KILN_LONG=1 tries fifty times as many.
    let rounds = if std::env::var_os("KILN_LONG").is_some() { 500_000 } else { 10_000 };
    for _ in 0..rounds {
        let mut changed = kernel.clone();
        let words = &mut changed.words;
        // Half of the changes keep the instructions whole and touch one operand of the body.
        let (kept, body) = (random.below(2) == 0, &kernel.source.entries);
        if kept {
            let mut operand = || {
                let start = body[random.below(body.len())].0 as usize;
                let (op, len) =
                    (Op::from_number(words[start] as u16).unwrap(), (words[start] >> 16) as usize);
                let first = match op.result() {
                    OpResult::None => 1,
                    OpResult::Id => 2,
                    OpResult::Typed => 3,
                };
                (first < len).then(|| start + first + random.below(len - first))
            };
            if let (Some(at), Some(other)) = (operand(), operand()) {
                words[at] =
                    if random.below(3) == 0 { words[at] ^ 1 << random.below(6) } else { words[other] };
            }
        }
        for _ in 0..if kept { 0 } else { 1 + random.below(3) } {
            let at = 5 + random.below(words.len() - 5);
            match random.below(8) {
                // A neighboring number, another id, another literal, a flipped bit, a word dropped, doubled, moved.
                0 => words[at] = words[at].wrapping_add(1),
                1 | 2 => words[at] = 1 + random.below(bound as usize) as u32,
                3 => words[at] = [0, 1, 7, 255, 65_536, u32::MAX, 1 << 31][random.below(7)],
                4 => words[at] ^= 1 << random.below(32),
                5 => drop(words.remove(at)),
                6 => words.insert(at, random.next() as u32),
                _ => {
                    let other = 5 + random.below(words.len() - 5);
                    words.swap(at, other);
                }
            }
        }
        match outcome(&changed) {
            Ok(out) if out == intact => equal += 1,
            Ok(_) => different += 1,
            Err(kind) => *seen.entry(name(&kind)).or_insert(0) += 1,
        }
    }
    println!("{equal} without effect, {different} with another result, refused or trapped: {seen:?}");
    assert!(different > 100, "some changes have to reach the result: {different}");
    for kind in ["OutOfBounds", "Uninitialized", "Fuel", "UnknownOpcode", "WrongLength", "WrongId", "Type"] {
        assert!(seen.contains_key(kind), "{kind} is never seen: {seen:?}");
    }
}

#[test]
fn every_truncation_is_refused_or_runs() {
    let kernel = rich().kernel();
    for len in 0..kernel.words.len() {
        let mut cut = kernel.clone();
        cut.words.truncate(len);
        assert!(matches!(outcome(&cut), Err(TrapKind::Module(_))), "{len} of {} words", kernel.words.len());
    }
}

fn refusal(change: impl FnOnce(&mut Fixture)) -> DecodeError {
    let mut f = rich();
    change(&mut f);
    decode_error(&f.kernel())
}

#[test]
fn refusals_by_name() {
    let changed = |word: usize, value: u32| {
        let mut kernel = rich().kernel();
        kernel.words[word] = value;
        decode_error(&kernel)
    };
    assert!(matches!(changed(0, 0x0302_2307), DecodeError::Header { what: "the magic number", .. }));
    assert!(matches!(changed(1, 0x0002_0000), DecodeError::Header { what: "the version", .. }));
    let unknown =
        DecodeError::UnknownEnumerant { word: 5, op: "Capability", what: "capability", value: 9999 };
    assert_eq!(changed(6, 9999), unknown);
    let mut kernel = rich().kernel();
    kernel.layout.entry = "other".to_owned();
    assert_eq!(decode_error(&kernel), DecodeError::NoEntry { name: "other".to_owned() });

    let swap = |from: &'static str, to: &'static str| refusal(move |f| *f = f.replaced(from, to));
    assert!(matches!(
        swap("%dot = OpSDot %i32 %word %word", "%dot = OpSDot %i32 %word %last"),
        DecodeError::WrongId { .. }
    ));
    assert!(matches!(
        swap("%a2 = OpFAdd %f32 %a1 %f2", "%a2 = OpFAdd %f32 %a1 %h2"),
        DecodeError::Type { .. }
    ));
    assert!(matches!(
        swap("%a2 = OpFAdd %f32 %a1 %f2", "%a2 = OpFAdd %f32 %a1 %first"),
        DecodeError::WrongId { .. }
    ));
    assert!(matches!(swap("OpBranch %next", "OpBranch %nowhere"), DecodeError::WrongId { .. }));
    assert!(matches!(swap("%u_3 Reduce %b", "%u_2 Reduce %b"), DecodeError::Type { .. }));
    assert!(matches!(
        swap("OpControlBarrier %u_2 %u_2", "OpControlBarrier %u_1 %u_2"),
        DecodeError::Malformed { .. }
    ));
    let recursion = refusal(|f| {
        f.functions = f.functions.replace("%x1 = OpIAdd %u32 %x %u_1", "%x1 = OpFunctionCall %u32 %inc %x")
    });
    assert!(recursion.to_string().contains("calls itself"), "{recursion}");
    let large = refusal(|f| f.shared[0].2 = 20_000);
    assert!(matches!(large, DecodeError::TooLarge { what: "bytes of workgroup memory", .. }), "{large}");
    let readonly = refusal(|f| *f = f.replaced("OpStore %i %u_0", "OpStore %lane_var %u_0"));
    assert!(matches!(readonly, DecodeError::Malformed { .. }), "{readonly}");
    let twice = refusal(|f| *f = f.replaced("%a2 = OpFAdd", "%a1 = OpFAdd"));
    assert!(matches!(twice, DecodeError::DuplicateId { .. }), "{twice}");
}

#[test]
fn dispatches_that_do_not_fit_are_refused() {
    let kernel = rich().kernel();
    let go = |options: InterpOptions, kernel: &StagedKernel, n: usize| {
        run_with(options, kernel, [1; 3], &[], &contents()[..n]).map(drop).map_err(|t| (t.kind, t.detail))
    };
    go(InterpOptions::default(), &kernel, 2).unwrap();
    let (kind, detail) = go(InterpOptions::default(), &kernel, 1).unwrap_err();
    assert_eq!(kind, TrapKind::Dispatch);
    assert_eq!(detail, "binding 1 of the module has no range");
    let seven = InterpOptions { subgroup_size: 7, ..InterpOptions::default() };
    assert!(go(seven, &kernel, 2).unwrap_err().1.contains("a subgroup of 7 lanes"));
    let mut f = rich();
    f.local = [64, 64, 1];
    assert!(
        go(InterpOptions::default(), &f.kernel(), 2).unwrap_err().1.contains("a workgroup of 64 x 64 x 1")
    );
    f.local = [0, 1, 1];
    assert_eq!(go(InterpOptions::default(), &f.kernel(), 2).unwrap_err().0, TrapKind::Dispatch);
}
