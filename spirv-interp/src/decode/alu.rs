//! Elementwise instructions: which compact operation each is, and what operands it takes.

use kiln_abi::spirv::{GlslOp, Op};

use crate::{
    number::Number,
    program::{Bin, Conv, Kind, Tri, Un},
};

/// What an operand's elements have to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Int,
    Float,
    /// A float of any encoding.
    Real,
    Bool,
}

impl Class {
    pub(super) fn has(self, d: Number) -> bool {
        match self {
            Class::Int => d.is_int(),
            Class::Float => d.is_float(),
            Class::Real => d.is_real(),
            Class::Bool => d == Number::Bool,
        }
    }
}

/// The compact operation of an elementwise instruction and its operands' class.
pub(super) fn elementwise(op: Op) -> Option<(Kind, Class)> {
    use Class::{Bool, Float, Int};
    let un = |u, class| Some((Kind::Un(u), class));
    let bin = |b, class| Some((Kind::Bin(b), class));
    match op {
        Op::SNegate => un(Un::SNegate, Int),
        Op::FNegate => un(Un::FNegate, Float),
        Op::Not => un(Un::Not, Int),
        Op::BitReverse => un(Un::BitReverse, Int),
        Op::BitCount => un(Un::BitCount, Int),
        Op::LogicalNot => un(Un::LogicalNot, Bool),
        Op::IsNan => un(Un::IsNan, Float),
        Op::IsInf => un(Un::IsInf, Float),
        Op::IAdd => bin(Bin::IAdd, Int),
        Op::ISub => bin(Bin::ISub, Int),
        Op::IMul => bin(Bin::IMul, Int),
        Op::UDiv => bin(Bin::UDiv, Int),
        Op::SDiv => bin(Bin::SDiv, Int),
        Op::UMod => bin(Bin::UMod, Int),
        Op::SRem => bin(Bin::SRem, Int),
        Op::FAdd => bin(Bin::FAdd, Float),
        Op::FSub => bin(Bin::FSub, Float),
        Op::FMul => bin(Bin::FMul, Float),
        Op::FDiv => bin(Bin::FDiv, Float),
        Op::FRem => bin(Bin::FRem, Float),
        Op::LogicalEqual => bin(Bin::IEqual, Bool),
        Op::LogicalNotEqual => bin(Bin::INotEqual, Bool),
        Op::LogicalOr => bin(Bin::Or, Bool),
        Op::LogicalAnd => bin(Bin::And, Bool),
        Op::IEqual => bin(Bin::IEqual, Int),
        Op::INotEqual => bin(Bin::INotEqual, Int),
        Op::UGreaterThan => bin(Bin::UGreater, Int),
        Op::SGreaterThan => bin(Bin::SGreater, Int),
        Op::UGreaterThanEqual => bin(Bin::UGreaterEqual, Int),
        Op::SGreaterThanEqual => bin(Bin::SGreaterEqual, Int),
        Op::ULessThan => bin(Bin::ULess, Int),
        Op::SLessThan => bin(Bin::SLess, Int),
        Op::ULessThanEqual => bin(Bin::ULessEqual, Int),
        Op::SLessThanEqual => bin(Bin::SLessEqual, Int),
        Op::FOrdEqual => bin(Bin::FEqual, Float),
        Op::FUnordNotEqual => bin(Bin::FNotEqual, Float),
        Op::FOrdLessThan => bin(Bin::FLess, Float),
        Op::FOrdGreaterThan => bin(Bin::FGreater, Float),
        Op::FOrdLessThanEqual => bin(Bin::FLessEqual, Float),
        Op::FOrdGreaterThanEqual => bin(Bin::FGreaterEqual, Float),
        Op::ShiftRightLogical => bin(Bin::ShiftRight, Int),
        Op::ShiftRightArithmetic => bin(Bin::ShiftRightSigned, Int),
        Op::ShiftLeftLogical => bin(Bin::ShiftLeft, Int),
        Op::BitwiseOr => bin(Bin::Or, Int),
        Op::BitwiseXor => bin(Bin::Xor, Int),
        Op::BitwiseAnd => bin(Bin::And, Int),
        _ => None,
    }
}

/// As [`elementwise`], for the extended set; `None` for the two packing instructions.
pub(super) fn extended(op: GlslOp) -> Option<(Kind, Class)> {
    use Class::{Float, Int};
    let un = |u, class| Some((Kind::Un(u), class));
    let bin = |b, class| Some((Kind::Bin(b), class));
    let tri = |t, class| Some((Kind::Tri(t), class));
    match op {
        GlslOp::RoundEven => un(Un::RoundEven, Float),
        GlslOp::Trunc => un(Un::Trunc, Float),
        GlslOp::FAbs => un(Un::FAbs, Float),
        GlslOp::SAbs => un(Un::SAbs, Int),
        GlslOp::FSign => un(Un::FSign, Float),
        GlslOp::Floor => un(Un::Floor, Float),
        GlslOp::Ceil => un(Un::Ceil, Float),
        GlslOp::Fract => un(Un::Fract, Float),
        GlslOp::Sin => un(Un::Sin, Float),
        GlslOp::Cos => un(Un::Cos, Float),
        GlslOp::Tanh => un(Un::Tanh, Float),
        GlslOp::Pow => bin(Bin::Pow, Float),
        GlslOp::Exp => un(Un::Exp, Float),
        GlslOp::Log => un(Un::Log, Float),
        GlslOp::Exp2 => un(Un::Exp2, Float),
        GlslOp::Log2 => un(Un::Log2, Float),
        GlslOp::Sqrt => un(Un::Sqrt, Float),
        GlslOp::InverseSqrt => un(Un::InverseSqrt, Float),
        GlslOp::FMin => bin(Bin::FMin, Float),
        GlslOp::UMin => bin(Bin::UMin, Int),
        GlslOp::SMin => bin(Bin::SMin, Int),
        GlslOp::FMax => bin(Bin::FMax, Float),
        GlslOp::UMax => bin(Bin::UMax, Int),
        GlslOp::SMax => bin(Bin::SMax, Int),
        GlslOp::FClamp => tri(Tri::FClamp, Float),
        GlslOp::UClamp => tri(Tri::UClamp, Int),
        GlslOp::SClamp => tri(Tri::SClamp, Int),
        GlslOp::Fma => tri(Tri::Fma, Float),
        GlslOp::FindILsb => un(Un::FindILsb, Int),
        GlslOp::FindUMsb => un(Un::FindUMsb, Int),
        GlslOp::PackHalf2x16 | GlslOp::UnpackHalf2x16 => None,
    }
}

/// A conversion with the classes of its source and its result.
pub(super) fn conversion(op: Op) -> Option<(Conv, Class, Class)> {
    use Class::{Int, Real};
    match op {
        Op::ConvertFToU => Some((Conv::FToU, Real, Int)),
        Op::ConvertFToS => Some((Conv::FToS, Real, Int)),
        Op::ConvertSToF => Some((Conv::SToF, Int, Real)),
        Op::ConvertUToF => Some((Conv::UToF, Int, Real)),
        Op::UConvert => Some((Conv::UToU, Int, Int)),
        Op::SConvert => Some((Conv::SToS, Int, Int)),
        Op::FConvert => Some((Conv::FToF, Real, Real)),
        _ => None,
    }
}

/// The operation and operand class of a subgroup reduction or scan.
pub(super) fn combination(op: Op) -> Option<(Bin, Class)> {
    use Class::{Float, Int};
    match op {
        Op::GroupNonUniformIAdd => Some((Bin::IAdd, Int)),
        Op::GroupNonUniformFAdd => Some((Bin::FAdd, Float)),
        Op::GroupNonUniformIMul => Some((Bin::IMul, Int)),
        Op::GroupNonUniformFMul => Some((Bin::FMul, Float)),
        Op::GroupNonUniformSMin => Some((Bin::SMin, Int)),
        Op::GroupNonUniformUMin => Some((Bin::UMin, Int)),
        Op::GroupNonUniformFMin => Some((Bin::FMin, Float)),
        Op::GroupNonUniformSMax => Some((Bin::SMax, Int)),
        Op::GroupNonUniformUMax => Some((Bin::UMax, Int)),
        Op::GroupNonUniformFMax => Some((Bin::FMax, Float)),
        Op::GroupNonUniformBitwiseAnd => Some((Bin::And, Int)),
        Op::GroupNonUniformBitwiseOr => Some((Bin::Or, Int)),
        Op::GroupNonUniformBitwiseXor => Some((Bin::Xor, Int)),
        _ => None,
    }
}
