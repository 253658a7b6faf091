//! Operators: arithmetic, comparison, bits, casts. Every function is called by the macro with the operator's span.

use kiln_abi::{DType, Location, spirv::Op};
use kiln_spirv_emit::ir::{Operand, Type, TypeId, ValueId};

use crate::{
    session::{Stage, with},
    value::{Arith, Bits, Elementwise, Equal, Ex, Logic, Negated, Num, Shape, Value, Vec2, Vec3, Vec4},
};

/// An operator of two operands of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Shl,
    Shr,
    And,
    Or,
    Xor,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Binary {
    fn compares(self) -> bool {
        matches!(self, Binary::Eq | Binary::Ne | Binary::Lt | Binary::Le | Binary::Gt | Binary::Ge)
    }

    fn op(self, dtype: DType) -> Op {
        let (float, signed) = (dtype.is_float(), dtype.is_signed());
        let pick = |f, i, u| match (float, signed) {
            (true, _) => f,
            (false, true) => i,
            (false, false) => u,
        };
        match self {
            Binary::Add => pick(Op::FAdd, Op::IAdd, Op::IAdd),
            Binary::Sub => pick(Op::FSub, Op::ISub, Op::ISub),
            Binary::Mul => pick(Op::FMul, Op::IMul, Op::IMul),
            Binary::Div => pick(Op::FDiv, Op::SDiv, Op::UDiv),
            Binary::Rem => pick(Op::FRem, Op::SRem, Op::UMod),
            Binary::Shl => Op::ShiftLeftLogical,
            Binary::Shr => pick(Op::ShiftRightLogical, Op::ShiftRightArithmetic, Op::ShiftRightLogical),
            Binary::And if dtype == DType::Bool => Op::LogicalAnd,
            Binary::Or if dtype == DType::Bool => Op::LogicalOr,
            Binary::Xor | Binary::Ne if dtype == DType::Bool => Op::LogicalNotEqual,
            Binary::Eq if dtype == DType::Bool => Op::LogicalEqual,
            Binary::And => Op::BitwiseAnd,
            Binary::Or => Op::BitwiseOr,
            Binary::Xor => Op::BitwiseXor,
            Binary::Eq => pick(Op::FOrdEqual, Op::IEqual, Op::IEqual),
            Binary::Ne => pick(Op::FUnordNotEqual, Op::INotEqual, Op::INotEqual),
            Binary::Lt => pick(Op::FOrdLessThan, Op::SLessThan, Op::ULessThan),
            Binary::Le => pick(Op::FOrdLessThanEqual, Op::SLessThanEqual, Op::ULessThanEqual),
            Binary::Gt => pick(Op::FOrdGreaterThan, Op::SGreaterThan, Op::UGreaterThan),
            Binary::Ge => pick(Op::FOrdGreaterThanEqual, Op::SGreaterThanEqual, Op::UGreaterThanEqual),
        }
    }
}

/// Stages `a op b`; integers that are known while staging are computed there. Vectors are equal where all components
/// are.
pub(crate) fn binary(s: &mut Stage, op: Binary, a: ValueId, b: ValueId, at: Location) -> ValueId {
    let shape = Shape::of(s, a);
    if op.compares() && shape.lanes > 1 {
        return compare_components(s, op, (a, b), shape, at);
    }
    let ty = match op.compares() {
        true => s.b.scalar(DType::Bool),
        false => s.b.type_of(a),
    };
    s.op(op.op(shape.dtype), ty, &[a, b], at)
}

fn compare_components(
    s: &mut Stage,
    op: Binary,
    (a, b): (ValueId, ValueId),
    shape: Shape,
    at: Location,
) -> ValueId {
    let (scalar, truth) = (s.b.scalar(shape.dtype), s.b.scalar(DType::Bool));
    let join = if op == Binary::Eq { Op::LogicalAnd } else { Op::LogicalOr };
    let component = |s: &mut Stage, v, i| {
        s.b.inst(Op::CompositeExtract, scalar, vec![Operand::Value(v), Operand::Lit(i)], at)
    };
    let compare = |s: &mut Stage, i| {
        let pair = [component(s, a, i), component(s, b, i)];
        s.op(op.op(shape.dtype), truth, &pair, at)
    };
    let first = compare(s, 0);
    (1..shape.lanes.into()).fold(first, |all, i| {
        let next = compare(s, i);
        s.op(join, truth, &[all, next], at)
    })
}

fn staged(op: Binary, a: ValueId, b: ValueId, at: Location) -> ValueId {
    with(|s| binary(s, op, a, b, at))
}

macro_rules! binary_functions {
    ($($(#[$doc:meta])* $name:ident $op:ident $bound:ident;)*) => { $(
        $(#[$doc])*
        #[track_caller]
        pub fn $name<T: $bound>(a: Ex<T>, b: Ex<T>) -> Ex<T> {
            Ex::new(staged(Binary::$op, a.id, b.id, Location::caller()))
        }
    )* };
}
binary_functions! {
    /// `a + b`; integers wrap.
    add Add Elementwise;
    /// `a - b`; integers wrap.
    sub Sub Elementwise;
    /// `a * b`; integers wrap.
    mul Mul Elementwise;
    /// `a / b`; of integers rounded toward zero.
    div Div Elementwise;
    /// `a % b`, with the sign of `a`.
    rem Rem Arith;
    /// `a << b`.
    shl Shl Bits;
    /// `a >> b`; keeps the sign of a signed `a`.
    shr Shr Bits;
    /// `a & b`.
    bitand And Logic;
    /// `a | b`.
    bitor Or Logic;
    /// `a ^ b`.
    bitxor Xor Logic;
}

macro_rules! comparisons {
    ($($(#[$doc:meta])* $name:ident $op:ident $bound:ident;)*) => { $(
        $(#[$doc])*
        #[track_caller]
        pub fn $name<T: $bound>(a: Ex<T>, b: Ex<T>) -> Ex<bool> {
            Ex::new(staged(Binary::$op, a.id, b.id, Location::caller()))
        }
    )* };
}
comparisons! {
    /// `a == b`.
    eq Eq Equal;
    /// `a != b`; true where either is NaN.
    ne Ne Equal;
    /// `a < b`.
    lt Lt Num;
    /// `a <= b`.
    le Le Num;
    /// `a > b`.
    gt Gt Num;
    /// `a >= b`.
    ge Ge Num;
}

/// `-a`.
#[track_caller]
pub fn neg<T: Negated>(a: Ex<T>) -> Ex<T> {
    let at = Location::caller();
    Ex::new(with(|s| {
        let shape = Shape::of(s, a.id);
        let ty = s.b.type_of(a.id);
        let op = if shape.dtype.is_float() { Op::FNegate } else { Op::SNegate };
        s.op(op, ty, &[a.id], at)
    }))
}

/// `!a`.
#[track_caller]
pub fn not<T: Logic>(a: Ex<T>) -> Ex<T> {
    let at = Location::caller();
    Ex::new(with(|s| {
        let shape = Shape::of(s, a.id);
        let ty = shape.ty(s);
        let op = if shape.dtype == DType::Bool { Op::LogicalNot } else { Op::Not };
        s.op(op, ty, &[a.id], at)
    }))
}

/// What `as` converts to `Self`.
#[diagnostic::on_unimplemented(
    message = "`{U}` cannot be cast to `{Self}`",
    label = "`as` converts between numbers, from bool to an integer, and between vectors of one length"
)]
pub trait CastFrom<U>: Value {}
impl<T: Num, U: Num> CastFrom<U> for T {}
macro_rules! cast_from_bool { ($($t:ty)*) => { $(impl CastFrom<bool> for $t {})* } }
cast_from_bool! { u32 i32 u16 i16 u8 i8 }
macro_rules! cast_vectors { ($($v:ident)*) => { $(impl<T: Num, U: Num> CastFrom<$v<U>> for $v<T> {})* } }
cast_vectors! { Vec2 Vec3 Vec4 }

/// `a as T`.
///
/// Integers truncate, extend and reinterpret as in Rust. A float becomes an integer by dropping its fraction; where
/// Rust saturates, the result is undefined here, so limit it first.
#[track_caller]
pub fn cast<T: CastFrom<U>, U: Value>(a: Ex<U>) -> Ex<T> {
    let at = Location::caller();
    Ex::new(with(|s| convert(s, a.id, T::shape(), at)))
}

pub(crate) fn convert(s: &mut Stage, a: ValueId, to: Shape, at: Location) -> ValueId {
    let (from, ty) = (Shape::of(s, a).dtype, to.ty(s));
    convert_as(s, a, from, (to.dtype, ty), at)
}

/// From numbers of `f` to `ty`, which is made of as many numbers of `t`.
pub(crate) fn convert_as(
    s: &mut Stage,
    a: ValueId,
    f: DType,
    (t, ty): (DType, TypeId),
    at: Location,
) -> ValueId {
    if f == t {
        return a;
    }
    let op = match (f.is_float(), t.is_float()) {
        (true, true) => Op::FConvert,
        (true, false) if t.is_signed() => Op::ConvertFToS,
        (true, false) => Op::ConvertFToU,
        (false, true) if f.is_signed() => Op::ConvertSToF,
        (false, true) => Op::ConvertUToF,
        (false, false) if f == DType::Bool => {
            let (one, zero) = (s.b.scalar_const(t, 1), s.b.scalar_const(t, 0));
            return s.op(Op::Select, ty, &[a, one, zero], at);
        }
        (false, false) if f.bytes() == t.bytes() => Op::Bitcast,
        (false, false) if f.is_signed() => Op::SConvert,
        (false, false) => {
            let plain = made_of(s.b.type_of_id(ty), unsigned(t));
            let plain = s.b.ty(plain);
            let wide = s.op(Op::UConvert, plain, &[a], at);
            return if plain == ty { wide } else { s.op(Op::Bitcast, ty, &[wide], at) };
        }
    };
    s.op(op, ty, &[a], at)
}

/// The same type of other numbers.
fn made_of(ty: &Type, dtype: DType) -> Type {
    match *ty {
        Type::Vector { n, .. } => Type::Vector { elem: dtype, n },
        _ => Type::Scalar(dtype),
    }
}

fn unsigned(dtype: DType) -> DType {
    match dtype {
        DType::I8 => DType::U8,
        DType::I16 => DType::U16,
        DType::I32 => DType::U32,
        other => other,
    }
}

/// The bits of `a` as a `T` of the same size.
#[track_caller]
pub fn bitcast<T: Value, U: Value>(a: Ex<U>) -> Ex<T> {
    let at = Location::caller();
    Ex::new(with(|s| {
        let (from, to) = (U::shape(), T::shape());
        let bytes = |x: Shape| x.dtype.bytes() * u32::from(x.lanes);
        if bytes(from) != bytes(to) || bytes(from) == 0 {
            let message = format!("a bitcast keeps the size; {} and {} differ", from.name(), to.name());
            s.b.error("E106", message, at);
        }
        let ty = to.ty(s);
        if from == to { a.id } else { s.op(Op::Bitcast, ty, &[a.id], at) }
    }))
}

/// `a` where `c` holds, else `b`; both are evaluated.
#[track_caller]
pub fn select<T: Value>(c: Ex<bool>, a: Ex<T>, b: Ex<T>) -> Ex<T> {
    let at = Location::caller();
    Ex::new(with(|s| {
        let ty = s.b.type_of(a.id);
        s.op(Op::Select, ty, &[c.id, a.id, b.id], at)
    }))
}
