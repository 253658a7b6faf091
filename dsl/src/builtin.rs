//! Where an invocation is: in the dispatch, in its workgroup, in its subgroup. And barriers of the workgroup.

use kiln_abi::{
    DType, Location,
    spirv::{BuiltIn, MemorySemantics, Op, Scope},
};
use kiln_spirv_emit::ir::Operand;

use crate::{session::with, value::Ex};

fn scalar(builtin: BuiltIn, at: Location) -> Ex<u32> {
    Ex::new(with(|s| s.b.builtin(builtin, at)))
}

fn axis(builtin: BuiltIn, axis: u32, at: Location) -> Ex<u32> {
    Ex::new(with(|s| {
        let xyz = s.b.builtin(builtin, at);
        let ty = s.b.scalar(DType::U32);
        s.b.inst(Op::CompositeExtract, ty, vec![Operand::Value(xyz), Operand::Lit(axis)], at)
    }))
}

macro_rules! axes {
    ($($(#[$doc:meta])* $name:ident $builtin:ident $axis:literal;)*) => { $(
        $(#[$doc])*
        #[track_caller]
        pub fn $name() -> Ex<u32> { axis(BuiltIn::$builtin, $axis, Location::caller()) }
    )* };
}
axes! {
    /// The workgroup's index along x.
    workgroup_id_x WorkgroupId 0;
    /// The workgroup's index along y.
    workgroup_id_y WorkgroupId 1;
    /// The workgroup's index along z.
    workgroup_id_z WorkgroupId 2;
    /// Workgroups along x.
    num_workgroups_x NumWorkgroups 0;
    /// Workgroups along y.
    num_workgroups_y NumWorkgroups 1;
    /// Workgroups along z.
    num_workgroups_z NumWorkgroups 2;
    /// The invocation's index in the workgroup along x.
    local_id_x LocalInvocationId 0;
    /// The invocation's index in the workgroup along y.
    local_id_y LocalInvocationId 1;
    /// The invocation's index in the workgroup along z.
    local_id_z LocalInvocationId 2;
    /// The invocation's index in the dispatch along x.
    global_id_x GlobalInvocationId 0;
    /// The invocation's index in the dispatch along y.
    global_id_y GlobalInvocationId 1;
    /// The invocation's index in the dispatch along z.
    global_id_z GlobalInvocationId 2;
}

macro_rules! scalars {
    ($($(#[$doc:meta])* $name:ident $builtin:ident;)*) => { $(
        $(#[$doc])*
        #[track_caller]
        pub fn $name() -> Ex<u32> { scalar(BuiltIn::$builtin, Location::caller()) }
    )* };
}
scalars! {
    /// The invocation's flat index in the workgroup.
    local_id LocalInvocationIndex;
    /// The invocation's index in its subgroup.
    lane SubgroupLocalInvocationId;
    /// The subgroup's index in the workgroup.
    subgroup_id SubgroupId;
    /// Lanes of a subgroup.
    subgroup_size SubgroupSize;
    /// Subgroups of the workgroup.
    num_subgroups NumSubgroups;
}

/// Invocations of a workgroup: a number that is known while staging.
pub fn workgroup_invocations() -> Ex<u32> {
    Ex::new(with(|s| {
        let n = s.b.local_size().iter().fold(1, |n: u32, axis| n.wrapping_mul(*axis));
        s.u32_const(n)
    }))
}

const ORDERED: u32 = MemorySemantics::ACQUIRE_RELEASE
    | MemorySemantics::MAKE_AVAILABLE
    | MemorySemantics::MAKE_VISIBLE
    | MemorySemantics::WORKGROUP_MEMORY;

/// Waits for the whole workgroup; what it stored to workgroup memory is visible after.
#[track_caller]
pub fn barrier() {
    control_barrier(Scope::Workgroup, ORDERED, Location::caller());
}

/// As [`barrier`], for workgroup memory and storage buffers.
#[track_caller]
pub fn barrier_buffers() {
    control_barrier(Scope::Workgroup, ORDERED | MemorySemantics::UNIFORM_MEMORY, Location::caller());
}

/// Waits for the subgroup; what its lanes stored to workgroup memory is visible after.
#[track_caller]
pub fn subgroup_barrier() {
    control_barrier(Scope::Subgroup, ORDERED, Location::caller());
}

fn control_barrier(scope: Scope, semantics: u32, at: Location) {
    let semantics = Operand::Semantics(MemorySemantics(semantics));
    with(|s| {
        s.b.effect(Op::ControlBarrier, vec![Operand::Scope(scope), Operand::Scope(scope), semantics], at);
    });
}
