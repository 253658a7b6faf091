//! Buffer elements and blocks: their layout, and references to them. A reference is a path; nothing is copied.

use std::marker::PhantomData;

use half::f16;
use kiln_abi::{DType, Location, spirv::Op};
use kiln_spirv_emit::ir::{GlobalKind, Member, Operand, Type, TypeId, ValueId};
pub use kiln_spirv_emit::layout::Extent;

use crate::{
    builtin::{barrier, local_id, workgroup_invocations},
    control::{Hint, end_loop, for_loop},
    overlay::View,
    place::{
        At, ByReference, Path, Place, PlaceArray, Rail, ReadOnly, ReadWrite, Slot, Workgroup, check_index,
        host_length, write,
    },
    session::{Stage, with},
    value::{Ex, Num, Read, Scalar, Value, Vec2, Vec3, Vec4},
};

/// The offset of each member and the extent of the struct they make, by the layout rules of `spirv-emit`.
pub const fn offsets<const N: usize>(members: [Extent; N]) -> ([u32; N], Extent) {
    let (mut offsets, mut whole, mut i) = ([0; N], Extent::EMPTY, 0);
    while i < N {
        (offsets[i], whole) = small(whole.then(members[i]));
        i += 1;
    }
    (offsets, Extent { bytes: small(whole.stride()), align: whole.align })
}

/// Runs while the host's program is compiled, where a panic is a compile error.
#[expect(clippy::panic, reason = "a constant's error")]
const fn small<T: Copy>(part: Option<T>) -> T {
    match part {
        Some(part) => part,
        None => panic!("a buffer's element is smaller than 4 GiB and holds no bool"),
    }
}

/// Where a type is laid out: buffers have offsets and strides, workgroup memory has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// A storage buffer.
    Buffer,
    /// Workgroup memory.
    Workgroup,
}

/// What a buffer or workgroup memory can hold: numbers, vectors of numbers, blocks.
#[diagnostic::on_unimplemented(
    message = "a buffer cannot hold `{Self}`",
    label = "a buffer's element is a number, a Vec2, Vec3, Vec4 or a `#[derive(Block)]` struct"
)]
pub trait Elem: Slot {
    /// Bytes from one element to the next.
    const BYTES: u32;
    /// The type in memory.
    fn ty(stage: &mut Types<'_>, memory: Memory) -> TypeId;
    /// The name for the layout record.
    fn name() -> String;
}

/// The type table of the kernel being staged.
pub struct Types<'a>(&'a mut Stage);

impl Types<'_> {
    /// A scalar or vector.
    pub fn value<T: Value>(&mut self) -> TypeId {
        T::shape().ty(self.0)
    }

    /// A block's struct.
    pub fn block(&mut self, name: &str, memory: Memory, members: &[(&str, TypeId, u32)]) -> TypeId {
        let members = members.iter().map(|&(name, ty, offset)| Member {
            name: name.to_owned(),
            ty,
            offset: (memory == Memory::Buffer).then_some(offset),
        });
        let members = members.collect();
        self.0.b.ty(Type::Struct { name: name.to_owned(), members, block: false })
    }
}

macro_rules! scalar_elems {
    ($($t:ty)*) => { $(
        impl Elem for $t {
            const BYTES: u32 = small(<$t as BlockField>::EXTENT.stride());
            fn ty(types: &mut Types<'_>, _: Memory) -> TypeId { types.value::<$t>() }
            fn name() -> String { <$t as Value>::shape().name() }
        }
        impl BlockField for $t {
            type Ref<R: Rail> = Place<$t, R>;
            const EXTENT: Extent = small(Extent::vector(<$t as Scalar>::DTYPE, 1));
            fn refer<R: Rail>(path: Path) -> Place<$t, R> { Place::new(path) }
            fn ty(types: &mut Types<'_>, _: Memory) -> TypeId { types.value::<$t>() }
            #[track_caller]
            fn copy<R: Rail>(from: &Place<$t, R>, to: &Place<$t, Workgroup>) { write(to, from.read()); }
        }
    )* };
}
scalar_elems! { f32 f16 i32 u32 i16 u16 i8 u8 }

macro_rules! vector_elems {
    ($($v:ident $n:literal)*) => { $(
        impl<T: Num> Elem for $v<T> {
            const BYTES: u32 = small(<$v<T> as BlockField>::EXTENT.stride());
            fn ty(types: &mut Types<'_>, _: Memory) -> TypeId { types.value::<$v<T>>() }
            fn name() -> String { <$v<T> as Value>::shape().name() }
        }
        impl<T: Num> BlockField for $v<T> {
            type Ref<R: Rail> = Place<$v<T>, R>;
            const EXTENT: Extent = small(Extent::vector(T::DTYPE, $n));
            fn refer<R: Rail>(path: Path) -> Place<$v<T>, R> { Place::new(path) }
            fn ty(types: &mut Types<'_>, _: Memory) -> TypeId { types.value::<$v<T>>() }
            #[track_caller]
            fn copy<R: Rail>(from: &Place<$v<T>, R>, to: &Place<$v<T>, Workgroup>) { write(to, from.read()); }
        }
    )* };
}
vector_elems! { Vec2 2 Vec3 3 Vec4 4 }

/// What a block's field can be: a number, a vector, an array of numbers.
#[diagnostic::on_unimplemented(
    message = "a block cannot have a field of type `{Self}`",
    label = "a field is a number, a Vec2, Vec3, Vec4 or an array of numbers"
)]
pub trait BlockField: Sized + 'static {
    /// What naming the field gives.
    type Ref<R: Rail>;
    /// Size and alignment.
    const EXTENT: Extent;
    /// The reference behind a path.
    fn refer<R: Rail>(path: Path) -> Self::Ref<R>;
    /// The type in memory.
    fn ty(types: &mut Types<'_>, memory: Memory) -> TypeId;
    /// Copies it into workgroup memory.
    #[track_caller]
    fn copy<R: Rail>(from: &Self::Ref<R>, to: &Self::Ref<Workgroup>);
}

impl<T: Num + BlockField, const N: usize> BlockField for [T; N] {
    type Ref<R: Rail> = PlaceArray<T, R>;
    const EXTENT: Extent = small(T::EXTENT.array(length(N)));
    fn refer<R: Rail>(path: Path) -> PlaceArray<T, R> {
        PlaceArray::new(path, length(N))
    }
    fn ty(types: &mut Types<'_>, memory: Memory) -> TypeId {
        let elem = types.value::<T>();
        let stride = (memory == Memory::Buffer).then_some(small(T::EXTENT.stride()));
        types.0.b.ty(Type::Array { elem, len: length(N), stride })
    }
    #[track_caller]
    fn copy<R: Rail>(from: &PlaceArray<T, R>, to: &PlaceArray<T, Workgroup>) {
        let (counted, i) = for_loop(0u32.read(), length(N).read(), 1u32.read(), Hint::None);
        write(&to.at(i), from.at(i).read());
        end_loop(counted);
    }
}

#[expect(clippy::cast_possible_truncation, reason = "asserted to fit")]
const fn length(n: usize) -> u32 {
    assert!(n > 0 && n <= u32::MAX as usize, "a block's array holds 1 to 4 Gi elements");
    n as u32
}

/// A block of a quantized tensor as it lies in a buffer; `#[derive(Block)]` writes this.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a block",
    label = "declare it as a struct with `#[derive(Block)]`"
)]
pub trait Block: Elem + Slot<Kind = ByReference> {
    /// Copies field by field, arrays in a loop.
    #[track_caller]
    fn copy<R: Rail>(from: &Self::Fields<R>, to: &Self::Fields<Workgroup>);
}

/// Copies a block into workgroup memory; what decodes it there is the same function. One invocation copies the whole
/// block; a barrier stands between the copy and the others' reads.
#[track_caller]
pub fn stage_block<B: Block, R: Rail>(from: &BlockRef<B, R>, to: &BlockRef<B, Workgroup>) {
    B::copy(from, to);
}

/// A reference to a block: `b.d` is its field `d`.
pub type BlockRef<B, R> = Place<B, R>;

/// A buffer that the kernel reads: `&Buf<T>` in its signature.
pub struct Buf<T> {
    base: ValueId,
    of: PhantomData<fn() -> T>,
}

/// A buffer that the kernel may write: `&BufMut<T>` in its signature.
pub struct BufMut<T> {
    base: ValueId,
    of: PhantomData<fn() -> T>,
}

macro_rules! buffers {
    ($($buf:ident $rail:ident $declare:ident $writable:literal)*) => { $(
        /// Declares the buffer of a kernel's parameter; `None` in variants that lack it, where any use is an error.
        #[track_caller]
        pub fn $declare<T: Elem>(name: &str, binding: Option<u32>) -> $buf<T> {
            let at = Location::caller();
            let base = with(|s| {
                let Some(binding) = binding else { return s.u32_const(0) };
                let elem = T::ty(&mut Types(s), Memory::Buffer);
                declare(s, name, binding, (elem, T::name(), T::BYTES), $writable, at)
            });
            $buf { base, of: PhantomData }
        }

        impl<T: Elem> $buf<T> {
            pub(crate) fn whole(&self) -> Path {
                Path::new(self.base).member(0)
            }

            pub(crate) fn path(&self, index: Ex<u32>) -> Path {
                Path::new(self.base).member(0).step(index.id)
            }

            /// How many elements the bound range holds.
            #[track_caller]
            pub fn len(&self) -> Ex<u32> {
                Ex::new(array_length(self.base, Location::caller()))
            }
        }

        impl<T: Elem> At for $buf<T> {
            type Out = Place<T, $rail>;
            #[track_caller]
            fn at(&self, index: Ex<u32>) -> Place<T, $rail> {
                Place::new(self.path(index))
            }
        }

        impl<'a, T> Read for &'a $buf<T> {
            type Out = &'a $buf<T>;
            fn read(&self) -> &'a $buf<T> {
                self
            }
        }
    )* };
}
buffers! { Buf ReadOnly buffer false BufMut ReadWrite buffer_mut true }

impl<T: Elem> Buf<T> {
    pub(crate) fn base(&self) -> ValueId {
        self.base
    }

    /// The same bytes as elements of another type: element i is the `U::BYTES` bytes from `i * U::BYTES` on.
    ///
    /// Both are read as long as they lie within the bound range; a view has no binding of its own.
    #[track_caller]
    pub fn view<U: Elem>(&self) -> Buf<U> {
        let at = Location::caller();
        let base = with(|s| {
            let Some((binding, name)) = s.b.buffer_of(self.base) else { return self.base };
            let elem = U::ty(&mut Types(s), Memory::Buffer);
            let elem_name = U::name();
            if let Some(base) = s.b.view_of(binding, elem) {
                return base;
            }
            let name = format!("{name}_as_{elem_name}");
            let kind = GlobalKind::Buffer { binding, elem, elem_name, writable: false, view: true };
            s.b.buffer(&name, elem, U::BYTES, kind, at)
        });
        Buf { base, of: PhantomData }
    }
}

fn declare(
    s: &mut Stage,
    name: &str,
    binding: u32,
    (elem, elem_name, stride): (TypeId, String, u32),
    writable: bool,
    at: Location,
) -> ValueId {
    let kind = GlobalKind::Buffer { binding, elem, elem_name, writable, view: false };
    s.b.buffer(name, elem, stride, kind, at)
}

fn array_length(base: ValueId, at: Location) -> ValueId {
    with(|s| {
        let ty = s.b.scalar(DType::U32);
        s.b.inst(Op::ArrayLength, ty, vec![Operand::Value(base), Operand::Lit(0)], at)
    })
}

/// Workgroup memory: an array that all invocations of a workgroup share. Its content is undefined at first.
pub struct Shared<T> {
    base: ValueId,
    len: u32,
    /// Of the memory, which may be more than the elements take.
    bytes: u64,
    /// How the memory is seen, where it was made of other elements.
    view: Option<View>,
    of: PhantomData<fn() -> T>,
}

impl<T: Elem> Shared<T> {
    pub(crate) fn base(&self) -> ValueId {
        self.base
    }

    /// An array of `len` elements; `len` is known while staging.
    #[track_caller]
    pub fn new(len: impl Read<Out = Ex<u32>>) -> Self {
        let at = Location::caller();
        let len = host_length(len.read(), at);
        let base = with(|s| {
            let elem = T::ty(&mut Types(s), Memory::Workgroup);
            let ty = s.b.ty(Type::Array { elem, len, stride: None });
            s.b.workgroup("shared", ty, at)
        });
        Shared { base, len, bytes: u64::from(len) * u64::from(T::BYTES), view: None, of: PhantomData }
    }

    /// The same memory for another purpose: `len` elements of it, at most as many as there are. What was called by the
    /// old name is gone, so Rust refuses a read of it; a barrier stands between its last read and the first new store.
    #[track_caller]
    pub fn reuse(self, len: impl Read<Out = Ex<u32>>) -> Self {
        let len = self.fitting::<T>(len.read(), Location::caller());
        barrier();
        Shared { len, ..self }
    }

    fn fitting<U: Elem>(&self, len: Ex<u32>, at: Location) -> u32 {
        let len = host_length(len, at);
        let (there, each) = (self.bytes, U::BYTES);
        if u64::from(len) * u64::from(each) > there {
            let message = format!(
                "the memory has {there} bytes; {len} elements of {each} bytes do not fit; make it larger"
            );
            with(|s| s.b.error("E113", message, at));
        }
        len
    }
}

impl<T: Value + Elem> Shared<T> {
    /// As [`Shared::reuse`], for numbers or vectors of another type: the same bytes, of which element i has those from
    /// `i * U::BYTES` on. An element may be larger or smaller than before, but no narrower than the numbers that the
    /// memory was made of: over halves lie halves and floats, over words also `Vec2<f16>`, but no single f16.
    ///
    /// They lie there as the first type's bits. An element that is larger than the memory's is loaded and stored in
    /// pieces, so make memory of words (`u32`) where several types meet. Atomics work on memory of their own type alone.
    #[track_caller]
    pub fn reuse_as<U: Value + Elem>(self, len: impl Read<Out = Ex<u32>>) -> Shared<U> {
        let at = Location::caller();
        let len = self.fitting::<U>(len.read(), at);
        let held = self.view.map_or(T::shape(), View::held);
        let view = View::of(held, U::shape()).unwrap_or_else(|message| {
            with(|s| s.b.error("E115", message, at));
            None
        });
        barrier();
        Shared { base: self.base, len, bytes: self.bytes, view, of: PhantomData }
    }
}

impl<T: Elem> Shared<T> {
    #[track_caller]
    pub(crate) fn path(&self, index: Ex<u32>) -> Path {
        check_index(index.id, self.len, Location::caller());
        Path::new(self.base).step(index.id).seen(self.view)
    }
}

impl<T: Elem> At for Shared<T> {
    type Out = Place<T, Workgroup>;
    #[track_caller]
    fn at(&self, index: Ex<u32>) -> Self::Out {
        Place::new(self.path(index))
    }
}

impl<'a, T> Read for &'a Shared<T> {
    type Out = &'a Shared<T>;
    fn read(&self) -> &'a Shared<T> {
        self
    }
}

/// Workgroup memory with the first `len` elements of a buffer, read once by the whole workgroup: for the tables that
/// decoding looks up. It holds a barrier, so all invocations of the workgroup call it.
#[track_caller]
pub fn stage_table<T: Elem + Value>(table: &Buf<T>, len: impl Read<Out = Ex<u32>>) -> Shared<T> {
    let len = len.read();
    let staged = Shared::new(len);
    let (counted, i) = for_loop(local_id(), len, workgroup_invocations(), Hint::None);
    write(&staged.at(i), table.at(i).read());
    end_loop(counted);
    barrier();
    staged
}
