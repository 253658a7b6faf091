//! Branches, lazy operators and loops: the macro opens them, stages what is inside, and closes them.
//!
//! There are no closures: `if fork.then() { .. }` runs as host code, so what a kernel writes inside stays where it is.

use kiln_abi::{DType, Location, spirv::Op};
use kiln_spirv_emit::ir::{Const, LoopControl, Region, Type, ValueId};

use crate::{
    ops::{Binary, binary},
    session::{Stage, with},
    value::{Ex, Held, Int, Shape},
};

/// What an `if` can choose by: a kernel's `bool` branches, a host `bool` is decided while staging.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a condition",
    label = "a bool is needed here; compare explicitly"
)]
pub trait Cond {
    /// The branch being staged.
    type Fork;
    /// Starts a branch.
    #[track_caller]
    fn fork(&self) -> Self::Fork;
}

/// An `if` on a host `bool`: one arm is staged.
pub struct HostFork(bool);

impl Cond for bool {
    type Fork = HostFork;
    fn fork(&self) -> HostFork {
        HostFork(*self)
    }
}

impl<X: Cond> Cond for &X {
    type Fork = X::Fork;
    #[track_caller]
    fn fork(&self) -> X::Fork {
        (**self).fork()
    }
}

impl HostFork {
    /// Whether the first arm is staged.
    pub fn then(&mut self) -> bool {
        self.0
    }

    /// Whether the second arm is staged.
    pub fn otherwise(&mut self) -> bool {
        !self.0
    }

    /// The staged arm's value.
    pub fn join<V>(self, then: Option<V>, otherwise: Option<V>) -> V {
        staged_arm(then, otherwise)
    }
}

#[expect(clippy::unreachable, reason = "the macro stages an arm whenever the fork asks for it")]
fn staged_arm<V>(then: Option<V>, otherwise: Option<V>) -> V {
    then.or(otherwise).unwrap_or_else(|| unreachable!("a branch stages at least one arm"))
}

/// An `if` on a kernel's `bool`.
pub struct Fork {
    cond: ValueId,
    known: Option<bool>,
    then: Option<Region>,
    at: Location,
}

impl Cond for Ex<bool> {
    type Fork = Fork;
    #[track_caller]
    fn fork(&self) -> Fork {
        Fork::new(self.id, Location::caller())
    }
}

impl Fork {
    fn new(cond: ValueId, at: Location) -> Self {
        let known = with(|s| match s.b.as_const(cond) {
            Some(&Const::Bool(known)) => Some(known),
            _ => None,
        });
        Fork { cond, known, then: None, at }
    }

    /// Opens the first arm, if it can run at all.
    pub fn then(&mut self) -> bool {
        if let Some(known) = self.known {
            return known;
        }
        with(Stage::open);
        true
    }

    /// Closes the first arm and opens the second, if it can run at all.
    pub fn otherwise(&mut self) -> bool {
        if let Some(known) = self.known {
            return !known;
        }
        with(|s| {
            self.then = Some(s.close());
            s.open();
        });
        true
    }

    /// Closes the branch; its value is that of the arm taken.
    pub fn join<V: Merge>(self, then: Option<V>, otherwise: Option<V>) -> V {
        let (Some(region), Some(a), Some(b)) = (self.then, &then, &otherwise) else {
            return staged_arm(then, otherwise);
        };
        let (mut left, mut right) = (Vec::new(), Vec::new());
        a.push(&mut left);
        b.push(&mut right);
        let merged = with(|s| {
            let other = s.close();
            merge(s, self.cond, (region, &left), (other, &right), self.at)
        });
        V::pull(&mut merged.into_iter())
    }
}

/// Joins two arms: by selects where running both is harmless, else by a branch and a variable per value.
fn merge(
    s: &mut Stage,
    cond: ValueId,
    (then, a): (Region, &[ValueId]),
    (otherwise, b): (Region, &[ValueId]),
    at: Location,
) -> Vec<ValueId> {
    // A select picks numbers; a tile goes through a variable.
    let numbers = a.iter().all(|&a| !matches!(s.b.type_of_id(s.b.type_of(a)), Type::Matrix(_)));
    if !a.is_empty() && numbers && s.b.is_speculatable(&then) && s.b.is_speculatable(&otherwise) {
        s.b.splice(then);
        s.b.splice(otherwise);
        return a
            .iter()
            .zip(b)
            .map(|(&a, &b)| {
                let ty = s.b.type_of(a);
                s.op(Op::Select, ty, &[cond, a, b], at)
            })
            .collect();
    }
    let slots: Vec<ValueId> = a
        .iter()
        .map(|&a| {
            let ty = s.b.type_of(a);
            s.b.local(ty, at)
        })
        .collect();
    let then = settle(s, then, &slots, a, at);
    let otherwise = settle(s, otherwise, &slots, b, at);
    s.b.branch(cond, then, otherwise, at);
    slots.iter().map(|&slot| s.b.load(slot, at)).collect()
}

/// The region with its values stored at its end.
fn settle(s: &mut Stage, region: Region, slots: &[ValueId], values: &[ValueId], at: Location) -> Region {
    s.b.open_region();
    s.b.splice(region);
    for (&slot, &value) in slots.iter().zip(values) {
        s.b.store(slot, value, at);
    }
    s.b.close_region()
}

/// What an `if` can result in, and what a `#[device]` function can return: nothing, a value, a tuple of them.
#[diagnostic::on_unimplemented(
    message = "an `if` cannot choose a `{Self}`",
    label = "the arms of an `if` give values; choose an index instead of a buffer or block"
)]
pub trait Merge: Sized {
    /// Appends its values.
    fn push(&self, out: &mut Vec<ValueId>);
    /// Takes as many values.
    fn pull(values: &mut impl Iterator<Item = ValueId>) -> Self;
    /// Zeros, to go on after an error.
    fn zero() -> Self;
}

impl Merge for () {
    fn push(&self, _: &mut Vec<ValueId>) {}
    fn pull(_: &mut impl Iterator<Item = ValueId>) -> Self {}
    fn zero() -> Self {}
}

impl<T: Held> Merge for Ex<T> {
    fn push(&self, out: &mut Vec<ValueId>) {
        out.push(self.id);
    }
    fn pull(values: &mut impl Iterator<Item = ValueId>) -> Self {
        values.next().map_or_else(Self::zero, Ex::new)
    }
    fn zero() -> Self {
        let held = T::held();
        Ex::new(with(|s| {
            let ty = s.b.ty(held);
            s.b.constant(Const::Null(ty))
        }))
    }
}

macro_rules! merge_tuples {
    ($(($($v:ident $i:tt),*))*) => { $(
        impl<$($v: Merge),*> Merge for ($($v,)*) {
            fn push(&self, out: &mut Vec<ValueId>) { $(self.$i.push(out);)* }
            fn pull(values: &mut impl Iterator<Item = ValueId>) -> Self { ($($v::pull(values),)*) }
            fn zero() -> Self { ($($v::zero(),)*) }
        }
    )* };
}
merge_tuples! { (A 0, B 1) (A 0, B 1, C 2) (A 0, B 1, C 2, D 3) }

/// The left side of `&&` or `||`, evaluated.
pub struct Lazy {
    fork: Fork,
    /// The left side that settles the answer.
    settles: bool,
}

/// `a && ..`.
#[track_caller]
pub fn lazy_and(a: Ex<bool>) -> Lazy {
    lazy(a, false, Location::caller())
}

/// `a || ..`.
#[track_caller]
pub fn lazy_or(a: Ex<bool>) -> Lazy {
    lazy(a, true, Location::caller())
}

fn lazy(a: Ex<bool>, settles: bool, at: Location) -> Lazy {
    let fork = Fork::new(a.id, at);
    with(Stage::open);
    Lazy { fork, settles }
}

/// `.. && b` or `.. || b`: `b` is evaluated only where the left side leaves the answer open.
pub fn lazy_end(lazy: Lazy, b: Ex<bool>) -> Ex<bool> {
    let Lazy { fork: Fork { cond, known, at, .. }, settles } = lazy;
    Ex::new(with(|s| {
        let right = s.close();
        match known {
            Some(known) if known == settles => return cond,
            Some(_) => {
                s.b.splice(right);
                return b.id;
            }
            None => {}
        }
        if s.b.is_speculatable(&right) {
            s.b.splice(right);
            let ty = s.b.scalar(DType::Bool);
            let op = if settles { Op::LogicalOr } else { Op::LogicalAnd };
            return s.op(op, ty, &[cond, b.id], at);
        }
        let settled = s.b.constant(Const::Bool(settles));
        s.b.open_region();
        let left = s.b.close_region();
        let mut arms = [(right, b.id), (left, settled)];
        if settles {
            arms.reverse();
        }
        let [(then, a), (otherwise, b)] = arms;
        merge_by_branch(s, cond, (then, a), (otherwise, b), at)
    }))
}

fn merge_by_branch(
    s: &mut Stage,
    cond: ValueId,
    (then, a): (Region, ValueId),
    (otherwise, b): (Region, ValueId),
    at: Location,
) -> ValueId {
    let ty = s.b.type_of(a);
    let slot = s.b.local(ty, at);
    let then = settle(s, then, &[slot], &[a], at);
    let otherwise = settle(s, otherwise, &[slot], &[b], at);
    s.b.branch(cond, then, otherwise, at);
    s.b.load(slot, at)
}

/// A loop whose body is being staged.
pub struct Loop {
    header: Region,
    cond: Option<ValueId>,
    /// Counter variable, its value in this round, the increment.
    counter: Option<(ValueId, ValueId, ValueId)>,
    control: LoopControl,
    at: Location,
}

/// The hint of an `#[unroll]` or `#[no_unroll]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// None.
    None,
    /// `#[unroll]`.
    Unroll,
    /// `#[no_unroll]`.
    NoUnroll,
}

impl Hint {
    fn control(self) -> LoopControl {
        match self {
            Hint::None => LoopControl::None,
            Hint::Unroll => LoopControl::Unroll,
            Hint::NoUnroll => LoopControl::DontUnroll,
        }
    }
}

/// `for .. in from..to`, `(from..to).step_by(step)`. The bounds are evaluated once. A step that carries the counter
/// past the end of its type starts over, so keep `to` a step away from it.
#[track_caller]
pub fn for_loop<T: Int>(from: Ex<T>, to: Ex<T>, step: Ex<T>, hint: Hint) -> (Loop, Ex<T>) {
    let (l, i) = counted(from.id, to.id, step.id, hint, Location::caller());
    (l, Ex::new(i))
}

fn counted(from: ValueId, to: ValueId, step: ValueId, hint: Hint, at: Location) -> (Loop, ValueId) {
    with(|s| {
        match s.b.as_const(step) {
            Some(&Const::Scalar { bits: 0, .. }) => {
                s.b.error("E107", "a loop that steps by 0 never ends".to_owned(), at);
            }
            Some(&Const::Scalar { bits, .. })
                if Shape::of(s, step).dtype.is_signed() && bits.cast_signed() < 0 =>
            {
                s.b.error("E107", "a loop steps upward".to_owned(), at);
            }
            _ => {}
        }
        let ty = s.b.type_of(from);
        let variable = s.b.local(ty, at);
        s.b.store(variable, from, at);
        s.open();
        let i = s.b.load(variable, at);
        let cond = binary(s, Binary::Lt, i, to, at);
        let l = enter(s, Some(cond), Some((variable, i, step)), hint, at);
        (l, i)
    })
}

/// Closes the open header and opens the body.
fn enter(
    s: &mut Stage,
    cond: Option<ValueId>,
    counter: Option<(ValueId, ValueId, ValueId)>,
    hint: Hint,
    at: Location,
) -> Loop {
    let header = s.close();
    s.b.enter_loop(&header);
    s.open();
    Loop { header, cond, counter, control: hint.control(), at }
}

/// The head of a `while`: what follows is its condition.
pub struct Head(Location);

/// Opens a `while`'s condition.
#[track_caller]
pub fn while_head() -> Head {
    with(Stage::open);
    Head(Location::caller())
}

/// `while condition`.
pub fn while_loop(head: Head, condition: Ex<bool>, hint: Hint) -> Loop {
    with(|s| enter(s, Some(condition.id), None, hint, head.0))
}

/// `loop`.
#[track_caller]
pub fn endless_loop(hint: Hint) -> Loop {
    let at = Location::caller();
    with(|s| {
        s.open();
        enter(s, None, None, hint, at)
    })
}

/// Closes a loop's body.
pub fn end_loop(l: Loop) {
    with(|s| {
        let body = s.close();
        s.open();
        if let Some((variable, i, step)) = l.counter {
            let next = binary(s, Binary::Add, i, step, l.at);
            s.b.store(variable, next, l.at);
        }
        let step = s.close();
        s.b.leave_loop();
        s.b.repeat(l.header, l.cond, (body, step), l.control, l.at);
    });
}

/// `break`.
#[track_caller]
pub fn break_loop() {
    let at = Location::caller();
    with(|s| s.b.brk(at));
}

/// `continue`.
#[track_caller]
pub fn continue_loop() {
    let at = Location::caller();
    with(|s| s.b.cont(at));
}

/// `return` of a kernel.
#[track_caller]
pub fn return_kernel() {
    let at = Location::caller();
    with(|s| s.b.ret(at));
}
