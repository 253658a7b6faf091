//! Values of a kernel: their types, constants and how one is read.

use std::marker::PhantomData;

use half::f16;
use kiln_abi::{DType, Location};
use kiln_spirv_emit::ir::{Const, Type, TypeId, ValueId};

use crate::{
    place::{ByValue, Path, Rail, Slot},
    session::{Stage, with},
};

/// The register type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Scalar type.
    pub dtype: DType,
    /// 1 for a scalar, 2 to 4 for a vector.
    pub lanes: u8,
}

impl Shape {
    pub(crate) fn ty(self, s: &mut Stage) -> TypeId {
        match self.lanes {
            1 => s.b.scalar(self.dtype),
            n => s.b.ty(Type::Vector { elem: self.dtype, n }),
        }
    }

    /// The shape of a value that is staged already.
    pub(crate) fn of(s: &Stage, value: ValueId) -> Shape {
        match *s.b.type_of_id(s.b.type_of(value)) {
            Type::Scalar(dtype) => Shape { dtype, lanes: 1 },
            Type::Vector { elem, n } => Shape { dtype: elem, lanes: n },
            Type::Matrix(m) => Shape { dtype: m.elem.dtype().unwrap_or(DType::F32), lanes: 1 },
            _ => Shape { dtype: DType::Bool, lanes: 1 },
        }
    }

    /// Bytes of all components.
    pub(crate) fn bytes(self) -> u32 {
        self.dtype.bytes() * u32::from(self.lanes)
    }

    pub(crate) fn name(self) -> String {
        match self.lanes {
            1 => self.dtype.name().to_owned(),
            n => format!("Vec{n}<{}>", self.dtype),
        }
    }
}

/// A type that a variable can hold: a kernel value or a tile.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a kernel value",
    label = "a kernel value is f32, f16, i32, u32, i16, u16, i8, u8, bool or a Vec2, Vec3, Vec4 of numbers"
)]
pub trait Held: Copy + Slot<Kind = ByValue> {
    /// The register type.
    fn held() -> Type;
}

/// What `+ - * /` take: numbers, vectors of numbers, and tiles element by element.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no arithmetic",
    label = "numbers and vectors of numbers have it"
)]
pub trait Elementwise: Held {}
impl<T: Arith> Elementwise for T {}

/// What unary `-` takes.
#[diagnostic::on_unimplemented(message = "`{Self}` has no sign", label = "signed numbers can be negated")]
pub trait Negated: Held {}
impl<T: Signed> Negated for T {}

/// A type that a kernel value can have: a scalar or a vector of two to four.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a kernel value",
    label = "a kernel value is f32, f16, i32, u32, i16, u16, i8, u8, bool or a Vec2, Vec3, Vec4 of numbers"
)]
pub trait Value: Held {
    /// The register type.
    fn shape() -> Shape;
}

/// What a plain type in kernel syntax stands for: `f32` for a value, a `#[derive(Struct)]` for its parts.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a kernel value",
    label = "a kernel value is f32, f16, i32, u32, i16, u16, i8, u8, bool, a Vec2, Vec3, Vec4 of numbers, or a \
             `#[derive(Struct)]` of them"
)]
pub trait Plain {
    /// Its form in a kernel.
    type Staged;
}

/// A scalar.
#[diagnostic::on_unimplemented(message = "`{Self}` is not a scalar", label = "a scalar is needed here")]
pub trait Scalar: Value {
    /// The element type.
    const DTYPE: DType;
}

/// Numbers and vectors of numbers: `+ - * /`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no arithmetic",
    label = "numbers and vectors of numbers have it"
)]
pub trait Arith: Value {}

/// Signed numbers and vectors of them: unary `-`.
#[diagnostic::on_unimplemented(message = "`{Self}` has no sign", label = "signed numbers can be negated")]
pub trait Signed: Arith {}

/// A scalar number.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a number",
    label = "a scalar number is needed here"
)]
pub trait Num: Arith + Scalar {}

/// An integer.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an integer",
    label = "an integer is needed here; a float literal has a point"
)]
pub trait Int: Num + Bits {}

/// A float.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a float",
    label = "a float is needed here; convert with `as`"
)]
pub trait Float: Num + FloatLike {}

/// Floats and vectors of floats: the mathematical functions.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not made of floats",
    label = "f32, f16 or a vector of them is needed here"
)]
pub trait FloatLike: Signed {}

/// Integers and vectors of integers: shifts and `%`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not made of integers",
    label = "an integer or a vector of integers is needed here"
)]
pub trait Bits: Arith + Logic {}

/// Integers, vectors of integers and bool: `& | ^ !`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no bitwise operators",
    label = "integers, vectors of integers and bool have them"
)]
pub trait Logic: Value {}

/// What `==` and `!=` compare: scalars, and vectors, which are equal where all components are.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not compared",
    label = "`==` and `!=` compare numbers, bools and vectors"
)]
pub trait Equal: Value {}
impl<T: Num> Equal for Vec2<T> {}
impl<T: Num> Equal for Vec3<T> {}
impl<T: Num> Equal for Vec4<T> {}

/// A vector of two.
#[derive(Clone, Copy, Debug)]
pub struct Vec2<T>(PhantomData<T>);
/// A vector of three.
#[derive(Clone, Copy, Debug)]
pub struct Vec3<T>(PhantomData<T>);
/// A vector of four.
#[derive(Clone, Copy, Debug)]
pub struct Vec4<T>(PhantomData<T>);

/// A vector and its scalar.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a vector",
    label = "a Vec2, Vec3 or Vec4 is needed here"
)]
pub trait Vector: Value {
    /// The scalar.
    type Elem: Num;
}

macro_rules! scalars {
    ($($t:ty: $dtype:ident, $($marker:ident)*;)*) => { $(
        impl Held for $t { fn held() -> Type { Type::Scalar(DType::$dtype) } }
        impl Value for $t { fn shape() -> Shape { Shape { dtype: DType::$dtype, lanes: 1 } } }
        impl Slot for $t {
            type Kind = ByValue;
            type Fields<R: Rail> = ();
            fn fields<R: Rail>(_: Path) {}
        }
        impl Plain for $t { type Staged = Ex<$t>; }
        impl Scalar for $t { const DTYPE: DType = DType::$dtype; }
        $(impl $marker for $t {})*
    )* };
}
scalars! {
    f32: F32, Arith Num Signed Float FloatLike Equal;
    f16: F16, Arith Num Signed Float FloatLike Equal;
    i32: I32, Arith Num Signed Int Bits Logic Equal;
    i16: I16, Arith Num Signed Int Bits Logic Equal;
    i8: I8, Arith Num Signed Int Bits Logic Equal;
    u32: U32, Arith Num Int Bits Logic Equal;
    u16: U16, Arith Num Int Bits Logic Equal;
    u8: U8, Arith Num Int Bits Logic Equal;
    bool: Bool, Logic Equal;
}

macro_rules! vectors {
    ($($v:ident $n:literal)*) => { $(
        impl<T: Num> Held for $v<T> {
            fn held() -> Type { Type::Vector { elem: T::DTYPE, n: $n } }
        }
        impl<T: Num> Value for $v<T> { fn shape() -> Shape { Shape { dtype: T::DTYPE, lanes: $n } } }
        impl<T: Num> Slot for $v<T> {
            type Kind = ByValue;
            type Fields<R: Rail> = ();
            fn fields<R: Rail>(_: Path) {}
        }
        impl<T: Num> Plain for $v<T> { type Staged = Ex<$v<T>>; }
        impl<T: Num> Vector for $v<T> { type Elem = T; }
        impl<T: Num> Arith for $v<T> {}
        impl<T: Num + Signed> Signed for $v<T> {}
        impl<T: Float> FloatLike for $v<T> {}
        impl<T: Int> Bits for $v<T> {}
        impl<T: Int> Logic for $v<T> {}
    )* };
}
vectors! { Vec2 2 Vec3 3 Vec4 4 }

/// A value that the kernel computes: what a plain `T` in kernel syntax stands for.
pub struct Ex<T> {
    pub(crate) id: ValueId,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for Ex<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Ex<T> {}

impl<T> Ex<T> {
    pub(crate) fn new(id: ValueId) -> Self {
        Ex { id, of: PhantomData }
    }
}

/// What stands in value position: it becomes a value there.
///
/// Values are themselves, variables and buffer elements are loaded, host numbers become constants, references to
/// blocks and buffers stay references.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a kernel value",
    label = "this cannot be read as a value",
    note = "pass a buffer, a block or workgroup memory by reference: `&name`",
    note = "a host value of another type stays on the host: `comptime!(..)`"
)]
pub trait Read {
    /// What reading gives.
    type Out;
    /// Reads it.
    #[track_caller]
    fn read(&self) -> Self::Out;
}

impl<T> Read for Ex<T> {
    type Out = Ex<T>;
    fn read(&self) -> Ex<T> {
        *self
    }
}

impl<T> Read for &Ex<T> {
    type Out = Ex<T>;
    fn read(&self) -> Ex<T> {
        **self
    }
}

impl<'a, X> Read for &&'a X
where
    &'a X: Read,
{
    type Out = <&'a X as Read>::Out;
    #[track_caller]
    fn read(&self) -> Self::Out {
        (**self).read()
    }
}

macro_rules! by_reference {
    ($t:ty) => {
        impl Read for &$t {
            type Out = <$t as Read>::Out;
            #[track_caller]
            fn read(&self) -> Self::Out {
                (**self).read()
            }
        }
    };
}

macro_rules! host_numbers {
    ($($t:ty: $bits:expr;)*) => { $(
        impl Read for $t {
            type Out = Ex<$t>;
            fn read(&self) -> Ex<$t> {
                let bits: fn($t) -> u32 = $bits;
                Ex::new(with(|s| s.b.scalar_const(<$t as Scalar>::DTYPE, bits(*self))))
            }
        }
        by_reference! { $t }
    )* };
}
host_numbers! {
    f32: f32::to_bits;
    f16: |v| u32::from(v.to_bits());
    i32: i32::cast_unsigned;
    i16: |v| i32::from(v).cast_unsigned();
    i8: |v| i32::from(v).cast_unsigned();
    u32: |v| v;
    u16: u32::from;
    u8: u32::from;
}

impl Read for bool {
    type Out = Ex<bool>;
    fn read(&self) -> Ex<bool> {
        Ex::new(with(|s| s.b.constant(Const::Bool(*self))))
    }
}
by_reference! { bool }

/// A `usize` on the host is an index: it becomes a `u32`.
impl Read for usize {
    type Out = Ex<u32>;
    #[track_caller]
    fn read(&self) -> Ex<u32> {
        let at = Location::caller();
        Ex::new(with(|s| {
            let n = u32::try_from(*self).unwrap_or_else(|_| {
                s.b.error("E100", format!("{self} does not fit a u32"), at);
                0
            });
            s.u32_const(n)
        }))
    }
}
by_reference! { usize }

/// An integer literal of whatever type the context asks for.
#[track_caller]
pub fn lit_int<T: Int>(value: i64) -> Ex<T> {
    Ex::new(int_const(T::DTYPE, value, Location::caller()))
}

fn int_const(dtype: DType, value: i64, at: Location) -> ValueId {
    let width = dtype.bytes() * 8;
    let (low, high) = match dtype.is_signed() {
        true => (-(1i64 << (width - 1)), (1i64 << (width - 1)) - 1),
        false => (0, (1i64 << width) - 1),
    };
    with(|s| {
        if value < low || value > high {
            let message = format!("{value} does not fit {dtype}, which holds {low} to {high}");
            s.b.error("E100", message, at);
        }
        let low_word = value & i64::from(u32::MAX);
        s.b.scalar_const(dtype, u32::try_from(low_word).unwrap_or(0))
    })
}

/// A float literal of whatever type the context asks for.
#[track_caller]
pub fn lit_float<T: Float>(value: f64) -> Ex<T> {
    let at = Location::caller();
    Ex::new(with(|s| float_const(s, T::DTYPE, value, at)))
}

fn float_const(s: &mut Stage, dtype: DType, value: f64, at: Location) -> ValueId {
    #[expect(clippy::cast_possible_truncation, reason = "a literal rounds to its type, as in Rust")]
    let narrow = value as f32;
    let (bits, finite) = match dtype {
        DType::F16 => (u32::from(f16::from_f64(value).to_bits()), f16::from_f64(value).is_finite()),
        _ => (narrow.to_bits(), narrow.is_finite()),
    };
    if value.is_finite() && !finite {
        s.b.error("E100", format!("{value} is out of the range of {dtype}"), at);
    }
    s.b.scalar_const(dtype, bits)
}
