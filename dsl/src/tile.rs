//! Tiles: matrices that a subgroup or a workgroup holds together.
//!
//! A [`Tile`] has element, use, scope and named dimensions in its type, so what does not fit together is an error of
//! rustc at the operand. The dimensions' numbers are known while staging: `dims!(BM = t.m)`. All invocations of the
//! scope call these functions together. Which element an invocation holds is the device's; `t[i]` reaches the
//! invocation's own, and [`crate::fragment`] says which they are where that is known.

use std::marker::PhantomData;

use half::{bf16, f16};
use kiln_abi::{
    DType, Location, MatrixElem,
    spirv::{MatrixLayout, MatrixUse, Op, Scope},
};
use kiln_spirv_emit::{
    ir::{Const, MatrixType, Operand, Type, TypeId, ValueId},
    matrix::signed_operands,
};

use crate::{
    block::{Buf, BufMut, Elem, Shared},
    dims::{Dim, dim},
    ops,
    place::{At, ByValue, Local, Path, Place, Rail, Slot},
    session::{Stage, with},
    value::{Elementwise, Ex, Held, Negated, Num, Plain, Vec2, Vec4},
};

/// A matrix of `R` rows and `C` columns of `T`, held by the invocations of scope `S`, used as `U`.
pub struct Tile<T, U, S, R, C>(PhantomData<Typed<T, U, S, R, C>>);

/// Element, use, scope, rows, columns: types alone.
type Typed<T, U, S, R, C> = fn() -> (T, U, S, R, C);

impl<T, U, S, R, C> Clone for Tile<T, U, S, R, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, U, S, R, C> Copy for Tile<T, U, S, R, C> {}

/// What a tile can be made of.
#[diagnostic::on_unimplemented(
    message = "a tile cannot be made of `{Self}`",
    label = "a tile's element is f16, bf16, f32, i8, u8, i32 or u32"
)]
pub trait TileElem: 'static {
    /// The element.
    const ELEM: MatrixElem;
}
macro_rules! elements {
    ($($t:ty: $elem:ident)*) => { $(impl TileElem for $t { const ELEM: MatrixElem = MatrixElem::$elem; })* };
}
elements! { f16: F16 bf16: BF16 f32: F32 i8: I8 u8: U8 i32: I32 u32: U32 }

/// What a tile is to a multiplication.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no use of a tile",
    label = "a use is MatA, MatB or Acc"
)]
pub trait TileUse: 'static {
    /// The use.
    const USE: MatrixUse;
}
/// The left factor, rows × depth.
pub struct MatA;
/// The right factor, depth × columns.
pub struct MatB;
/// The sum, rows × columns.
pub struct Acc;
impl TileUse for MatA {
    const USE: MatrixUse = MatrixUse::MatrixAKHR;
}
impl TileUse for MatB {
    const USE: MatrixUse = MatrixUse::MatrixBKHR;
}
impl TileUse for Acc {
    const USE: MatrixUse = MatrixUse::MatrixAccumulatorKHR;
}

/// Who holds a tile.
#[diagnostic::on_unimplemented(message = "`{Self}` is no scope of a tile", label = "a scope is Sg or Wg")]
pub trait TileScope: 'static {
    /// The scope.
    const SCOPE: Scope;
}
/// Held by a subgroup.
pub struct Sg;
/// Held by the workgroup.
pub struct Wg;
impl TileScope for Sg {
    const SCOPE: Scope = Scope::Subgroup;
}
impl TileScope for Wg {
    const SCOPE: Scope = Scope::Workgroup;
}

/// What a product's factors sum to.
#[diagnostic::on_unimplemented(
    message = "a product of tiles of `{Self}` does not sum to `{Sum}`",
    label = "f16 sums to f16 or f32, bf16 to bf16 or f32, i8 to i32, u8 to u32"
)]
pub trait SumsTo<Sum>: TileElem {}
impl SumsTo<f16> for f16 {}
impl SumsTo<f32> for f16 {}
impl SumsTo<bf16> for bf16 {}
impl SumsTo<f32> for bf16 {}
impl SumsTo<i32> for i8 {}
impl SumsTo<u32> for u8 {}

/// What elements of memory a tile is loaded from and stored to; a stride counts these.
#[diagnostic::on_unimplemented(
    message = "a tile of `{T}` does not lie in elements of `{Self}`",
    label = "a tile lies in its own element, in vectors of it, or in words",
    note = "bf16 lies in u16"
)]
pub trait Carries<T>: Elem {}
macro_rules! carries {
    ($($t:ty: $($in_memory:ty)*;)*) => {
        $($(impl Carries<$t> for $in_memory {})*)*
    };
}
carries! {
    f16: f16 Vec2<f16> Vec4<f16> u32 Vec2<u32> Vec4<u32>;
    bf16: u16 Vec2<u16> Vec4<u16> u32 Vec2<u32> Vec4<u32>;
    f32: f32 Vec2<f32> Vec4<f32> u32 Vec2<u32> Vec4<u32>;
    i8: i8 Vec2<i8> Vec4<i8> u32 Vec2<u32> Vec4<u32>;
    u8: u8 Vec2<u8> Vec4<u8> u32 Vec2<u32> Vec4<u32>;
    i32: i32 Vec2<i32> Vec4<i32> u32 Vec2<u32> Vec4<u32>;
    u32: u32 Vec2<u32> Vec4<u32>;
}

/// Memory that tiles are loaded from.
#[diagnostic::on_unimplemented(
    message = "a tile is not loaded from `{Self}`",
    label = "a tile lies in a buffer or in workgroup memory"
)]
pub trait TileMemory {
    /// Its element.
    type Elem: Elem;
    /// The element's place.
    fn element(&self, at: Ex<u32>) -> Path;
}

/// Memory that tiles are stored to.
#[diagnostic::on_unimplemented(
    message = "a tile is not stored to `{Self}`",
    label = "a tile is stored to `&BufMut<T>` and to workgroup memory"
)]
pub trait TileTarget: TileMemory {}

macro_rules! memories {
    ($($memory:ident)*) => { $(
        impl<E: Elem> TileMemory for $memory<E> {
            type Elem = E;
            fn element(&self, at: Ex<u32>) -> Path { self.path(at) }
        }
    )* };
}
memories! { Buf BufMut Shared }
impl<E: Elem> TileTarget for BufMut<E> {}
impl<E: Elem> TileTarget for Shared<E> {}

impl<T: TileElem, U: TileUse, S: TileScope, R: Dim, C: Dim> Tile<T, U, S, R, C> {
    fn matrix() -> MatrixType {
        MatrixType { elem: T::ELEM, scope: S::SCOPE, rows: dim::<R>(), cols: dim::<C>(), of: U::USE }
    }

    /// All elements zero.
    #[track_caller]
    pub fn zero() -> Ex<Self> {
        let held = Self::held();
        Ex::new(with(|s| {
            let ty = s.b.ty(held);
            s.b.constant(Const::Null(ty))
        }))
    }

    /// All elements `value`.
    #[track_caller]
    pub fn fill(value: Ex<T>) -> Ex<Self>
    where
        T: Num,
    {
        let at = Location::caller();
        staged(Self::held(), |s, ty| s.op(Op::CompositeConstruct, ty, &[value.id], at))
    }

    /// Rows one after another from element `at` of `memory`, each `stride` elements behind the one before.
    #[track_caller]
    pub fn load<M: TileMemory>(memory: &M, at: Ex<u32>, stride: Ex<u32>) -> Ex<Self>
    where
        M::Elem: Carries<T>,
    {
        Self::load_as(MatrixLayout::RowMajorKHR, memory.element(at), stride, Location::caller())
    }

    /// Columns one after another from element `at` of `memory`, each `stride` elements behind the one before.
    #[track_caller]
    pub fn load_columns<M: TileMemory>(memory: &M, at: Ex<u32>, stride: Ex<u32>) -> Ex<Self>
    where
        M::Elem: Carries<T>,
    {
        Self::load_as(MatrixLayout::ColumnMajorKHR, memory.element(at), stride, Location::caller())
    }

    fn load_as(layout: MatrixLayout, from: Path, stride: Ex<u32>, at: Location) -> Ex<Self> {
        staged(Self::held(), |s, ty| {
            let (pointer, stride) = from.lines(s, stride.id, at);
            let layout = s.u32_const(layout.number());
            s.op(Op::CooperativeMatrixLoadKHR, ty, &[pointer, layout, stride], at)
        })
    }

    /// How many of the elements an invocation holds.
    #[track_caller]
    pub fn length() -> Ex<u32> {
        let (held, at) = (Self::held(), Location::caller());
        Ex::new(with(|s| {
            let (matrix, u32_) = (s.b.ty(held), s.b.scalar(DType::U32));
            s.b.inst(Op::CooperativeMatrixLengthKHR, u32_, vec![Operand::Type(matrix)], at)
        }))
    }
}

fn staged<T>(held: Type, f: impl FnOnce(&mut Stage, TypeId) -> ValueId) -> Ex<T> {
    Ex::new(with(|s| {
        let ty = s.b.ty(held);
        f(s, ty)
    }))
}

/// Stores rows one after another from element `at` of `memory`, each `stride` elements behind the one before.
#[track_caller]
pub fn store<T, U, S, R, C, M>(tile: Ex<Tile<T, U, S, R, C>>, memory: &M, at: Ex<u32>, stride: Ex<u32>)
where
    M: TileTarget,
    M::Elem: Carries<T>,
{
    store_as(MatrixLayout::RowMajorKHR, tile.id, memory.element(at), stride, Location::caller());
}

/// Stores columns one after another from element `at` of `memory`, each `stride` elements behind the one before.
#[track_caller]
pub fn store_columns<T, U, S, R, C, M>(
    tile: Ex<Tile<T, U, S, R, C>>,
    memory: &M,
    at: Ex<u32>,
    stride: Ex<u32>,
) where
    M: TileTarget,
    M::Elem: Carries<T>,
{
    store_as(MatrixLayout::ColumnMajorKHR, tile.id, memory.element(at), stride, Location::caller());
}

fn store_as(layout: MatrixLayout, tile: ValueId, to: Path, stride: Ex<u32>, at: Location) {
    with(|s| {
        let (pointer, stride) = to.lines(s, stride.id, at);
        let layout = s.u32_const(layout.number());
        let operands = [pointer, tile, layout, stride].map(Operand::Value);
        s.b.effect(Op::CooperativeMatrixStoreKHR, operands.into(), at);
    });
}

/// `a · b + c`.
#[track_caller]
pub fn mul_add<T, Sum, S, M, N, K>(
    a: Ex<Tile<T, MatA, S, M, K>>,
    b: Ex<Tile<T, MatB, S, K, N>>,
    c: Ex<Tile<Sum, Acc, S, M, N>>,
) -> Ex<Tile<Sum, Acc, S, M, N>>
where
    T: SumsTo<Sum>,
{
    let at = Location::caller();
    Ex::new(with(|s| {
        let ty = s.b.type_of(c.id);
        let mut operands = [a.id, b.id, c.id].map(Operand::Value).to_vec();
        let types = [a.id, b.id, c.id].map(|v| matrix_of(s, v));
        if let [Some(a), Some(b), Some(c)] = types {
            operands.extend(signed_operands(&a, &b, &c).map(Operand::Lit));
        }
        s.b.inst(Op::CooperativeMatrixMulAddKHR, ty, operands, at)
    }))
}

fn matrix_of(s: &Stage, value: ValueId) -> Option<MatrixType> {
    match *s.b.type_of_id(s.b.type_of(value)) {
        Type::Matrix(m) => Some(m),
        _ => None,
    }
}

/// Every element times `by`.
#[track_caller]
pub fn scale<T: Num, U, S, R, C>(tile: Ex<Tile<T, U, S, R, C>>, by: Ex<T>) -> Ex<Tile<T, U, S, R, C>> {
    let at = Location::caller();
    Ex::new(with(|s| {
        let ty = s.b.type_of(tile.id);
        s.op(Op::MatrixTimesScalar, ty, &[tile.id, by.id], at)
    }))
}

/// Every element as another type, as `as` converts numbers.
#[track_caller]
pub fn convert<To: TileElem, T: TileElem, U: TileUse, S: TileScope, R: Dim, C: Dim>(
    tile: Ex<Tile<T, U, S, R, C>>,
) -> Ex<Tile<To, U, S, R, C>> {
    let at = Location::caller();
    staged(Tile::<To, U, S, R, C>::held(), |s, ty| match (T::ELEM.dtype(), To::ELEM.dtype()) {
        (Some(from), Some(to)) => ops::convert_as(s, tile.id, from, (to, ty), at),
        (from, to) if from == to => tile.id,
        // bfloat16, which only f32 converts with.
        _ => s.op(Op::FConvert, ty, &[tile.id], at),
    })
}

/// The same tile under other names of its dimensions; their numbers have to agree.
#[track_caller]
pub fn renamed<T, U, S, R, C, R2: Dim, C2: Dim>(tile: Ex<Tile<T, U, S, R, C>>) -> Ex<Tile<T, U, S, R2, C2>>
where
    R: Dim,
    C: Dim,
{
    same_number::<R, R2>("rows", Location::caller());
    same_number::<C, C2>("columns", Location::caller());
    Ex::new(tile.id)
}

/// Two dimensions that have to have one number.
#[track_caller]
fn same_number<D: Dim, D2: Dim>(what: &str, at: Location) {
    let (is, wanted) = (dim::<D>(), dim::<D2>());
    if is != wanted {
        let (d, d2) = (crate::private::short_name::<D>(), crate::private::short_name::<D2>());
        let message = format!("the tile has {is} {what} ({d}); {wanted} ({d2}) are wanted");
        with(|s| s.b.error("E130", message, at));
    }
}

impl<T: TileElem, U: TileUse, S: TileScope, R: Dim, C: Dim> Held for Tile<T, U, S, R, C> {
    fn held() -> Type {
        Type::Matrix(Self::matrix())
    }
}

impl<T, U, S, R, C> Plain for Tile<T, U, S, R, C> {
    type Staged = Ex<Self>;
}

impl<T: TileElem, U: TileUse, S: TileScope, R: Dim, C: Dim> Slot for Tile<T, U, S, R, C> {
    type Kind = ByValue;
    type Fields<Q: Rail> = ();
    fn fields<Q: Rail>(_: Path) {}
}

impl<T: TileElem + Num, U: TileUse, S: TileScope, R: Dim, C: Dim> Elementwise for Tile<T, U, S, R, C> {}

impl<T: TileElem + Num, U: TileUse, S: TileScope, R: Dim, C: Dim> Negated for Tile<T, U, S, R, C> where
    T: crate::value::Signed
{
}

/// The invocation's own elements, `0..Tile::length()`.
impl<T: TileElem + Num, U: TileUse, S: TileScope, R: Dim, C: Dim> At for Place<Tile<T, U, S, R, C>, Local> {
    type Out = Place<T, Local>;
    #[track_caller]
    fn at(&self, index: Ex<u32>) -> Place<T, Local> {
        Place::new(self.path().step(index.id))
    }
}
