//! Atomics on `u32` and `i32` in buffers and workgroup memory: read and written as one step, by many invocations.
//!
//! They are relaxed: each one is whole, and none orders anything else. What other invocations stored is read after a
//! barrier of the workgroup, or in the next dispatch. The interpreter traps where a plain access meets an atomic one
//! with no barrier between them.

use kiln_abi::{
    Location,
    spirv::{MemorySemantics, Op, Scope},
};
use kiln_spirv_emit::ir::Operand;

use crate::{
    place::{Place, Rail, ReadWrite, Slot, Workgroup},
    session::with,
    value::{Ex, Scalar},
};

/// What atomics work on: `u32` and `i32`.
#[diagnostic::on_unimplemented(message = "`{Self}` has no atomics", label = "atomics work on u32 and i32")]
pub trait AtomicInt: Scalar {
    /// Smallest and largest.
    const BOUNDS: [Op; 2];
}
impl AtomicInt for u32 {
    const BOUNDS: [Op; 2] = [Op::AtomicUMin, Op::AtomicUMax];
}
impl AtomicInt for i32 {
    const BOUNDS: [Op; 2] = [Op::AtomicSMin, Op::AtomicSMax];
}

/// Memory that invocations share and may write.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not written by several invocations",
    label = "atomics reach an element of a `&BufMut` or of workgroup memory"
)]
pub trait SharedRail: Rail {
    /// Who can reach it.
    const SCOPE: Scope;
}
impl SharedRail for ReadWrite {
    const SCOPE: Scope = Scope::QueueFamily;
}
impl SharedRail for Workgroup {
    const SCOPE: Scope = Scope::Workgroup;
}

fn operands<T: Slot, R: SharedRail>(place: &Place<T, R>, semantics: usize, at: Location) -> Vec<Operand> {
    let relaxed = Operand::Semantics(MemorySemantics(0));
    let mut operands = vec![Operand::Value(place.pointer(at)), Operand::Scope(R::SCOPE)];
    operands.extend(std::iter::repeat_n(relaxed, semantics));
    operands
}

fn apply<T: AtomicInt, R: SharedRail>(
    op: Op,
    place: &Place<T, R>,
    value: Option<Ex<T>>,
    at: Location,
) -> Ex<T> {
    let mut operands = operands(place, 1, at);
    operands.extend(value.map(|v| Operand::Value(v.id)));
    Ex::new(with(|s| {
        let ty = T::shape().ty(s);
        s.b.inst(op, ty, operands, at)
    }))
}

/// What is there.
#[track_caller]
pub fn load<T: AtomicInt, R: SharedRail>(place: &Place<T, R>) -> Ex<T> {
    apply(Op::AtomicLoad, place, None, Location::caller())
}

/// Stores a value.
#[track_caller]
pub fn store<T: AtomicInt, R: SharedRail>(place: &Place<T, R>, value: Ex<T>) {
    let at = Location::caller();
    let mut operands = operands(place, 1, at);
    operands.push(Operand::Value(value.id));
    with(|s| s.b.effect(Op::AtomicStore, operands, at));
}

macro_rules! updates {
    ($($(#[$doc:meta])* $name:ident $op:expr;)*) => { $(
        $(#[$doc])*
        #[track_caller]
        pub fn $name<T: AtomicInt, R: SharedRail>(place: &Place<T, R>, value: Ex<T>) -> Ex<T> {
            apply($op, place, Some(value), Location::caller())
        }
    )* };
}
updates! {
    /// Puts a value there; gives what was there.
    exchange Op::AtomicExchange;
    /// Adds, wrapping; gives what was there.
    add Op::AtomicIAdd;
    /// Keeps the smaller; gives what was there.
    min T::BOUNDS[0];
    /// Keeps the larger; gives what was there.
    max T::BOUNDS[1];
    /// Keeps the bits of both; gives what was there.
    bitand Op::AtomicAnd;
    /// Keeps the bits of either; gives what was there.
    bitor Op::AtomicOr;
    /// Keeps the bits of one only; gives what was there.
    bitxor Op::AtomicXor;
}

/// Puts `new` there if `expected` is there; gives what was there.
#[track_caller]
pub fn compare_exchange<T: AtomicInt, R: SharedRail>(
    place: &Place<T, R>,
    expected: Ex<T>,
    new: Ex<T>,
) -> Ex<T> {
    let at = Location::caller();
    let mut operands = operands(place, 2, at);
    operands.extend([new.id, expected.id].map(Operand::Value));
    Ex::new(with(|s| {
        let ty = T::shape().ty(s);
        s.b.inst(Op::AtomicCompareExchange, ty, operands, at)
    }))
}
