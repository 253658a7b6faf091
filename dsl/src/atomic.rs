//! Atomics on `u32` and `i32` in buffers and workgroup memory: read and written as one step, by many invocations.
//!
//! By themselves they are relaxed: each one is whole, and none orders anything else. What other invocations stored is
//! read after a barrier of the workgroup, in the next dispatch, or across a [`release`] and an [`acquire`] of one
//! place. The interpreter traps where nothing orders a plain access with an atomic one or with another's.
//!
//! A workgroup must not wait for another one: nothing says that both run at the same time. The last one to come can
//! finish the work of all:
//! ```
//! # use kiln_dsl::prelude::*;
//! # #[kernel(local_size = 64, grid = 8)]
//! # fn sum(x: &Buf<f32>, parts: &BufMut<f32>, count: &BufMut<u32>, y: &BufMut<f32>) {
//! let sum = subgroup::add(x[global_id_x()]);
//! if subgroup::elect() {
//!     parts[workgroup_id_x() * num_subgroups() + subgroup_id()] = sum;
//!     // Releases the part; the last one acquires those of all.
//!     let before = atomic::acquire_release::add(&count[0], 1);
//!     if before == num_workgroups_x() * num_subgroups() - 1 {
//!         let mut total = 0.0;
//!         for i in 0..before + 1 {
//!             total += parts[i];
//!         }
//!         y[0] = total;
//!     }
//! }
//! # }
//! ```

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

const RELAXED: MemorySemantics = MemorySemantics(0);
const BOTH_MEMORIES: u32 = MemorySemantics::UNIFORM_MEMORY | MemorySemantics::WORKGROUP_MEMORY;
const ACQUIRE: MemorySemantics =
    MemorySemantics(MemorySemantics::ACQUIRE | MemorySemantics::MAKE_VISIBLE | BOTH_MEMORIES);
const RELEASE: MemorySemantics =
    MemorySemantics(MemorySemantics::RELEASE | MemorySemantics::MAKE_AVAILABLE | BOTH_MEMORIES);
const ACQUIRE_RELEASE: MemorySemantics = MemorySemantics(
    MemorySemantics::ACQUIRE_RELEASE
        | MemorySemantics::MAKE_AVAILABLE
        | MemorySemantics::MAKE_VISIBLE
        | BOTH_MEMORIES,
);

fn operands<T: Slot, R: SharedRail>(
    place: &Place<T, R>,
    semantics: &[MemorySemantics],
    values: &[Ex<T>],
    at: Location,
) -> Vec<Operand> {
    let mut operands = vec![Operand::Value(place.pointer(at)), Operand::Scope(R::SCOPE)];
    operands.extend(semantics.iter().copied().map(Operand::Semantics));
    operands.extend(values.iter().map(|v| Operand::Value(v.id)));
    operands
}

fn apply<T: AtomicInt, R: SharedRail>(
    op: Op,
    place: &Place<T, R>,
    semantics: &[MemorySemantics],
    values: &[Ex<T>],
    at: Location,
) -> Ex<T> {
    let operands = operands(place, semantics, values, at);
    Ex::new(with(|s| {
        let ty = T::shape().ty(s);
        s.b.inst(op, ty, operands, at)
    }))
}

macro_rules! load {
    ($semantics:expr) => {
        /// What is there.
        #[track_caller]
        pub fn load<T: AtomicInt, R: SharedRail>(place: &Place<T, R>) -> Ex<T> {
            apply(Op::AtomicLoad, place, &[$semantics], &[], Location::caller())
        }
    };
}

macro_rules! store {
    ($semantics:expr) => {
        /// Stores a value.
        #[track_caller]
        pub fn store<T: AtomicInt, R: SharedRail>(place: &Place<T, R>, value: Ex<T>) {
            let at = Location::caller();
            let operands = operands(place, &[$semantics], &[value], at);
            with(|s| s.b.effect(Op::AtomicStore, operands, at));
        }
    };
}

macro_rules! updates {
    ($semantics:expr, otherwise $left:expr) => {
        updates! { $semantics;
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
            let semantics = [$semantics, $left];
            apply(Op::AtomicCompareExchange, place, &semantics, &[new, expected], Location::caller())
        }
    };
    ($semantics:expr; $($(#[$doc:meta])* $name:ident $op:expr;)*) => { $(
        $(#[$doc])*
        #[track_caller]
        pub fn $name<T: AtomicInt, R: SharedRail>(place: &Place<T, R>, value: Ex<T>) -> Ex<T> {
            apply($op, place, &[$semantics], &[value], Location::caller())
        }
    )* };
}

load! { RELAXED }
store! { RELAXED }
updates! { RELAXED, otherwise RELAXED }

/// Atomics after which the invocation sees what was released at their place, and what happened before that.
pub mod acquire {
    use super::*;

    load! { ACQUIRE }
    updates! { ACQUIRE, otherwise ACQUIRE }
}

/// Atomics that give what the invocation stored and saw before them to those who acquire at their place.
pub mod release {
    use super::*;

    store! { RELEASE }
    updates! { RELEASE, otherwise RELAXED }
}

/// Atomics that acquire and release.
pub mod acquire_release {
    use super::*;

    updates! { ACQUIRE_RELEASE, otherwise ACQUIRE }
}
