//! Folding gives what the device's wrapping arithmetic gives, for every operation and a spread of values.
#![expect(clippy::panic, reason = "tests")]

use kiln_abi::{
    DType, Location,
    spirv::{GlslOp, Op},
};
use kiln_spirv_emit::{
    Builder,
    ir::{Const, Operand, Type, ValueId},
};

const WORDS: [u32; 9] = [0, 1, 2, 7, 31, 0x7fff_ffff, 0x8000_0000, 0xffff_fffe, 0xffff_ffff];

struct Folds(Builder);

impl Folds {
    fn new() -> Self {
        Folds(Builder::new("k", [1, 1, 1], None))
    }

    fn constant(&mut self, dtype: DType, bits: u32) -> ValueId {
        self.0.scalar_const(dtype, bits)
    }

    fn inst(&mut self, op: Op, to: DType, operands: Vec<Operand>) -> Option<Const> {
        let ty = self.0.scalar(to);
        let value = self.0.inst(op, ty, operands, Location::caller());
        self.0.as_const(value).cloned()
    }

    fn bits(&mut self, op: Op, from: DType, to: DType, words: &[u32]) -> u32 {
        let operands = words.iter().map(|&w| Operand::Value(self.constant(from, w))).collect();
        match self.inst(op, to, operands) {
            Some(Const::Scalar { bits, .. }) => bits,
            Some(Const::Bool(b)) => u32::from(b),
            other => panic!("{op:?} {words:x?} is not folded: {other:?}"),
        }
    }
}

#[test]
fn unsigned_operations_wrap() {
    let mut f = Folds::new();
    let mut check = |op, to, a: u32, b: u32, expected: u32| {
        assert_eq!(f.bits(op, DType::U32, to, &[a, b]), expected, "{op:?} {a:#x} {b:#x}");
    };
    for a in WORDS {
        for b in WORDS {
            let u = DType::U32;
            check(Op::IAdd, u, a, b, a.wrapping_add(b));
            check(Op::ISub, u, a, b, a.wrapping_sub(b));
            check(Op::IMul, u, a, b, a.wrapping_mul(b));
            check(Op::BitwiseAnd, u, a, b, a & b);
            check(Op::BitwiseOr, u, a, b, a | b);
            check(Op::BitwiseXor, u, a, b, a ^ b);
            if b != 0 {
                check(Op::UDiv, u, a, b, a / b);
                check(Op::UMod, u, a, b, a % b);
            }
            if b < 32 {
                check(Op::ShiftLeftLogical, u, a, b, a << b);
                check(Op::ShiftRightLogical, u, a, b, a >> b);
            }
            for (op, holds) in [
                (Op::IEqual, a == b),
                (Op::INotEqual, a != b),
                (Op::ULessThan, a < b),
                (Op::ULessThanEqual, a <= b),
                (Op::UGreaterThan, a > b),
                (Op::UGreaterThanEqual, a >= b),
            ] {
                check(op, DType::Bool, a, b, u32::from(holds));
            }
        }
    }
}

#[test]
fn signed_operations_wrap() {
    let mut f = Folds::new();
    let mut check = |op, to, a: i32, b: i32, expected: i32| {
        let words = [a.cast_unsigned(), b.cast_unsigned()];
        assert_eq!(f.bits(op, DType::I32, to, &words), expected.cast_unsigned(), "{op:?} {a} {b}");
    };
    for a in WORDS.map(u32::cast_signed) {
        for b in WORDS.map(u32::cast_signed) {
            check(Op::IAdd, DType::I32, a, b, a.wrapping_add(b));
            check(Op::IMul, DType::I32, a, b, a.wrapping_mul(b));
            if b != 0 && (a, b) != (i32::MIN, -1) {
                check(Op::SDiv, DType::I32, a, b, a / b);
                check(Op::SRem, DType::I32, a, b, a % b);
            }
            if (0..32).contains(&b) {
                check(Op::ShiftRightArithmetic, DType::I32, a, b, a >> b);
            }
            for (op, holds) in [
                (Op::SLessThan, a < b),
                (Op::SLessThanEqual, a <= b),
                (Op::SGreaterThan, a > b),
                (Op::SGreaterThanEqual, a >= b),
            ] {
                check(op, DType::Bool, a, b, i32::from(holds));
            }
        }
    }
}

#[test]
fn narrow_results_keep_their_form() {
    let mut f = Folds::new();
    assert_eq!(f.bits(Op::IAdd, DType::U8, DType::U8, &[200, 100]), 44);
    assert_eq!(f.bits(Op::IAdd, DType::I8, DType::I8, &[100, 100]), (-56i32).cast_unsigned());
    assert_eq!(f.bits(Op::IMul, DType::I16, DType::I16, &[300, 300]), 24_464);
    assert_eq!(f.bits(Op::Not, DType::U16, DType::U16, &[1]), 0xfffe);
    assert_eq!(f.bits(Op::ShiftLeftLogical, DType::I8, DType::I8, &[1, 7]), (-128i32).cast_unsigned());
}

#[test]
fn one_operand() {
    let mut f = Folds::new();
    for a in WORDS {
        assert_eq!(f.bits(Op::Not, DType::U32, DType::U32, &[a]), !a);
        assert_eq!(f.bits(Op::SNegate, DType::I32, DType::I32, &[a]), a.wrapping_neg());
        assert_eq!(f.bits(Op::BitCount, DType::U32, DType::U32, &[a]), a.count_ones());
        assert_eq!(f.bits(Op::BitReverse, DType::U32, DType::U32, &[a]), a.reverse_bits());
        assert_eq!(f.bits(Op::Bitcast, DType::U32, DType::I32, &[a]), a);
        assert_eq!(f.bits(Op::UConvert, DType::U32, DType::U8, &[a]), a & 0xff);
    }
    let minus = u32::MAX;
    assert_eq!(f.bits(Op::UConvert, DType::I8, DType::U32, &[minus]), 255);
    assert_eq!(f.bits(Op::SConvert, DType::I8, DType::I32, &[minus]), minus);
    assert_eq!(f.bits(Op::SConvert, DType::U8, DType::I32, &[255]), minus);
    assert_eq!(f.bits(Op::Bitcast, DType::I8, DType::U8, &[minus]), 255);
}

#[test]
fn logic_and_select() {
    let mut f = Folds::new();
    let (yes, no) = (f.0.constant(Const::Bool(true)), f.0.constant(Const::Bool(false)));
    let v = Operand::Value;
    for (op, expected) in [
        (Op::LogicalAnd, false),
        (Op::LogicalOr, true),
        (Op::LogicalEqual, false),
        (Op::LogicalNotEqual, true),
    ] {
        assert_eq!(f.inst(op, DType::Bool, vec![v(yes), v(no)]), Some(Const::Bool(expected)));
    }
    assert_eq!(f.inst(Op::LogicalNot, DType::Bool, vec![v(yes)]), Some(Const::Bool(false)));
    let ty = f.0.scalar(DType::U32);
    let local = f.0.local(ty, Location::caller());
    let loaded = f.0.load(local, Location::caller());
    let three = f.constant(DType::U32, 3);
    let picked = f.0.inst(Op::Select, ty, vec![v(no), v(three), v(loaded)], Location::caller());
    assert_eq!(picked, loaded, "the chosen operand need not be a constant");
}

#[test]
fn integer_functions() {
    let mut f = Folds::new();
    let mut check = |op, dtype, words: &[u32], expected: u32| {
        let values: Vec<_> = words.iter().map(|&w| Operand::Value(f.constant(dtype, w))).collect();
        let operands = [vec![Operand::Glsl(op)], values].concat();
        let Some(Const::Scalar { bits, .. }) = f.inst(Op::ExtInst, dtype, operands) else {
            panic!("{op:?} is not folded")
        };
        assert_eq!(bits, expected, "{op:?} {words:x?}");
    };
    let minus = (-5i32).cast_unsigned();
    check(GlslOp::UMin, DType::U32, &[3, minus], 3);
    check(GlslOp::SMin, DType::I32, &[3, minus], minus);
    check(GlslOp::UMax, DType::U32, &[3, minus], minus);
    check(GlslOp::SMax, DType::I32, &[3, minus], 3);
    check(GlslOp::SAbs, DType::I32, &[minus], 5);
    check(GlslOp::UClamp, DType::U32, &[9, 1, 4], 4);
    check(GlslOp::SClamp, DType::I32, &[minus, 1, 4], 1);
}

#[test]
fn floats_are_left_to_the_device_except_for_their_sign() {
    let mut f = Folds::new();
    let one = 1.0f32.to_bits();
    assert_eq!(f.bits(Op::FNegate, DType::F32, DType::F32, &[one]), (-1.0f32).to_bits());
    assert_eq!(f.bits(Op::FNegate, DType::F16, DType::F16, &[0x3c00]), 0xbc00);
    assert_eq!(f.bits(Op::Bitcast, DType::F32, DType::U32, &[one]), one);
    let value = Operand::Value(f.constant(DType::F32, one));
    for op in [Op::FAdd, Op::FMul, Op::FDiv] {
        assert_eq!(f.inst(op, DType::F32, vec![value.clone(), value.clone()]), None, "{op:?}");
    }
    assert_eq!(f.inst(Op::FOrdLessThan, DType::Bool, vec![value.clone(), value]), None);
    let word = Operand::Value(f.constant(DType::U32, 3));
    assert_eq!(f.inst(Op::ConvertUToF, DType::F32, vec![word]), None);
}

#[test]
fn mixed_types_are_left_to_the_validator() {
    let mut f = Folds::new();
    let (a, b) = (Operand::Value(f.constant(DType::U32, 3)), Operand::Value(f.constant(DType::I32, 3)));
    assert_eq!(f.inst(Op::IAdd, DType::U32, vec![a.clone(), b]), None);
    assert_eq!(f.inst(Op::SDiv, DType::U32, vec![a.clone(), a]), None);
}

#[test]
fn composites_of_constants_are_constants_and_come_apart() {
    let mut f = Folds::new();
    let ty = f.0.ty(Type::Vector { elem: DType::U32, n: 2 });
    let parts = [f.constant(DType::U32, 4), f.constant(DType::U32, 9)];
    let operands = parts.map(Operand::Value).to_vec();
    let pair = f.0.inst(Op::CompositeConstruct, ty, operands, Location::caller());
    assert_eq!(f.0.as_const(pair), Some(&Const::Composite { ty, parts: parts.to_vec() }));
    let u32 = f.0.scalar(DType::U32);
    let operands = vec![Operand::Value(pair), Operand::Lit(1)];
    assert_eq!(f.0.inst(Op::CompositeExtract, u32, operands, Location::caller()), parts[1]);
}
