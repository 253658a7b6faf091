//! What the lanes of a subgroup do together. Call these where all lanes that take part arrive.

use kiln_abi::{
    DType, Location,
    spirv::{GroupOperation, Op, Scope},
};
use kiln_spirv_emit::ir::{Operand, Type, ValueId};

use crate::{
    math::{max as max_of, min as min_of},
    ops::add as add_of,
    place::host_length,
    session::with,
    value::{Ex, Int, Num, Read, Shape, Value, Vec4},
};

/// Lanes of the widest subgroup that a device can have.
const MAX_SUBGROUP: u32 = 128;

/// Ops of one reduction for floats, signed and unsigned integers.
fn by_class(a: ValueId, [float, signed, unsigned]: [Op; 3]) -> Op {
    let dtype = with(|s| Shape::of(s, a).dtype);
    match (dtype.is_float(), dtype.is_signed()) {
        (true, _) => float,
        (false, true) => signed,
        (false, false) => unsigned,
    }
}

fn group(op: Op, group: GroupOperation, a: ValueId, at: Location) -> ValueId {
    with(|s| {
        let ty = s.b.type_of(a);
        let operands = vec![Operand::Scope(Scope::Subgroup), Operand::Group(group), Operand::Value(a)];
        s.b.inst(op, ty, operands, at)
    })
}

fn exchange(op: Op, ty: Option<DType>, operands: &[ValueId], at: Location) -> ValueId {
    with(|s| {
        let ty = match ty {
            Some(dtype) => s.b.scalar(dtype),
            None => s.b.type_of(operands[0]),
        };
        let operands = operands.iter().copied().map(Operand::Value);
        s.b.inst(op, ty, std::iter::once(Operand::Scope(Scope::Subgroup)).chain(operands).collect(), at)
    })
}

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident $bound:ident $group:ident [$f:ident $i:ident $u:ident];)*) => { $(
        $(#[$doc])*
        #[track_caller]
        pub fn $name<T: $bound>(a: Ex<T>) -> Ex<T> {
            let op = by_class(a.id, [Op::$f, Op::$i, Op::$u]);
            Ex::new(group(op, GroupOperation::$group, a.id, Location::caller()))
        }
    )* };
}
reductions! {
    /// The sum over the lanes. The order of float additions is the device's.
    add Num Reduce [GroupNonUniformFAdd GroupNonUniformIAdd GroupNonUniformIAdd];
    /// The product over the lanes.
    mul Num Reduce [GroupNonUniformFMul GroupNonUniformIMul GroupNonUniformIMul];
    /// The smallest of the lanes.
    min Num Reduce [GroupNonUniformFMin GroupNonUniformSMin GroupNonUniformUMin];
    /// The largest of the lanes.
    max Num Reduce [GroupNonUniformFMax GroupNonUniformSMax GroupNonUniformUMax];
    /// The `&` over the lanes.
    bitand Int Reduce [GroupNonUniformBitwiseAnd GroupNonUniformBitwiseAnd GroupNonUniformBitwiseAnd];
    /// The `|` over the lanes.
    bitor Int Reduce [GroupNonUniformBitwiseOr GroupNonUniformBitwiseOr GroupNonUniformBitwiseOr];
    /// The `^` over the lanes.
    bitxor Int Reduce [GroupNonUniformBitwiseXor GroupNonUniformBitwiseXor GroupNonUniformBitwiseXor];
    /// The sum over the lanes up to this one.
    inclusive_add Num InclusiveScan [GroupNonUniformFAdd GroupNonUniformIAdd GroupNonUniformIAdd];
    /// The sum over the lanes before this one.
    exclusive_add Num ExclusiveScan [GroupNonUniformFAdd GroupNonUniformIAdd GroupNonUniformIAdd];
    /// The largest of the lanes up to this one.
    inclusive_max Num InclusiveScan [GroupNonUniformFMax GroupNonUniformSMax GroupNonUniformUMax];
    /// The smallest of the lanes up to this one.
    inclusive_min Num InclusiveScan [GroupNonUniformFMin GroupNonUniformSMin GroupNonUniformUMin];
}

macro_rules! clusters {
    ($($(#[$doc:meta])* $name:ident $fold:path;)*) => { $(
        $(#[$doc])*
        #[track_caller]
        pub fn $name<T: Num>(a: Ex<T>, lanes: impl Read<Out = Ex<u32>>) -> Ex<T> {
            let mut folded = a;
            for mask in masks(lanes.read(), Location::caller()) {
                folded = $fold(folded, shuffle_xor(folded, mask.read()));
            }
            folded
        }
    )* };
}
clusters! {
    /// The sum over the cluster: `lanes` neighbors, a power of two known while staging, on a subgroup at least as wide.
    /// Every lane of it gets the same bits, on every device: halves are added, then quarters, in one order.
    cluster_add add_of;
    /// The smallest of the cluster's lanes; see [`cluster_add`].
    cluster_min min_of;
    /// The largest of the cluster's lanes; see [`cluster_add`].
    cluster_max max_of;
}

/// What a butterfly over `lanes` exchanges with: 1, 2, 4 and so on.
fn masks(lanes: Ex<u32>, at: Location) -> impl Iterator<Item = u32> {
    let n = host_length(lanes, at);
    with(|s| {
        let widest = s.b.subgroup_size().unwrap_or(MAX_SUBGROUP);
        if !n.is_power_of_two() || n > widest {
            let message = format!("a cluster is a power of two of lanes, at most {widest} here; found {n}");
            s.b.error("E114", message, at);
        }
    });
    (0..u32::BITS).map(|bit| 1 << bit).take_while(move |&mask| mask < n.min(MAX_SUBGROUP))
}

/// The value of one lane; `lane` is the same on all of them.
#[track_caller]
pub fn broadcast<T: Value>(a: Ex<T>, lane: Ex<u32>) -> Ex<T> {
    Ex::new(exchange(Op::GroupNonUniformBroadcast, None, &[a.id, lane.id], Location::caller()))
}

/// The value of the first active lane.
#[track_caller]
pub fn broadcast_first<T: Value>(a: Ex<T>) -> Ex<T> {
    Ex::new(exchange(Op::GroupNonUniformBroadcastFirst, None, &[a.id], Location::caller()))
}

/// The value of the lane `lane`.
#[track_caller]
pub fn shuffle<T: Value>(a: Ex<T>, lane: Ex<u32>) -> Ex<T> {
    Ex::new(exchange(Op::GroupNonUniformShuffle, None, &[a.id, lane.id], Location::caller()))
}

/// The value of the lane whose index is this one's `^ mask`.
#[track_caller]
pub fn shuffle_xor<T: Value>(a: Ex<T>, mask: Ex<u32>) -> Ex<T> {
    Ex::new(exchange(Op::GroupNonUniformShuffleXor, None, &[a.id, mask.id], Location::caller()))
}

/// The value of the lane `delta` below this one.
#[track_caller]
pub fn shuffle_up<T: Value>(a: Ex<T>, delta: Ex<u32>) -> Ex<T> {
    Ex::new(exchange(Op::GroupNonUniformShuffleUp, None, &[a.id, delta.id], Location::caller()))
}

/// The value of the lane `delta` above this one.
#[track_caller]
pub fn shuffle_down<T: Value>(a: Ex<T>, delta: Ex<u32>) -> Ex<T> {
    Ex::new(exchange(Op::GroupNonUniformShuffleDown, None, &[a.id, delta.id], Location::caller()))
}

/// Whether this is the first active lane.
#[track_caller]
pub fn elect() -> Ex<bool> {
    Ex::new(exchange(Op::GroupNonUniformElect, Some(DType::Bool), &[], Location::caller()))
}

/// Whether `a` holds on every lane.
#[track_caller]
pub fn all(a: Ex<bool>) -> Ex<bool> {
    Ex::new(exchange(Op::GroupNonUniformAll, Some(DType::Bool), &[a.id], Location::caller()))
}

/// Whether `a` holds on any lane.
#[track_caller]
pub fn any(a: Ex<bool>) -> Ex<bool> {
    Ex::new(exchange(Op::GroupNonUniformAny, Some(DType::Bool), &[a.id], Location::caller()))
}

/// The lanes on which `a` holds, a bit each, 32 lanes a component.
#[track_caller]
pub fn ballot(a: Ex<bool>) -> Ex<Vec4<u32>> {
    let at = Location::caller();
    Ex::new(with(|s| {
        let ty = s.b.ty(Type::Vector { elem: DType::U32, n: 4 });
        let operands = vec![Operand::Scope(Scope::Subgroup), Operand::Value(a.id)];
        s.b.inst(Op::GroupNonUniformBallot, ty, operands, at)
    }))
}
