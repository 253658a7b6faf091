//! Constant folding of instructions whose operands are constants: integers, truth values, composites.
//!
//! Integers wrap exactly as the device's do. Floats are not folded: rounding, subnormals and the bits of a NaN are the
//! device's, and the same source has to give the same result whether a value is known early or not. Only a float's
//! sign is changed, and its bits are carried over by a bitcast, which no device does differently.
//!
//! An operation without a result, such as a division by zero, is never folded; it is an error at the user's token.

use kiln_abi::{
    DType,
    spirv::{GlslOp, Op},
};

use crate::ir::{Const, Module, Operand, Type, TypeId, ValueId, ValueKind};

/// What folding makes of an instruction.
pub(crate) enum Folded {
    /// Nothing: it stays an instruction.
    No,
    /// This constant.
    Const(Const),
    /// This value, which is there already.
    Value(ValueId),
    /// It has no result: code and message.
    Refused(&'static str, String),
}

/// A scalar constant: its type and its value. Truth values are 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) dtype: DType,
    pub(crate) n: i64,
}

/// What an op of two scalars gives, or of one; `None` when it is not folded or has no result.
pub(crate) fn evaluate(op: Op, to: DType, operands: &[Known]) -> Option<Known> {
    let n = match *operands {
        [a] => one(op, to, a),
        [a, b] if no_result(op, a, b).is_none() => two(op, to, a, b),
        _ => None,
    };
    // A folded number is kept as its type's constants are.
    let wrapped = |n: i64| match to.is_signed() {
        true => i64::from(bits(n, to).cast_signed()),
        false => i64::from(bits(n, to)),
    };
    n.map(|n| Known { dtype: to, n: wrapped(n) })
}

/// Folds `op` over `operands` with a result of type `ty`.
pub(crate) fn fold(module: &Module, op: Op, ty: TypeId, operands: &[Operand]) -> Folded {
    match op {
        Op::Select => return pick(module, operands),
        Op::CompositeConstruct => return composite(module, ty, operands),
        Op::CompositeExtract => return extract(module, operands),
        _ => {}
    }
    let Type::Scalar(to) = *module.ty(ty) else { return Folded::No };
    let glsl = match operands.first() {
        Some(Operand::Glsl(glsl)) => Some(*glsl),
        _ => None,
    };
    let mut known = [Known { dtype: to, n: 0 }; 3];
    let mut count = 0;
    for operand in &operands[usize::from(glsl.is_some())..] {
        let Operand::Value(v) = operand else { return Folded::No };
        let (Some(scalar), true) = (scalar(module, *v), count < known.len()) else { return Folded::No };
        known[count] = scalar;
        count += 1;
    }
    let folded = match (glsl, &known[..count]) {
        (Some(glsl), known) => extended(glsl, to, known),
        (None, &[a]) => one(op, to, a),
        (None, &[a, b]) => match no_result(op, a, b) {
            Some((code, message)) => return Folded::Refused(code, message),
            None => two(op, to, a, b),
        },
        _ => None,
    };
    match folded {
        None => Folded::No,
        Some(n) if to == DType::Bool => Folded::Const(Const::Bool(n != 0)),
        Some(n) => Folded::Const(Const::Scalar { ty, bits: bits(n, to) }),
    }
}

/// The scalar that a value always is.
pub(crate) fn scalar(module: &Module, value: ValueId) -> Option<Known> {
    let value = module.value(value);
    let Type::Scalar(dtype) = *module.ty(value.ty) else { return None };
    let n = match &value.kind {
        ValueKind::Const(Const::Bool(b)) => i64::from(*b),
        ValueKind::Const(Const::Scalar { bits, .. }) if dtype.is_signed() => i64::from(bits.cast_signed()),
        ValueKind::Const(Const::Scalar { bits, .. }) => i64::from(*bits),
        ValueKind::Const(Const::Null(_)) => 0,
        ValueKind::Const(Const::Composite { .. })
        | ValueKind::Global(_)
        | ValueKind::Local(_)
        | ValueKind::Param
        | ValueKind::Inst => return None,
    };
    Some(Known { dtype, n })
}

/// The low bits of a number as a constant of type `dtype` keeps them.
#[expect(clippy::cast_possible_truncation, reason = "wrapping is what integers do")]
fn bits(n: i64, dtype: DType) -> u32 {
    match dtype {
        DType::I8 => i32::from(n as i8).cast_unsigned(),
        DType::I16 => i32::from(n as i16).cast_unsigned(),
        DType::U8 => u32::from(n as u8),
        DType::U16 | DType::F16 => u32::from(n as u16),
        DType::Bool | DType::I32 | DType::U32 | DType::F32 => n as u32,
    }
}

fn width(dtype: DType) -> i64 {
    i64::from(dtype.bytes()) * 8
}

/// The number's bits as an unsigned number of its type's width.
fn unsigned(a: Known) -> i64 {
    a.n & ((1 << width(a.dtype)) - 1)
}

fn no_result(op: Op, a: Known, b: Known) -> Option<(&'static str, String)> {
    let dtype = a.dtype;
    match op {
        Op::UDiv | Op::SDiv | Op::UMod | Op::SRem if b.n == 0 => Some((
            "E030",
            format!("expected a divisor other than zero; found {} / 0; test the divisor first", a.n),
        )),
        Op::SDiv | Op::SRem if b.n == -1 && a.n == -(1 << (width(dtype) - 1)) => {
            Some(("E031", format!("expected a quotient that an {dtype} can hold; found {} / -1", a.n)))
        }
        Op::ShiftLeftLogical | Op::ShiftRightLogical | Op::ShiftRightArithmetic
            if unsigned(b) >= width(dtype) =>
        {
            let most = width(dtype) - 1;
            Some(("E032", format!("expected a shift of an {dtype} by 0 to {most}; found {}", b.n)))
        }
        _ => None,
    }
}

fn one(op: Op, to: DType, a: Known) -> Option<i64> {
    let (int, same) = (a.dtype.is_int(), a.dtype == to);
    match op {
        Op::SNegate if int && same => Some(-a.n),
        Op::Not if int && same => Some(!a.n),
        Op::LogicalNot if a.dtype == DType::Bool && same => Some(1 - a.n),
        Op::FNegate if a.dtype.is_float() && same => Some(a.n ^ (1 << (width(a.dtype) - 1))),
        Op::UConvert if int && to.is_int() => Some(unsigned(a)),
        // Sign extension of an unsigned operand: its top bit counts as the sign.
        Op::SConvert if int && to.is_int() => {
            let spare = 64 - width(a.dtype);
            Some((a.n << spare) >> spare)
        }
        Op::Bitcast if a.dtype.bytes() == to.bytes() && a.dtype != DType::Bool => Some(unsigned(a)),
        Op::BitCount if int && to.is_int() => Some(i64::from(unsigned(a).count_ones())),
        Op::BitReverse if int && same => {
            Some((unsigned(a).reverse_bits() >> (64 - width(to))) & ((1 << width(to)) - 1))
        }
        _ => None,
    }
}

fn two(op: Op, to: DType, a: Known, b: Known) -> Option<i64> {
    let (same, int) = (a.dtype == b.dtype, a.dtype.is_int());
    let keeps = same && int && a.dtype == to;
    let (signed, plain) = (keeps && to.is_signed(), keeps && !to.is_signed());
    let compares = same && int && to == DType::Bool;
    let (below, above) = (compares && !a.dtype.is_signed(), compares && a.dtype.is_signed());
    let logic = same && a.dtype == DType::Bool && to == DType::Bool;
    let shifts = int && b.dtype.is_int() && a.dtype == to;
    let n = match op {
        Op::IAdd if keeps => a.n.wrapping_add(b.n),
        Op::ISub if keeps => a.n.wrapping_sub(b.n),
        Op::IMul if keeps => a.n.wrapping_mul(b.n),
        Op::UDiv if plain => a.n / b.n,
        Op::UMod if plain => a.n % b.n,
        Op::SDiv if signed => a.n / b.n,
        Op::SRem if signed => a.n % b.n,
        Op::BitwiseAnd if keeps => a.n & b.n,
        Op::BitwiseOr if keeps => a.n | b.n,
        Op::BitwiseXor if keeps => a.n ^ b.n,
        Op::ShiftLeftLogical if shifts => a.n << unsigned(b),
        Op::ShiftRightLogical if shifts => unsigned(a) >> unsigned(b),
        Op::ShiftRightArithmetic if shifts && to.is_signed() => a.n >> unsigned(b),
        Op::LogicalAnd if logic => a.n & b.n,
        Op::LogicalOr if logic => a.n | b.n,
        Op::LogicalEqual if logic => i64::from(a.n == b.n),
        Op::LogicalNotEqual if logic => a.n ^ b.n,
        Op::IEqual if compares => i64::from(a.n == b.n),
        Op::INotEqual if compares => i64::from(a.n != b.n),
        Op::ULessThan if below => i64::from(a.n < b.n),
        Op::ULessThanEqual if below => i64::from(a.n <= b.n),
        Op::UGreaterThan if below => i64::from(a.n > b.n),
        Op::UGreaterThanEqual if below => i64::from(a.n >= b.n),
        Op::SLessThan if above => i64::from(a.n < b.n),
        Op::SLessThanEqual if above => i64::from(a.n <= b.n),
        Op::SGreaterThan if above => i64::from(a.n > b.n),
        Op::SGreaterThanEqual if above => i64::from(a.n >= b.n),
        _ => return None,
    };
    Some(n)
}

fn extended(op: GlslOp, to: DType, known: &[Known]) -> Option<i64> {
    if known.iter().any(|k| k.dtype != to) || !to.is_int() {
        return None;
    }
    let (signed, n) = (to.is_signed(), |i: usize| known.get(i).map(|k| k.n));
    match op {
        GlslOp::SAbs if signed => Some(n(0)?.abs()),
        GlslOp::UMin if !signed => Some(n(0)?.min(n(1)?)),
        GlslOp::UMax if !signed => Some(n(0)?.max(n(1)?)),
        GlslOp::SMin if signed => Some(n(0)?.min(n(1)?)),
        GlslOp::SMax if signed => Some(n(0)?.max(n(1)?)),
        GlslOp::UClamp if !signed && n(1)? <= n(2)? => Some(n(0)?.clamp(n(1)?, n(2)?)),
        GlslOp::SClamp if signed && n(1)? <= n(2)? => Some(n(0)?.clamp(n(1)?, n(2)?)),
        _ => None,
    }
}

/// A select with a constant condition is the chosen operand, whatever that is.
fn pick(module: &Module, operands: &[Operand]) -> Folded {
    let &[Operand::Value(cond), Operand::Value(a), Operand::Value(b)] = operands else { return Folded::No };
    if module.value(a).ty != module.value(b).ty {
        return Folded::No;
    }
    match module.value(cond).kind {
        ValueKind::Const(Const::Bool(true)) => Folded::Value(a),
        ValueKind::Const(Const::Bool(false)) => Folded::Value(b),
        _ => Folded::No,
    }
}

/// A composite of one constant per part; vectors made of smaller vectors stay instructions.
fn composite(module: &Module, ty: TypeId, operands: &[Operand]) -> Folded {
    let n_parts = match module.ty(ty) {
        Type::Vector { n, .. } => usize::from(*n),
        Type::Array { len, .. } => *len as usize,
        Type::Struct { members, .. } => members.len(),
        Type::Scalar(_)
        | Type::RuntimeArray { .. }
        | Type::Pointer { .. }
        | Type::Matrix(_)
        | Type::TensorLayout { .. }
        | Type::TensorView { .. } => return Folded::No,
    };
    let constant = |operand: &Operand| match operand {
        Operand::Value(v) if matches!(module.value(*v).kind, ValueKind::Const(_)) => Some(*v),
        _ => None,
    };
    match operands.iter().map(constant).collect::<Option<Vec<_>>>() {
        Some(parts) if parts.len() == n_parts => Folded::Const(Const::Composite { ty, parts }),
        _ => Folded::No,
    }
}

fn extract(module: &Module, operands: &[Operand]) -> Folded {
    let [Operand::Value(from), path @ ..] = operands else { return Folded::No };
    let mut value = *from;
    for step in path {
        let (Operand::Lit(i), ValueKind::Const(Const::Composite { parts, .. })) =
            (step, &module.value(value).kind)
        else {
            return Folded::No;
        };
        let Some(&part) = parts.get(*i as usize) else { return Folded::No };
        value = part;
    }
    if path.is_empty() { Folded::No } else { Folded::Value(value) }
}
