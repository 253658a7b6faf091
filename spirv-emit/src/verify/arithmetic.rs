//! Arithmetic, bits and extended instructions: operands and results have the types their op asks for.

use kiln_abi::{
    DType,
    spirv::{GlslOp, Op, Op::*},
};

use super::{
    Report,
    facts::{Facts, Shape},
};
use crate::ir::{Inst, Operand, Type};

/// All operands have the result's shape, and it is one the op works on.
fn uniform(facts: &Facts<'_>, report: &mut Report<'_>, ops: &[Op], fits: fn(Op, Shape) -> bool, want: &str) {
    for inst in facts.of(ops) {
        let (operands, result) = (facts.operands(inst), facts.result(inst));
        let good = match (operands, result) {
            (Some(operands), Some(result)) => operands.iter().all(|&o| o == result) && fits(inst.op, result),
            _ => elementwise(facts, inst, fits),
        };
        if !good {
            let (name, found) = (inst.op.name(), facts.signature(inst));
            report.add(inst.at, format!("{name} expected {want}; found {found}; convert with `as`"));
        }
    }
}

/// The operation on matrices of one type, element by element.
fn elementwise(facts: &Facts<'_>, inst: &Inst, fits: fn(Op, Shape) -> bool) -> bool {
    let ops = [SNegate, IAdd, ISub, IMul, SDiv, UDiv, FNegate, FAdd, FSub, FMul, FDiv];
    let Some(ty) = facts.result_type(inst) else { return false };
    let dtype = facts.matrix_type(ty).and_then(|m| m.elem.dtype());
    let mut values = (0..inst.operands.len()).filter_map(|i| inst.value(i));
    ops.contains(&inst.op)
        && dtype.is_some_and(|dtype| fits(inst.op, Shape { dtype, lanes: 1 }))
        && values.all(|v| facts.module.value(v).ty == ty)
}

pub(super) fn integer(facts: &Facts<'_>, report: &mut Report<'_>) {
    let ops = [SNegate, IAdd, ISub, IMul, UDiv, SDiv, UMod, SRem];
    let fits = |op, s: Shape| match op {
        UDiv | UMod => s.is_unsigned(),
        SDiv | SRem | SNegate => s.is_signed(),
        _ => s.is_int(),
    };
    uniform(facts, report, &ops, fits, "integers of one type and of its own signedness");
}

pub(super) fn float(facts: &Facts<'_>, report: &mut Report<'_>) {
    let ops = [FNegate, FAdd, FSub, FMul, FDiv, FRem];
    uniform(facts, report, &ops, |_, s| s.is_float(), "floats of one type");
}

pub(super) fn wide_product(facts: &Facts<'_>, report: &mut Report<'_>) {
    for inst in facts.of(&[UMulExtended]) {
        let operands = facts.operands(inst).unwrap_or_default();
        let pair = match facts.result_type(inst).map(|ty| facts.module.ty(ty)) {
            Some(Type::Struct { members, .. }) => members.iter().map(|m| facts.shape(m.ty)).collect(),
            _ => Vec::new(),
        };
        let good = matches!(
            (&operands[..], &pair[..]),
            (&[a, b], &[Some(low), Some(high)]) if a.is_unsigned() && [b, low, high] == [a; 3]
        );
        if !good {
            let found = facts.signature(inst);
            report.add(inst.at, format!("a wide product expected two u32 and a pair of them; found {found}"));
        }
    }
}

pub(super) fn zero_divisor(facts: &Facts<'_>, report: &mut Report<'_>) {
    for inst in facts.of(&[UDiv, SDiv, UMod, SRem]) {
        if inst.value(1).is_some_and(|v| facts.constant_lanes(v).contains(&0)) {
            let message = "expected a divisor other than zero; found the constant 0; test the divisor first";
            report.add(inst.at, message.to_owned());
        }
    }
}

pub(super) fn bitwise(facts: &Facts<'_>, report: &mut Report<'_>) {
    let ops = [BitwiseOr, BitwiseXor, BitwiseAnd, Not, BitReverse, BitCount];
    let fits = |op, s: Shape| match op {
        // Vulkan has them on 32 bits only.
        BitReverse | BitCount => s.is_int() && s.bits() == 32,
        _ => s.is_int(),
    };
    uniform(facts, report, &ops, fits, "integers of one type (32-bit for counting and reversing)");
}

const SHIFTS: [Op; 3] = [ShiftLeftLogical, ShiftRightLogical, ShiftRightArithmetic];

pub(super) fn shift(facts: &Facts<'_>, report: &mut Report<'_>) {
    for inst in facts.of(&SHIFTS) {
        let good = match (facts.operand(inst, 0), facts.operand(inst, 1), facts.result(inst)) {
            (Some(from), Some(count), Some(to)) => {
                let signed = match inst.op {
                    ShiftRightLogical => from.is_unsigned(),
                    ShiftRightArithmetic => from.is_signed(),
                    _ => from.is_int(),
                };
                from == to && signed && count.is_int() && count.lanes == from.lanes
            }
            _ => false,
        };
        if !good {
            let (name, found) = (inst.op.name(), facts.signature(inst));
            report.add(
                inst.at,
                format!(
                    "{name} expected an integer of its own signedness and an integer count; found {found}"
                ),
            );
        }
    }
}

pub(super) fn shift_count(facts: &Facts<'_>, report: &mut Report<'_>) {
    for inst in facts.of(&SHIFTS) {
        let (Some(from), Some(count)) = (facts.operand(inst, 0), inst.value(1)) else { continue };
        if let Some(n) = facts.constant_lanes(count).into_iter().find(|&n| n >= from.bits()) {
            let (dtype, most) = (from.dtype, from.bits().saturating_sub(1));
            report.add(inst.at, format!("expected a shift of an {dtype} by 0 to {most}; found {n}"));
        }
    }
}

pub(super) fn contraction(facts: &Facts<'_>, report: &mut Report<'_>) {
    for inst in facts.insts.iter().filter(|i| i.no_contraction) {
        if !facts.result(inst).is_some_and(Shape::is_float) {
            let name = inst.op.name();
            report.add(inst.at, format!("expected a float result to keep uncontracted; found {name}"));
        }
    }
}

pub(super) fn extended(facts: &Facts<'_>, report: &mut Report<'_>) {
    for inst in facts.of(&[ExtInst]) {
        let Some(Operand::Glsl(op)) = inst.operands.first() else { continue };
        if !extended_fits(facts, inst, *op) {
            let (name, found) = (op.name(), facts.signature(inst));
            report.add(inst.at, format!("{name} has no form {found}; convert with `as`"));
        }
    }
}

fn extended_fits(facts: &Facts<'_>, inst: &Inst, op: GlslOp) -> bool {
    use GlslOp::*;
    let (Some(operands), Some(to)) = (facts.operands(inst), facts.result(inst)) else { return false };
    let pair = Shape { dtype: DType::F32, lanes: 2 };
    let (n, fits) = match op {
        RoundEven | Trunc | FAbs | FSign | Floor | Ceil | Fract | Sin | Cos | Tanh | Exp | Log | Exp2
        | Log2 | Sqrt | InverseSqrt => (1, to.is_float()),
        Pow | FMin | FMax => (2, to.is_float()),
        FClamp | Fma => (3, to.is_float()),
        SAbs => (1, to.is_signed()),
        SMin | SMax => (2, to.is_signed()),
        SClamp => (3, to.is_signed()),
        UMin | UMax => (2, to.is_unsigned()),
        UClamp => (3, to.is_unsigned()),
        FindILsb => (1, to.is_int() && to.bits() == 32),
        FindUMsb => (1, to.is_unsigned() && to.bits() == 32),
        PackHalf2x16 => return operands == [pair] && to == Shape::U32,
        UnpackHalf2x16 => return operands == [Shape::U32] && to == pair,
    };
    fits && operands.len() == n && operands.iter().all(|&o| o == to)
}
