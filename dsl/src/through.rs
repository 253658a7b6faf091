//! Tensor layouts and views, and tiles loaded and stored through them, blocks decoded on the way.
//!
//! A [`Layout`] says how a tensor of one to five dimensions lies in a buffer, slowest dimension first, and which slice
//! of it is meant; what is outside is as its clamp mode says. A [`View`] gives the dimensions in another order.
//! [`Rows`] are those of a tensor in a format's planes, whose elements a load decodes.

use std::{any::TypeId as RustType, marker::PhantomData};

use kiln_abi::{
    DType, Location,
    spirv::{ClampMode, Op, StorageClass, TensorOperands},
};
use kiln_spirv_emit::ir::{Const, Member, Operand, Type, TypeId, ValueId};

use crate::{
    block::{Buf, BufMut, Elem},
    dims::Dim,
    ops,
    place::Path,
    session::{Stage, with},
    tensor::{Tensor, TensorFormat},
    tile::{Carries, Tile, TileElem, TileScope, TileUse},
    value::{Ex, Held, Num, Read, Value, Vec4},
};

/// One number for each dimension, or two: a tuple of `u32`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no tuple of u32",
    label = "one number for each dimension: `(rows, columns)`"
)]
pub trait Numbers {
    /// The values in order.
    fn numbers(self) -> Vec<ValueId>;
}

macro_rules! numbers {
    ($($($name:ident)*;)*) => { $(
        impl Numbers for ($(numbers!(@ex $name),)*) {
            fn numbers(self) -> Vec<ValueId> {
                #[allow(non_snake_case, reason = "a type's name is its value's")]
                let ($($name,)*) = self;
                vec![$($name.id),*]
            }
        }
    )* };
    (@ex $name:ident) => { Ex<u32> };
}
numbers! {
    A; A B; A B C; A B C D; A B C D E; A B C D E F; A B C D E F G H; A B C D E F G H I J;
}

macro_rules! changed {
    ($self:ident, $op:ident, $numbers:expr, $at:expr) => {{
        let mut operands = vec![$self.id];
        operands.extend($numbers.numbers());
        let id = with(|s| {
            let ty = s.b.type_of($self.id);
            s.op(Op::$op, ty, &operands, $at)
        });
        Self { id }
    }};
}

/// How a tensor lies in a buffer, in elements.
#[derive(Clone, Copy)]
pub struct Layout {
    id: ValueId,
}

/// A tensor of these dimensions, its elements one after another.
#[track_caller]
pub fn layout<N: Numbers>(dimensions: N, clamp: ClampMode) -> Layout {
    layout_of(dimensions.numbers(), None, clamp, Location::caller())
}

/// A block's elements come before the dimensions: strides follow from both.
fn layout_of(
    dimensions: Vec<ValueId>,
    block: Option<Vec<ValueId>>,
    clamp: ClampMode,
    at: Location,
) -> Layout {
    let rank = u32::try_from(dimensions.len()).unwrap_or(u32::MAX);
    let id = with(|s| {
        let ty = s.b.ty(Type::TensorLayout { rank, clamp });
        let mut changed = |op, from: Option<ValueId>, numbers: Vec<ValueId>| {
            let operands: Vec<ValueId> = from.into_iter().chain(numbers).collect();
            s.op(op, ty, &operands, at)
        };
        let made = match block {
            Some(block) => {
                let made = changed(Op::CreateTensorLayoutNV, None, Vec::new());
                changed(Op::TensorLayoutSetBlockSizeNV, Some(made), block)
            }
            None => changed(Op::CreateTensorLayoutNV, None, Vec::new()),
        };
        changed(Op::TensorLayoutSetDimensionNV, Some(made), dimensions)
    });
    Layout { id }
}

impl Layout {
    /// Elements from one to the next along each dimension.
    #[track_caller]
    pub fn strides<N: Numbers>(self, strides: N) -> Layout {
        changed!(self, TensorLayoutSetStrideNV, strides, Location::caller())
    }

    /// First element and number of elements along each dimension.
    #[track_caller]
    pub fn slice<N: Numbers>(self, spans: N) -> Layout {
        changed!(self, TensorLayoutSliceNV, spans, Location::caller())
    }

    /// What is outside, as the element's bits; the clamp mode is `Constant`.
    #[track_caller]
    pub fn outside(self, bits: Ex<u32>) -> Layout {
        changed!(self, TensorLayoutSetClampValueNV, (bits,), Location::caller())
    }
}

impl Read for Layout {
    type Out = Layout;
    fn read(&self) -> Layout {
        *self
    }
}

/// A layout's dimensions in another order.
#[derive(Clone, Copy)]
pub struct View {
    id: ValueId,
}

/// A view whose dimensions are those of the layout in the order of `permutation`.
#[track_caller]
pub fn view(permutation: &[u32]) -> View {
    view_of(permutation, false, Location::caller())
}

/// As [`view`], with dimensions of its own.
#[track_caller]
pub fn view_sized<N: Numbers>(permutation: &[u32], dimensions: N) -> View {
    let at = Location::caller();
    let view = view_of(permutation, true, at);
    let operands: Vec<ValueId> = std::iter::once(view.id).chain(dimensions.numbers()).collect();
    View {
        id: with(|s| {
            let ty = s.b.type_of(view.id);
            s.op(Op::TensorViewSetDimensionNV, ty, &operands, at)
        }),
    }
}

fn view_of(permutation: &[u32], has_dimensions: bool, at: Location) -> View {
    View {
        id: with(|s| {
            let ty = s.b.ty(Type::TensorView { permutation: permutation.to_vec(), has_dimensions });
            s.op(Op::CreateTensorViewNV, ty, &[], at)
        }),
    }
}

impl View {
    /// Elements from one to the next along each dimension.
    #[track_caller]
    pub fn strides<N: Numbers>(self, strides: N) -> View {
        changed!(self, TensorViewSetStrideNV, strides, Location::caller())
    }

    /// First row, rows, first column and columns that are meant; the rest is left alone.
    #[track_caller]
    pub fn clip<N: Numbers>(self, spans: N) -> View {
        changed!(self, TensorViewSetClipNV, spans, Location::caller())
    }
}

impl Read for View {
    type Out = View;
    fn read(&self) -> View {
        *self
    }
}

/// The rows of a tensor of format `F`, or a slice of them.
pub struct Rows<F> {
    layout: Layout,
    /// Elements of a whole row.
    columns: Ex<u32>,
    format: PhantomData<fn() -> F>,
}

impl<F> Clone for Rows<F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Rows<F> {}

/// `n_rows` rows of `columns` elements, which are whole units.
#[track_caller]
pub fn rows<F: TensorFormat>(n_rows: Ex<u32>, columns: Ex<u32>, clamp: ClampMode) -> Rows<F> {
    let unit = with(|s| vec![s.u32_const(1), s.u32_const(F::UNIT)]);
    let layout = layout_of(vec![n_rows.id, columns.id], Some(unit), clamp, Location::caller());
    Rows { layout, columns, format: PhantomData }
}

impl<F> Rows<F> {
    /// First row, rows, first column, columns.
    #[track_caller]
    pub fn slice<N: Numbers>(self, spans: N) -> Self {
        Rows { layout: self.layout.slice(spans), ..self }
    }
}

impl<F> Read for Rows<F> {
    type Out = Rows<F>;
    fn read(&self) -> Rows<F> {
        *self
    }
}

/// A buffer that tensors lie in.
#[diagnostic::on_unimplemented(message = "`{Self}` holds no tensor", label = "a tensor lies in a buffer")]
pub trait TensorMemory {
    /// Its element.
    type Elem: Elem;
    /// The place of its array.
    fn array(&self) -> Path;
}

macro_rules! memories {
    ($($memory:ident)*) => { $(
        impl<E: Elem> TensorMemory for $memory<E> {
            type Elem = E;
            fn array(&self) -> Path { self.whole() }
        }
    )* };
}
memories! { Buf BufMut }

impl<T: TileElem, U: TileUse, S: TileScope, R: Dim, C: Dim> Tile<T, U, S, R, C> {
    /// The layout's slice.
    #[track_caller]
    pub fn load_tensor<M: TensorMemory>(memory: &M, layout: Layout) -> Ex<Self>
    where
        M::Elem: Carries<T> + Num,
    {
        Self::load_through(memory.array(), layout, (0, Vec::new()), Location::caller())
    }

    /// The layout's slice, seen through a view.
    #[track_caller]
    pub fn load_view<M: TensorMemory>(memory: &M, layout: Layout, view: View) -> Ex<Self>
    where
        M::Elem: Carries<T> + Num,
    {
        let more = (TensorOperands::VIEW, vec![Operand::Value(view.id)]);
        Self::load_through(memory.array(), layout, more, Location::caller())
    }

    /// The slice of a tensor's rows, decoded to f32 and rounded to `T`.
    ///
    /// With `four`, there is also a function that decodes four neighbors at once, for devices that call it.
    #[track_caller]
    pub fn load_decoded<F: TensorFormat>(tensor: &Tensor, rows: Rows<F>, four: bool) -> Ex<Self>
    where
        T: Num,
    {
        let at = Location::caller();
        let mut more = (TensorOperands::DECODE, vec![Operand::Callee(decoder::<F, T>(1, tensor, rows, at))]);
        if four {
            more.0 |= TensorOperands::DECODE_VECTOR;
            more.1.push(Operand::Callee(decoder::<F, T>(4, tensor, rows, at)));
        }
        Self::load_through(tensor.words().whole(), rows.layout, more, at)
    }

    fn load_through(from: Path, layout: Layout, (mask, more): (u32, Vec<Operand>), at: Location) -> Ex<Self> {
        let held = Self::held();
        Ex::new(with(|s| {
            let ty = s.b.ty(held);
            let array = from.pointer(s, at);
            let none = s.b.constant(Const::Null(ty));
            let mut operands = [array, none, layout.id].map(Operand::Value).to_vec();
            operands.push(Operand::Lit(mask));
            operands.extend(more);
            s.b.inst(Op::CooperativeMatrixLoadTensorNV, ty, operands, at)
        }))
    }
}

/// Stores a tile to the layout's slice.
#[track_caller]
pub fn store_tensor<T: TileElem, U, S, R, C, E>(
    tile: Ex<Tile<T, U, S, R, C>>,
    memory: &BufMut<E>,
    layout: Layout,
) where
    E: Elem + Carries<T> + Num,
{
    store_through(tile.id, memory.whole(), layout, None, Location::caller());
}

/// Stores a tile to the layout's slice, seen through a view.
#[track_caller]
pub fn store_view<T: TileElem, U, S, R, C, E>(
    tile: Ex<Tile<T, U, S, R, C>>,
    memory: &BufMut<E>,
    layout: Layout,
    view: View,
) where
    E: Elem + Carries<T> + Num,
{
    store_through(tile.id, memory.whole(), layout, Some(view), Location::caller());
}

fn store_through(tile: ValueId, to: Path, layout: Layout, view: Option<View>, at: Location) {
    with(|s| {
        let array = to.pointer(s, at);
        let mut operands = [array, tile, layout.id].map(Operand::Value).to_vec();
        operands.push(Operand::Lit(if view.is_some() { TensorOperands::VIEW } else { 0 }));
        operands.extend(view.map(|v| Operand::Value(v.id)));
        s.b.effect(Op::CooperativeMatrixStoreTensorNV, operands, at);
    });
}

/// The function that decodes `lanes` elements of a tensor to `T`, made once.
///
/// It is handed the address of a field of the first plane, and finds the unit's other fields by the unit's number.
fn decoder<F: TensorFormat, T: Num>(lanes: u8, tensor: &Tensor, rows: Rows<F>, at: Location) -> usize {
    let identity: Vec<ValueId> = std::iter::once(rows.columns.id).chain(tensor.identity()).collect();
    let key = (RustType::of::<(F, T)>(), lanes, identity);
    if let Some(known) = with(|s| s.decoder(&key)) {
        return known;
    }
    let field = F::PLANES.first().map_or(0, |plane| plane.bytes * u32::from(plane.units == 1));
    let params = with(|s| {
        if field < 4 {
            let message = "the first plane of a format has a field of words for each unit".to_owned();
            s.b.error("E131", message, at);
        }
        let params = parameters(s, field.max(4) / 4, at);
        s.b.open_callee(&params, at)
    });
    let number = |array: usize, i| {
        with(|s| {
            let ty = s.b.scalar(DType::U32);
            let operands = vec![Operand::Value(params[array]), Operand::Lit(i)];
            Ex::<u32>::new(s.b.inst(Op::CompositeExtract, ty, operands, at))
        })
    };
    let unit_elems = Ex::new(with(|s| s.u32_const(F::UNIT)));
    let row_start = ops::mul(number(1, 0), ops::div(rows.columns, unit_elems));
    let index = ops::add(row_start, number(1, 1));
    let unit = tensor.unit_at(index, Path::new(params[0]).member(0));
    let within = number(2, 1);
    let value = match lanes {
        1 => ops::cast::<T, f32>(F::decode(&unit, within)).id,
        _ => ops::cast::<Vec4<T>, Vec4<f32>>(F::decode4(&unit, within)).id,
    };
    with(|s| {
        let callee = s.b.close_callee(value, at);
        s.keep_decoder(key, callee);
        callee
    })
}

/// A decoding function's parameters: the address of a unit's words, the unit's coordinates, those of the element
/// within it.
fn parameters(s: &mut Stage, words: u32, at: Location) -> [TypeId; 3] {
    let u32_ = s.b.scalar(DType::U32);
    let field = s.b.buffer_array(u32_, words, at);
    let members = vec![Member { name: "field".to_owned(), ty: field, offset: Some(0) }];
    let reference = s.b.ty(Type::Struct { name: "FieldAddress".to_owned(), members, block: true });
    let pointer = s.b.ty(Type::Pointer { class: StorageClass::PhysicalStorageBuffer, pointee: reference });
    let coordinates = s.b.ty(Type::Array { elem: u32_, len: 2, stride: None });
    [pointer, coordinates, coordinates]
}

/// What becomes of each element of a tile.
///
/// It is called for every element by itself: it sees buffers, push constants, builtins and what is handed in.
pub trait PerElement<T, X> {
    /// The new element at `row` and `column`.
    fn element(row: Ex<u32>, column: Ex<u32>, value: Ex<T>, extra: X) -> Ex<T>;
}

/// What is handed to each call: numbers, and tiles of the same shape, which arrive as their element.
pub trait Extras: Sized {
    /// What a call gets.
    type Inner;
    /// The operands.
    fn operands(&self) -> Vec<ValueId>;
    /// The types that a call gets.
    fn types() -> Vec<Type>;
    /// What a call gets, from its parameters.
    fn inner(params: &[ValueId]) -> Self::Inner;
}

/// One thing that is handed in.
pub trait Extra: Copy {
    /// What a call gets.
    type Inner: Value;
    /// The operand.
    fn operand(&self) -> ValueId;
}

impl<V: Value> Extra for Ex<V> {
    type Inner = V;
    fn operand(&self) -> ValueId {
        self.id
    }
}

/// A tile that is handed in element by element.
#[derive(Clone, Copy)]
pub struct Each<T: Copy>(Ex<T>);

/// Hands a tile in element by element.
pub fn each<T: TileElem + Num, U: TileUse, S: TileScope, R: Dim, C: Dim>(
    tile: Ex<Tile<T, U, S, R, C>>,
) -> Each<T> {
    Each(Ex::new(tile.id))
}

impl<T: Value> Extra for Each<T> {
    type Inner = T;
    fn operand(&self) -> ValueId {
        self.0.id
    }
}

impl<T: Copy> Read for Each<T> {
    type Out = Each<T>;
    fn read(&self) -> Each<T> {
        *self
    }
}

macro_rules! extras {
    ($($($name:ident $at:tt)*;)*) => { $(
        impl<$($name: Extra),*> Extras for ($($name,)*) {
            type Inner = ($(Ex<$name::Inner>,)*);
            fn operands(&self) -> Vec<ValueId> { vec![$(self.$at.operand()),*] }
            fn types() -> Vec<Type> { vec![$($name::Inner::held()),*] }
            #[allow(unused_variables, clippy::unused_unit, reason = "no extras, no parameters")]
            fn inner(params: &[ValueId]) -> Self::Inner { ($(Ex::new(params[$at]),)*) }
        }
    )* };
}
extras! { ; A 0; A 0 B 1; A 0 B 1 C 2; A 0 B 1 C 2 D 3; A 0 B 1 C 2 D 3 E 4; A 0 B 1 C 2 D 3 E 4 F 5; }

/// Every element changed by `F`.
#[track_caller]
pub fn map<F, T, U, S, R, C, X>(tile: Ex<Tile<T, U, S, R, C>>, extra: X) -> Ex<Tile<T, U, S, R, C>>
where
    T: TileElem + Num,
    X: Extras,
    F: PerElement<T, X::Inner>,
{
    let at = Location::caller();
    let params = with(|s| {
        let own = [u32::held(), u32::held(), T::held()].into_iter().chain(X::types());
        let types: Vec<TypeId> = own.map(|ty| s.b.ty(ty)).collect();
        s.b.open_callee(&types, at)
    });
    let (row, column, value) = (Ex::new(params[0]), Ex::new(params[1]), Ex::new(params[2]));
    let new = F::element(row, column, value, X::inner(&params[3..]));
    Ex::new(with(|s| {
        let callee = s.b.close_callee(new.id, at);
        let ty = s.b.type_of(tile.id);
        let mut operands = vec![Operand::Value(tile.id), Operand::Callee(callee)];
        operands.extend(extra.operands().into_iter().map(Operand::Value));
        s.b.inst(Op::CooperativeMatrixPerElementOpNV, ty, operands, at)
    }))
}

/// How two elements become one; in whatever order the device takes them.
pub trait Combine<T> {
    /// One of two.
    fn combine(a: Ex<T>, b: Ex<T>) -> Ex<T>;
}

/// The sum.
pub struct Sum;
impl<T: Num> Combine<T> for Sum {
    fn combine(a: Ex<T>, b: Ex<T>) -> Ex<T> {
        ops::add(a, b)
    }
}

/// The larger.
pub struct Largest;
impl<T: Num> Combine<T> for Largest {
    fn combine(a: Ex<T>, b: Ex<T>) -> Ex<T> {
        crate::math::max(a, b)
    }
}

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident [$($mask:ident)|*] <$($dim:ident),*> $rows:ident $cols:ident;)*) => { $(
        $(#[$doc])*
        #[track_caller]
        pub fn $name<F, T, S, R, C $(, $dim)*>(
            tile: Ex<Tile<T, crate::tile::Acc, S, R, C>>,
        ) -> Ex<Tile<T, crate::tile::Acc, S, $rows, $cols>>
        where
            T: TileElem + Num,
            S: TileScope,
            R: Dim,
            C: Dim,
            F: Combine<T>,
            $($dim: Dim,)*
        {
            let mask = $(kiln_abi::spirv::MatrixReduce::$mask)|*;
            let held = Tile::<T, crate::tile::Acc, S, $rows, $cols>::held();
            Ex::new(reduced::<F, T>(tile.id, mask, held, Location::caller()))
        }
    )* };
}
reductions! {
    /// Each row as one value, in each of `C2` columns.
    reduce_rows [ROW] <C2> R C2;
    /// Each column as one value, in each of `R2` rows.
    reduce_columns [COLUMN] <R2> R2 C;
    /// All elements as one value, everywhere in a tile of `R2` and `C2`.
    reduce_all [ROW | COLUMN] <R2, C2> R2 C2;
    /// Each square of two by two as one value, in a tile of half the rows and columns.
    reduce_squares [SQUARE] <R2, C2> R2 C2;
}

fn reduced<F: Combine<T>, T: Num>(tile: ValueId, mask: u32, held: Type, at: Location) -> ValueId {
    let params = with(|s| {
        let ty = s.b.ty(T::held());
        s.b.open_callee(&[ty, ty], at)
    });
    let one = F::combine(Ex::new(params[0]), Ex::new(params[1]));
    with(|s| {
        let callee = s.b.close_callee(one.id, at);
        let ty = s.b.ty(held);
        let operands = vec![Operand::Value(tile), Operand::Lit(mask), Operand::Callee(callee)];
        s.b.inst(Op::CooperativeMatrixReduceNV, ty, operands, at)
    })
}

/// A sum as a factor, its elements converted.
#[track_caller]
pub fn as_factor<To: TileElem, U: TileUse, T: TileElem, S: TileScope, R: Dim, C: Dim>(
    tile: Ex<Tile<T, crate::tile::Acc, S, R, C>>,
) -> Ex<Tile<To, U, S, R, C>> {
    // One instruction changes elements, another the use.
    let converted = crate::tile::convert::<To, T, crate::tile::Acc, S, R, C>(tile);
    let held = Tile::<To, U, S, R, C>::held();
    whole(Op::CooperativeMatrixConvertNV, converted.id, held, Location::caller())
}

/// A sum transposed, as a right factor.
#[track_caller]
pub fn transposed<T: TileElem, S: TileScope, R: Dim, C: Dim>(
    tile: Ex<Tile<T, crate::tile::Acc, S, R, C>>,
) -> Ex<Tile<T, crate::tile::MatB, S, C, R>> {
    let held = Tile::<T, crate::tile::MatB, S, C, R>::held();
    whole(Op::CooperativeMatrixTransposeNV, tile.id, held, Location::caller())
}

fn whole<T>(op: Op, tile: ValueId, held: Type, at: Location) -> Ex<T> {
    Ex::new(with(|s| {
        let ty = s.b.ty(held);
        s.op(op, ty, &[tile], at)
    }))
}
