//! Places: what can be read, written and indexed. A place holds a path; nothing is loaded until it is read.

use std::{marker::PhantomData, ops::Deref};

use kiln_abi::{DType, Location, spirv::Op};
use kiln_spirv_emit::ir::{Const, Type, ValueId};

use crate::{
    overlay::View,
    session::{Stage, with},
    value::{Ex, Held, Num, Read, Scalar, Vec2, Vec3, Vec4, Vector},
};

/// Where a place lies.
pub trait Rail: 'static {}
/// A place that stores may reach.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be written",
    label = "nothing can be stored here",
    note = "a kernel stores to `&BufMut<T>`, to workgroup memory and to `let mut` variables"
)]
pub trait Writable {}

/// A buffer that the kernel only reads.
pub struct ReadOnly;
/// A buffer that the kernel may write.
pub struct ReadWrite;
/// Workgroup memory.
pub struct Workgroup;
/// A variable of the invocation.
pub struct Local;

impl Rail for ReadOnly {}
impl Rail for ReadWrite {}
impl Rail for Workgroup {}
impl Rail for Local {}
impl Writable for ReadWrite {}
impl Writable for Workgroup {}
impl Writable for Local {}

/// Buffer, element, member, array element, component.
const MAX_STEPS: usize = 5;

/// A pointer and the steps below it that are not taken yet.
#[derive(Clone, Copy)]
pub struct Path {
    base: ValueId,
    steps: [ValueId; MAX_STEPS],
    n: usize,
    /// Where memory is seen as other elements than it was made of: the steps are an element of the view and maybe a
    /// component of it.
    view: Option<View>,
}

impl Path {
    pub(crate) fn new(base: ValueId) -> Self {
        Path { base, steps: [base; MAX_STEPS], n: 0, view: None }
    }

    pub(crate) fn step(mut self, index: ValueId) -> Self {
        if let Some(step) = self.steps.get_mut(self.n) {
            *step = index;
            self.n += 1;
        }
        self
    }

    pub(crate) fn seen(self, view: Option<View>) -> Self {
        Path { view, ..self }
    }

    /// The member `index` of a struct.
    pub fn member(self, index: u32) -> Self {
        self.step(with(|s| s.u32_const(index)))
    }

    pub(crate) fn pointer(&self, s: &mut Stage, at: Location) -> ValueId {
        match (self.view, self.n) {
            (Some(view), 1) if view.elements() == Some(1) => view.pointer(s, self.base, self.steps[0], at),
            (Some(view), _) => {
                let held = view.held().name();
                let message = format!(
                    "an atomic works on an element that memory was made of; this memory was made of {held}, and is seen \
                     as elements of another size"
                );
                s.b.error("E116", message, at);
                self.base
            }
            (None, 0) => self.base,
            (None, n) => s.b.access_chain(self.base, &self.steps[..n], at),
        }
    }

    /// The pointer that a tile's lines begin at, and how many of its pointee they are apart.
    pub(crate) fn lines(&self, s: &mut Stage, stride: ValueId, at: Location) -> (ValueId, ValueId) {
        let Some(view) = self.view else { return (self.pointer(s, at), stride) };
        let Some(n) = view.elements() else {
            let held = view.held().name();
            let message = format!(
                "a tile does not lie in parts of elements; this memory was made of {held}; make it of words"
            );
            s.b.error("E117", message, at);
            return (self.base, stride);
        };
        (view.pointer(s, self.base, self.steps[0], at), view.in_elements(s, stride, n, at))
    }

    /// Takes all steps now, so that later uses share one pointer; those of a view are taken piece by piece.
    pub(crate) fn pin(&self, at: Location) -> Self {
        if self.view.is_some() {
            return *self;
        }
        Path::new(with(|s| self.pointer(s, at)))
    }

    pub(crate) fn load(&self, at: Location) -> ValueId {
        with(|s| {
            let Some(view) = self.view else {
                let pointer = self.pointer(s, at);
                return s.b.load(pointer, at);
            };
            let [index, component, ..] = self.steps;
            if self.n == 1 {
                return view.load(s, self.base, index, at);
            }
            match view.component(s, index, component, at) {
                Some((view, index)) => view.load(s, self.base, index, at),
                None => {
                    let vector = view.load(s, self.base, index, at);
                    component_of(s, vector, component, view.seen().dtype, at)
                }
            }
        })
    }

    pub(crate) fn store(&self, value: ValueId, at: Location) {
        with(|s| {
            let Some(view) = self.view else {
                let pointer = self.pointer(s, at);
                return s.b.store(pointer, value, at);
            };
            let [index, component, ..] = self.steps;
            if self.n == 1 {
                return view.store(s, self.base, index, value, at);
            }
            match view.component(s, index, component, at) {
                Some((view, index)) => view.store(s, self.base, index, value, at),
                None => {
                    let (held, seen) = (view.held().name(), view.seen().name());
                    let message = format!(
                        "a component of {seen} is narrower than the {held} that this memory was made of; store the \
                         vector whole"
                    );
                    s.b.error("E118", message, at);
                }
            }
        });
    }
}

/// What a place can hold.
pub trait Slot: Sized + 'static {
    /// [`ByValue`] or [`ByReference`].
    type Kind;
    /// What field access on a place finds.
    type Fields<R: Rail>;
    /// The fields of a place.
    fn fields<R: Rail>(path: Path) -> Self::Fields<R>;
}

/// The kind of what is read as a whole: values.
pub struct ByValue;
/// The kind of what is read field by field: blocks.
pub struct ByReference;

/// A place that holds a `T`. Of a block it is a reference: `b.d` is the place of its field `d`.
pub struct Place<T: Slot, R: Rail> {
    path: Path,
    fields: T::Fields<R>,
}

impl<T: Slot, R: Rail> Place<T, R> {
    /// The place at the end of a path.
    pub fn new(path: Path) -> Self {
        Place { path, fields: T::fields(path) }
    }

    pub(crate) fn path(&self) -> Path {
        self.path
    }

    pub(crate) fn pointer(&self, at: Location) -> ValueId {
        with(|s| self.path.pointer(s, at))
    }
}

impl<V: Vector + Slot, R: Rail> Place<V, R> {
    /// The place of a component, of whichever vector this is.
    #[track_caller]
    pub fn component(&self, index: Ex<u32>) -> Place<V::Elem, R>
    where
        V::Elem: Slot,
    {
        check_index(index.id, V::shape().lanes.into(), Location::caller());
        Place::new(self.path.step(index.id))
    }
}

impl<T: Slot, R: Rail> Deref for Place<T, R> {
    type Target = T::Fields<R>;
    fn deref(&self) -> &T::Fields<R> {
        &self.fields
    }
}

impl<T: Held, R: Rail> Read for Place<T, R> {
    type Out = Ex<T>;
    #[track_caller]
    fn read(&self) -> Ex<T> {
        Ex::new(self.path.load(Location::caller()))
    }
}

/// What a reference to a place gives in value position.
pub trait ReadReference<'a, T: Slot, R: Rail> {
    /// The value, or the reference itself.
    type Out;
    /// Reads it.
    #[track_caller]
    fn read_reference(place: &'a Place<T, R>) -> Self::Out;
}

impl<'a, T: Held, R: Rail> ReadReference<'a, T, R> for ByValue {
    type Out = Ex<T>;
    #[track_caller]
    fn read_reference(place: &'a Place<T, R>) -> Ex<T> {
        place.read()
    }
}

impl<'a, T: Slot<Kind = ByReference>, R: Rail> ReadReference<'a, T, R> for ByReference {
    type Out = &'a Place<T, R>;
    fn read_reference(place: &'a Place<T, R>) -> &'a Place<T, R> {
        place
    }
}

impl<'a, T: Slot, R: Rail> Read for &'a Place<T, R>
where
    T::Kind: ReadReference<'a, T, R>,
{
    type Out = <T::Kind as ReadReference<'a, T, R>>::Out;
    #[track_caller]
    fn read(&self) -> Self::Out {
        <T::Kind as ReadReference<'a, T, R>>::read_reference(self)
    }
}

/// What stands left of `=`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be written",
    label = "nothing can be stored here",
    note = "a kernel stores to `&BufMut<T>`, to workgroup memory and to `let mut` variables"
)]
pub trait Target {
    /// The value it holds.
    type Value;
    /// Where it lies.
    type Rail;
    /// The same place, its indices evaluated.
    fn pin(&self, at: Location) -> Self;
    /// Stores a value.
    fn store(&self, value: Self::Value, at: Location);
}

impl<T: Held, R: Rail> Target for Place<T, R> {
    type Value = Ex<T>;
    type Rail = R;
    fn pin(&self, at: Location) -> Self {
        Place::new(self.path.pin(at))
    }
    fn store(&self, value: Ex<T>, at: Location) {
        self.path.store(value.id, at);
    }
}

/// The rail of what `let` names: it is no place at all.
pub struct LetWithoutMut;

/// A name is not written; that this is an error shows in [`write()`], once.
impl<T: Held> Target for Ex<T> {
    type Value = Ex<T>;
    type Rail = LetWithoutMut;
    fn pin(&self, _: Location) -> Self {
        *self
    }
    fn store(&self, _: Ex<T>, _: Location) {}
}

/// `place = value`.
#[track_caller]
pub fn write<P: Target>(place: &P, value: P::Value)
where
    P::Rail: Writable,
{
    place.store(value, Location::caller());
}

/// The place of `place op= ..`, its indices evaluated.
#[track_caller]
pub fn pin<P: Target>(place: &P) -> P {
    place.pin(Location::caller())
}

/// What a `let mut` can hold: a number, a bool, a vector, a struct of them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not kept in a variable",
    label = "a variable holds a number, a bool, a vector or a `#[derive(Struct)]` of them"
)]
pub trait Keep {
    /// The variable.
    type Variable;
    /// Makes one that holds this.
    #[track_caller]
    fn keep(self) -> Self::Variable;
}

impl<T: Held> Keep for Ex<T> {
    type Variable = Place<T, Local>;
    #[track_caller]
    fn keep(self) -> Place<T, Local> {
        let at = Location::caller();
        Place::new(Path::new(with(|s| {
            let ty = s.b.type_of(self.id);
            let pointer = s.b.local(ty, at);
            s.b.store(pointer, self.id, at);
            pointer
        })))
    }
}

/// A `let mut`.
#[track_caller]
pub fn var<V: Keep>(value: V) -> V::Variable {
    value.keep()
}

/// What `place[index]` indexes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be indexed",
    label = "buffers, workgroup memory, arrays and vectors are indexed",
    note = "a host table is indexed on the host: `comptime!(TABLE[i])`"
)]
pub trait At {
    /// The element's place.
    type Out;
    /// The element `index`.
    #[track_caller]
    fn at(&self, index: Ex<u32>) -> Self::Out;
}

impl<X: At> At for &X {
    type Out = X::Out;
    #[track_caller]
    fn at(&self, index: Ex<u32>) -> X::Out {
        (**self).at(index)
    }
}

/// A fixed array of scalars in a block, in workgroup memory or in a variable.
pub struct PlaceArray<T, R> {
    path: Path,
    len: u32,
    of: PhantomData<fn() -> (T, R)>,
}

impl<T, R> Clone for PlaceArray<T, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, R> Copy for PlaceArray<T, R> {}

impl<T, R> PlaceArray<T, R> {
    pub(crate) fn new(path: Path, len: u32) -> Self {
        PlaceArray { path, len, of: PhantomData }
    }
}

impl<T: Held, R: Rail> At for PlaceArray<T, R> {
    type Out = Place<T, R>;
    #[track_caller]
    fn at(&self, index: Ex<u32>) -> Place<T, R> {
        check_index(index.id, self.len, Location::caller());
        Place::new(self.path.step(index.id))
    }
}

/// An index that is known while staging has to be in range.
pub(crate) fn check_index(index: ValueId, len: u32, at: Location) {
    with(|s| {
        if let Some(&Const::Scalar { bits, .. }) = s.b.as_const(index)
            && bits >= len
        {
            s.b.error("E101", format!("index {bits} is out of range: there are {len} elements"), at);
        }
    });
}

/// A local array: `[value; length]`.
#[track_caller]
pub fn repeat<T: Held>(value: Ex<T>, len: impl Read<Out = Ex<u32>>) -> PlaceArray<T, Local> {
    let at = Location::caller();
    let len = host_length(len.read(), at);
    local_array(&vec![value; len as usize], at)
}

/// A local array: `[a, b, c]`.
#[track_caller]
pub fn array<T: Held>(values: &[Ex<T>]) -> PlaceArray<T, Local> {
    local_array(values, Location::caller())
}

fn local_array<T: Held>(values: &[Ex<T>], at: Location) -> PlaceArray<T, Local> {
    let len = u32::try_from(values.len()).unwrap_or(u32::MAX);
    let held = T::held();
    let pointer = with(|s| {
        let elem = s.b.ty(held);
        let ty = s.b.ty(Type::Array { elem, len, stride: None });
        s.b.local(ty, at)
    });
    let place = PlaceArray::new(Path::new(pointer), len);
    for (i, value) in (0u32..).zip(values) {
        let index = with(|s| s.u32_const(i));
        place.path.step(index).store(value.id, at);
    }
    place
}

/// A length that has to be known while staging; 1 beside an error.
pub(crate) fn host_length(len: Ex<u32>, at: Location) -> u32 {
    with(|s| match s.b.as_const(len.id) {
        Some(&Const::Scalar { bits, .. }) if bits > 0 => bits,
        Some(_) => {
            s.b.error("E102", "a length is at least 1".to_owned(), at);
            1
        }
        None => {
            let message =
                "a length has to be known while the kernel is staged: a literal or a comptime value";
            s.b.error("E103", message.to_owned(), at);
            1
        }
    })
}

macro_rules! vector_places {
    ($($v:ident $n:literal)*) => { $(
        impl<T: Num, R: Rail> At for Place<$v<T>, R> {
            type Out = Place<T, R>;
            #[track_caller]
            fn at(&self, index: Ex<u32>) -> Place<T, R> {
                check_index(index.id, $n, Location::caller());
                Place::new(self.path.step(index.id))
            }
        }
        impl<T: Num> At for Ex<$v<T>> {
            type Out = Ex<T>;
            #[track_caller]
            fn at(&self, index: Ex<u32>) -> Ex<T> {
                let at = Location::caller();
                check_index(index.id, $n, at);
                Ex::new(component(self.id, index.id, <T as Scalar>::DTYPE, at))
            }
        }
    )* };
}
vector_places! { Vec2 2 Vec3 3 Vec4 4 }

fn component(vector: ValueId, index: ValueId, dtype: DType, at: Location) -> ValueId {
    with(|s| component_of(s, vector, index, dtype, at))
}

fn component_of(s: &mut Stage, vector: ValueId, index: ValueId, dtype: DType, at: Location) -> ValueId {
    use kiln_spirv_emit::ir::Operand;
    let ty = s.b.scalar(dtype);
    match s.b.as_const(index) {
        Some(&Const::Scalar { bits, .. }) => {
            let operands = vec![Operand::Value(vector), Operand::Lit(bits)];
            s.b.inst(Op::CompositeExtract, ty, operands, at)
        }
        _ => s.op(Op::VectorExtractDynamic, ty, &[vector, index], at),
    }
}
