//! Functions of values: mathematics, bits, packed integers, vectors. Each is a method too where it has a receiver.

use kiln_abi::{
    DType, Location,
    spirv::{GlslOp, Op},
};
use kiln_spirv_emit::ir::{Operand, ValueId};

use crate::{
    session::with,
    value::{Ex, Float, FloatLike, Int, Num, Read, Scalar, Shape, Value, Vec2, Vec3, Vec4, Vector},
};

/// One extended instruction whose result has the type of its first operand.
fn glsl(op: GlslOp, operands: &[ValueId], at: Location) -> ValueId {
    with(|s| {
        let ty = s.b.type_of(operands[0]);
        let operands = operands.iter().copied().map(Operand::Value);
        s.b.inst(Op::ExtInst, ty, std::iter::once(Operand::Glsl(op)).chain(operands).collect(), at)
    })
}

/// The instruction of an operation that is named apart for floats, signed and unsigned integers.
fn by_class(a: ValueId, [float, signed, unsigned]: [GlslOp; 3]) -> GlslOp {
    let dtype = with(|s| Shape::of(s, a).dtype);
    match (dtype.is_float(), dtype.is_signed()) {
        (true, _) => float,
        (false, true) => signed,
        (false, false) => unsigned,
    }
}

macro_rules! float_functions {
    ($($(#[$doc:meta])* $name:ident $op:ident ($($arg:ident),*);)*) => {
        $(
            $(#[$doc])*
            #[track_caller]
            pub fn $name<T: FloatLike>(x: Ex<T>, $($arg: Ex<T>),*) -> Ex<T> {
                Ex::new(glsl(GlslOp::$op, &[x.id, $($arg.id),*], Location::caller()))
            }
        )*

        /// The functions of floats as methods.
        pub trait FloatMethods<T: FloatLike>: Read<Out = Ex<T>> {
            $(
                $(#[$doc])*
                #[track_caller]
                fn $name(&self, $($arg: Ex<T>),*) -> Ex<T> { $name(self.read(), $($arg),*) }
            )*
        }
        impl<T: FloatLike, X: Read<Out = Ex<T>>> FloatMethods<T> for X {}
    };
}
float_functions! {
    /// e to the `x`.
    exp Exp ();
    /// Two to the `x`.
    exp2 Exp2 ();
    /// The natural logarithm.
    log Log ();
    /// The logarithm to base two.
    log2 Log2 ();
    /// The square root.
    sqrt Sqrt ();
    /// One over the square root.
    inverse_sqrt InverseSqrt ();
    /// The sine of an angle in radians.
    sin Sin ();
    /// The cosine of an angle in radians.
    cos Cos ();
    /// The hyperbolic tangent.
    tanh Tanh ();
    /// `x` to the `y`, for positive `x`.
    pow Pow (y);
    /// The largest whole number that is at most `x`.
    floor Floor ();
    /// The smallest whole number that is at least `x`.
    ceil Ceil ();
    /// The nearest whole number, ties to even.
    round_ties_even RoundEven ();
    /// The whole part.
    trunc Trunc ();
    /// `x * a + b`, rounded once.
    fma Fma (a, b);
}

macro_rules! number_functions {
    ($($(#[$doc:meta])* $name:ident [$f:ident $i:ident $u:ident] ($($arg:ident),*);)*) => {
        $(
            $(#[$doc])*
            #[track_caller]
            pub fn $name<T: Num>(x: Ex<T>, $($arg: Ex<T>),*) -> Ex<T> {
                let op = by_class(x.id, [GlslOp::$f, GlslOp::$i, GlslOp::$u]);
                Ex::new(glsl(op, &[x.id, $($arg.id),*], Location::caller()))
            }
        )*

        /// The functions of numbers as methods.
        pub trait NumberMethods<T: Num>: Read<Out = Ex<T>> {
            $(
                $(#[$doc])*
                #[track_caller]
                fn $name(&self, $($arg: Ex<T>),*) -> Ex<T> { $name(self.read(), $($arg),*) }
            )*
            /// The distance from zero.
            #[track_caller]
            fn abs(&self) -> Ex<T> where T: crate::value::Signed { abs(self.read()) }
        }
        impl<T: Num, X: Read<Out = Ex<T>>> NumberMethods<T> for X {}
    };
}
number_functions! {
    /// The smaller one.
    min [FMin SMin UMin] (y);
    /// The larger one.
    max [FMax SMax UMax] (y);
    /// `x` limited to `low..=high`.
    clamp [FClamp SClamp UClamp] (low, high);
}

/// The distance from zero.
#[track_caller]
pub fn abs<T: Num + crate::value::Signed>(x: Ex<T>) -> Ex<T> {
    Ex::new(glsl(by_class(x.id, [GlslOp::FAbs, GlslOp::SAbs, GlslOp::SAbs]), &[x.id], Location::caller()))
}

/// Whether a float is not a number.
#[track_caller]
pub fn is_nan<T: Float>(x: Ex<T>) -> Ex<bool> {
    Ex::new(typed(Op::IsNan, <bool as Value>::shape(), &[x.id], Location::caller()))
}

/// Whether a float is infinite.
#[track_caller]
pub fn is_inf<T: Float>(x: Ex<T>) -> Ex<bool> {
    Ex::new(typed(Op::IsInf, <bool as Value>::shape(), &[x.id], Location::caller()))
}

fn typed(op: Op, shape: Shape, operands: &[ValueId], at: Location) -> ValueId {
    with(|s| {
        let ty = shape.ty(s);
        s.op(op, ty, operands, at)
    })
}

const U32: Shape = Shape { dtype: DType::U32, lanes: 1 };

/// How many bits are set.
#[track_caller]
pub fn count_ones(x: Ex<u32>) -> Ex<u32> {
    Ex::new(typed(Op::BitCount, U32, &[x.id], Location::caller()))
}

/// The bits in reverse order.
#[track_caller]
pub fn reverse_bits(x: Ex<u32>) -> Ex<u32> {
    Ex::new(typed(Op::BitReverse, U32, &[x.id], Location::caller()))
}

/// The index of the lowest set bit; all ones when there is none.
#[track_caller]
pub fn lowest_bit(x: Ex<u32>) -> Ex<u32> {
    Ex::new(glsl(GlslOp::FindILsb, &[x.id], Location::caller()))
}

/// The index of the highest set bit; all ones when there is none.
#[track_caller]
pub fn highest_bit(x: Ex<u32>) -> Ex<u32> {
    Ex::new(glsl(GlslOp::FindUMsb, &[x.id], Location::caller()))
}

/// Two f32 as the two f16 of a word, the first in the low half.
#[track_caller]
pub fn pack_half(pair: Ex<Vec2<f32>>) -> Ex<u32> {
    Ex::new(extended(GlslOp::PackHalf2x16, U32, pair.id, Location::caller()))
}

/// The two f16 of a word as f32, the low half first.
#[track_caller]
pub fn unpack_half(word: Ex<u32>) -> Ex<Vec2<f32>> {
    Ex::new(extended(GlslOp::UnpackHalf2x16, Vec2::<f32>::shape(), word.id, Location::caller()))
}

fn extended(op: GlslOp, shape: Shape, operand: ValueId, at: Location) -> ValueId {
    with(|s| {
        let ty = shape.ty(s);
        s.b.inst(Op::ExtInst, ty, vec![Operand::Glsl(op), Operand::Value(operand)], at)
    })
}

// ---- packed dot products ---------------------------------------------------------------------------------------

fn dot4(op: Op, dtype: DType, a: ValueId, b: ValueId, at: Location) -> ValueId {
    with(|s| {
        let ty = s.b.scalar(dtype);
        // The literal says that a word is four 8-bit integers.
        s.b.inst(op, ty, vec![Operand::Value(a), Operand::Value(b), Operand::Lit(0)], at)
    })
}

fn accumulate(dot: ValueId, acc: ValueId, at: Location) -> ValueId {
    with(|s| crate::ops::binary(s, crate::ops::Binary::Add, acc, dot, at))
}

/// The dot product of four signed bytes and four signed bytes.
#[track_caller]
pub fn dot4_i8(a: Ex<u32>, b: Ex<u32>) -> Ex<i32> {
    Ex::new(dot4(Op::SDot, DType::I32, a.id, b.id, Location::caller()))
}

/// `acc` plus the dot product of four signed bytes and four signed bytes.
#[track_caller]
pub fn dot4_i8_acc(a: Ex<u32>, b: Ex<u32>, acc: Ex<i32>) -> Ex<i32> {
    let at = Location::caller();
    Ex::new(accumulate(dot4(Op::SDot, DType::I32, a.id, b.id, at), acc.id, at))
}

/// The dot product of four unsigned bytes and four unsigned bytes.
#[track_caller]
pub fn dot4_u8(a: Ex<u32>, b: Ex<u32>) -> Ex<u32> {
    Ex::new(dot4(Op::UDot, DType::U32, a.id, b.id, Location::caller()))
}

/// The dot product of four signed bytes `a` and four unsigned bytes `b`.
#[track_caller]
pub fn dot4_i8_u8(a: Ex<u32>, b: Ex<u32>) -> Ex<i32> {
    Ex::new(dot4(Op::SUDot, DType::I32, a.id, b.id, Location::caller()))
}

/// `acc` plus the dot product of four signed bytes `a` and four unsigned bytes `b`.
#[track_caller]
pub fn dot4_i8_u8_acc(a: Ex<u32>, b: Ex<u32>, acc: Ex<i32>) -> Ex<i32> {
    let at = Location::caller();
    Ex::new(accumulate(dot4(Op::SUDot, DType::I32, a.id, b.id, at), acc.id, at))
}

// ---- vectors ---------------------------------------------------------------------------------------------------

fn construct<T: Value>(parts: &[ValueId], at: Location) -> Ex<T> {
    Ex::new(typed(Op::CompositeConstruct, T::shape(), parts, at))
}

/// A vector of two.
#[track_caller]
pub fn vec2<T: Num>(x: Ex<T>, y: Ex<T>) -> Ex<Vec2<T>> {
    construct(&[x.id, y.id], Location::caller())
}

/// A vector of three.
#[track_caller]
pub fn vec3<T: Num>(x: Ex<T>, y: Ex<T>, z: Ex<T>) -> Ex<Vec3<T>> {
    construct(&[x.id, y.id, z.id], Location::caller())
}

/// A vector of four.
#[track_caller]
pub fn vec4<T: Num>(x: Ex<T>, y: Ex<T>, z: Ex<T>, w: Ex<T>) -> Ex<Vec4<T>> {
    construct(&[x.id, y.id, z.id, w.id], Location::caller())
}

/// A vector whose components are all `x`: `splat::<Vec4<f32>>(x)`.
#[track_caller]
pub fn splat<V: Vector>(x: Ex<V::Elem>) -> Ex<V> {
    construct(&vec![x.id; V::shape().lanes.into()], Location::caller())
}

/// The dot product of two vectors of floats.
#[track_caller]
pub fn dot<V: Vector + FloatLike>(a: Ex<V>, b: Ex<V>) -> Ex<V::Elem> {
    Ex::new(typed(Op::Dot, V::Elem::shape(), &[a.id, b.id], Location::caller()))
}

/// A vector of floats times a float.
#[track_caller]
pub fn scale<V: Vector + FloatLike>(v: Ex<V>, by: Ex<V::Elem>) -> Ex<V> {
    Ex::new(typed(Op::VectorTimesScalar, V::shape(), &[v.id, by.id], Location::caller()))
}

macro_rules! components {
    ($($trait:ident $v:ident: $($name:ident $i:literal)*;)*) => { $(
        /// The components by name.
        pub trait $trait<T: Num>: Read<Out = Ex<$v<T>>> {
            $(
                /// This component.
                #[track_caller]
                fn $name(&self) -> Ex<T> {
                    Ex::new(component(self.read().id, <T as Scalar>::DTYPE, $i, Location::caller()))
                }
            )*
        }
        impl<T: Num, X: Read<Out = Ex<$v<T>>>> $trait<T> for X {}
    )* };
}
components! {
    Vec2Methods Vec2: x 0 y 1;
    Vec3Methods Vec3: x 0 y 1 z 2;
    Vec4Methods Vec4: x 0 y 1 z 2 w 3;
}

fn component(vector: ValueId, dtype: DType, index: u32, at: Location) -> ValueId {
    with(|s| {
        let ty = s.b.scalar(dtype);
        s.b.inst(Op::CompositeExtract, ty, vec![Operand::Value(vector), Operand::Lit(index)], at)
    })
}

/// The smallest multiple of `b` that is at least `a`, over `b`: `a / b` rounded up.
#[track_caller]
pub fn div_ceil<T: Int>(a: Ex<T>, b: Ex<T>) -> Ex<T> {
    use crate::ops::{Binary, binary};
    let at = Location::caller();
    Ex::new(with(|s| {
        let one = s.b.scalar_const(T::DTYPE, 1);
        let less = binary(s, Binary::Sub, b.id, one, at);
        let sum = binary(s, Binary::Add, a.id, less, at);
        binary(s, Binary::Div, sum, b.id, at)
    }))
}
