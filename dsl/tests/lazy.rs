//! `&&`, `||` and `if` never run what Rust would not run; where running it is harmless they become selects.

mod device;

use device::run;
use kiln_abi::{DeviceError, Kernel, LaunchError, StagedKernel, spirv::Op};
use kiln_dsl::prelude::*;

/// `n` elements of x are there, the invocations ask far beyond.
#[derive(Push, Clone, Copy)]
pub struct Limit {
    /// Elements of x.
    pub n: u32,
    /// Added to every index.
    pub far: u32,
}

#[device]
fn positive(x: &Buf<u32>, i: u32) -> bool {
    x[i] > 0
}

#[device]
fn element(x: &Buf<u32>, i: u32) -> u32 {
    x[i]
}

#[device]
fn checked(x: &Buf<u32>, i: u32, n: u32) -> u32 {
    if i < n && x[i] > 0 { x[i] } else { 0 }
}

macro_rules! guarded {
    ($($(#[$doc:meta])* $name:ident($x:ident, $i:ident, $p:ident) $value:expr;)*) => { $(
        $(#[$doc])*
        #[kernel(local_size = 8, grid = 1)]
        pub fn $name($x: &Buf<u32>, y: &BufMut<u32>, #[push] $p: Limit) {
            let t = local_id();
            let $i = t + (t / 4) * $p.far;
            y[t] = $value;
        }
    )* };
}

guarded! {
    /// The right side of `&&`.
    and_guard(x, i, p) if i < p.n && x[i] > 0 { 1 } else { 2 };
    /// The right side of `||`.
    or_guard(x, i, p) if i >= p.n || x[i] == 0 { 2 } else { 1 };
    /// The arm of an `if`.
    if_guard(x, i, p) if i < p.n { x[i] / x[i] } else { 2 };
    /// A read inside a function.
    helper_guard(x, i, p) if i < p.n && positive(&x, i) { 1 } else { 2 };
    /// Three deep.
    nested_guard(x, i, p)
        if i < p.n { if i < 100 && (i < 50 || x[i] > 7) { (x[i] > 0) as u32 } else { x[i] } } else { 2 };
    /// A division.
    division_guard(x, i, p) if (p.n > 9 || x[0] > 0) && i < p.n && 9 / (i + 1 - i) == 9 { 1 } else { 2 };
    /// A guard kept in a variable.
    named_guard(x, i, p) { let inside = i < p.n; if inside && x[i] != 0 { 1 } else { 2 } };
    /// A read inside a function, behind `||`.
    helper_or(x, i, p) if i >= p.n || !positive(&x, i) { 2 } else { 1 };
    /// A division behind `||`.
    division_or(x, i, p) if i >= p.n || 1 / x[i] != 1 { 2 } else { 1 };
    /// A division in an arm, by what is zero elsewhere.
    division_if(x, i, p) { let d = (i < p.n) as u32; if d != 0 { x[i] / d } else { 2 } };
    /// A value of a function that branches.
    helper_if(x, i, p) if i < p.n { checked(&x, i, p.n) } else { checked(&x, i, p.n) + 2 };
    /// A read inside a function, in an arm.
    helper_arm(x, i, p) if i < p.n { element(&x, i) } else { 2 };
    /// A vector as the value of an `if`.
    vector_if(x, i, p) { let v = if i < p.n { vec2(x[i], 9) } else { vec2(2, x[0]) }; v.x() };
    /// Vectors compared behind `&&`.
    vector_and(x, i, p) if i < p.n && vec2(x[i], x[0]) == vec2(1, 1) { 1 } else { 2 };
    /// Vectors compared behind `||`.
    vector_or(x, i, p) if i >= p.n || !(vec2(x[i], 5) != splat::<Vec2<u32>>(1)) { 2 } else { 1 };
    /// Vectors compared in the condition of an `if` that gives a vector.
    vector_condition(x, i, p) {
        let v = vec2((i < p.n) as u32, x[0]);
        let w = if v == vec2(1, 1) { vec3(x[i], x[i], 7) } else { vec3(2, 2, 7) };
        w.y()
    };
    /// Arms of a `match`.
    match_arms(x, i, p) match (i < p.n) as u32 { 1 => x[i], _ => 2 };
    /// Three deep, in a condition.
    deep_condition(x, i, p)
        if (if i < p.n { if x[i] > 0 { x[i] == 1 || x[i + p.far] > 0 } else { true } } else { false }) { 1 } else { 2 };
    /// What is pure may run on both sides.
    pure_guard(x, i, p) { let v = x[0]; if i < p.n && v + i > 0 || v == 7 { 1 } else { 2 } };
    /// The twin that asks for both sides.
    select_twin(x, i, p) select(i < p.n, x[i], 2);
    /// The twin whose `&` is not lazy.
    eager_twin(x, i, p) if (i < p.n) & (x[i] > 0) { 1 } else { 2 };
}

/// The guard of a loop's condition.
#[kernel(local_size = 8, grid = 1)]
pub fn loop_guard(x: &Buf<u32>, y: &BufMut<u32>, #[push] p: Limit) {
    let mut j = local_id();
    while j < p.n && x[j] > 0 {
        j += 1;
    }
    y[local_id()] = j + p.far - p.far;
}

/// `||` in a loop's condition.
#[kernel(local_size = 8, grid = 1)]
pub fn loop_or(x: &Buf<u32>, y: &BufMut<u32>, #[push] p: Limit) {
    let mut j = local_id();
    while !(j >= p.n || x[j] == 0) {
        j += 1;
    }
    y[local_id()] = j + p.far - p.far;
}

/// An `if` as a loop's condition.
#[kernel(local_size = 8, grid = 1)]
pub fn loop_if(x: &Buf<u32>, y: &BufMut<u32>, #[push] p: Limit) {
    let mut j = local_id();
    while if j < p.n { x[j] > 0 } else { false } {
        j += 1;
    }
    y[local_id()] = j + p.far - p.far;
}

/// Atomics behind `&&` and `||`, in an arm and in a loop's condition: each is counted as often as Rust runs it.
#[kernel(local_size = 8, grid = 1)]
pub fn atomics(x: &Buf<u32>, y: &BufMut<u32>, #[push] p: Limit) {
    let t = local_id();
    let inside = t < p.n + p.far - p.far;
    if inside && atomic::add(&y[0], x[0]) < 100 {
        atomic::add(&y[1], 1);
    }
    if inside || atomic::add(&y[2], 1) > 100 {
        atomic::add(&y[3], 1);
    }
    let seen = if inside { atomic::add(&y[4], 1) } else { 50 };
    atomic::max(&y[5], seen);
    let mut rounds = 0;
    while rounds < t && atomic::add(&y[6], 1) < 100 {
        rounds += 1;
    }
    if inside & (atomic::add(&y[7], 1) < 100) {
        rounds = 0;
    }
}

#[test]
fn atomics_run_as_often_as_in_rust() {
    let found = run(&Atomics, &[1], (8, 0), |x, y| AtomicsArgs { x, y, p: far(4) });
    // The last is the eager twin.
    assert_eq!(found, Ok(vec![4, 4, 4, 4, 4, 50, 28, 8]));
}

fn far(n: u32) -> Limit {
    Limit { n, far: 1 << 20 }
}

macro_rules! result_of {
    ($kernel:ident, $args:ident) => {
        run(&$kernel, &[1, 1, 1, 1], (8, 9), |x, y| $args { x, y, p: far(4) })
    };
}

#[test]
fn guarded_reads_stay_guarded() {
    let expected = Ok(vec![1, 1, 1, 1, 2, 2, 2, 2]);
    assert_eq!(result_of!(AndGuard, AndGuardArgs), expected);
    assert_eq!(result_of!(OrGuard, OrGuardArgs), expected);
    assert_eq!(result_of!(IfGuard, IfGuardArgs), expected);
    assert_eq!(result_of!(HelperGuard, HelperGuardArgs), expected);
    assert_eq!(result_of!(NestedGuard, NestedGuardArgs), expected);
    assert_eq!(result_of!(DivisionGuard, DivisionGuardArgs), expected);
    assert_eq!(result_of!(NamedGuard, NamedGuardArgs), expected);
    assert_eq!(result_of!(HelperOr, HelperOrArgs), expected);
    assert_eq!(result_of!(DivisionOr, DivisionOrArgs), expected);
    assert_eq!(result_of!(DivisionIf, DivisionIfArgs), expected);
    assert_eq!(result_of!(HelperIf, HelperIfArgs), expected);
    assert_eq!(result_of!(HelperArm, HelperArmArgs), expected);
    assert_eq!(result_of!(VectorIf, VectorIfArgs), expected);
    assert_eq!(result_of!(VectorAnd, VectorAndArgs), expected);
    assert_eq!(result_of!(VectorOr, VectorOrArgs), expected);
    assert_eq!(result_of!(VectorCondition, VectorConditionArgs), expected);
    assert_eq!(result_of!(LoopIf, LoopIfArgs), Ok(vec![4, 4, 4, 4, 4, 5, 6, 7]));
    assert_eq!(result_of!(MatchArms, MatchArmsArgs), expected);
    assert_eq!(result_of!(DeepCondition, DeepConditionArgs), expected);
    assert_eq!(result_of!(PureGuard, PureGuardArgs), expected);
    assert_eq!(result_of!(LoopOr, LoopOrArgs), Ok(vec![4, 4, 4, 4, 4, 5, 6, 7]));
    assert_eq!(result_of!(LoopGuard, LoopGuardArgs), Ok(vec![4, 4, 4, 4, 4, 5, 6, 7]));
}

fn trap(result: Result<Vec<u32>, LaunchError>) -> Option<String> {
    match result {
        Err(LaunchError::Device(DeviceError::Trap { trap, .. })) => Some(trap),
        _ => None,
    }
}

#[test]
fn the_eager_twins_trap_at_the_read() {
    let source = include_str!("lazy.rs");
    for (result, line) in [
        (result_of!(SelectTwin, SelectTwinArgs), "    select_twin(x, i, p) select(i < p.n, x[i], 2);"),
        (
            result_of!(EagerTwin, EagerTwinArgs),
            "    eager_twin(x, i, p) if (i < p.n) & (x[i] > 0) { 1 } else { 2 };",
        ),
    ] {
        let trap = trap(result).unwrap();
        let number = source.lines().position(|l| l == line).unwrap() + 1;
        let column = line.find("x[i]").unwrap() + 1;
        assert!(trap.contains(&format!("lazy.rs:{number}:{column}")), "{trap}");
    }
}

// ---- the form each takes -----------------------------------------------------------------------------------------

fn count(kernel: &StagedKernel, op: Op) -> usize {
    let (mut at, mut n) = (5, 0);
    while let Some(&first) = kernel.words.get(at) {
        n += usize::from(first & 0xffff == u32::from(op.number()));
        at += (first >> 16).max(1) as usize;
    }
    n
}

guarded! {
    /// Arithmetic on both sides.
    pure_if(x, i, p) if i < p.n { x[0] + i } else { i * 3 };
    /// Arithmetic of values that are loaded already.
    pure_arms(x, i, p) { let v = x[0]; if i < p.n { v + i } else { v * 3 } };
    /// A comparison on the right.
    pure_and(x, i, p) { let v = x[0]; (i < p.n && v > 3 || v == 1) as u32 };
    /// A division by what could be zero.
    partial_if(x, i, p) { let v = x[0]; if v != 0 { i / v } else { p.n } };
    /// A division by a literal.
    total_if(x, i, p) { let v = x[0]; if v != 0 { i / 4 } else { v >> 3 } };
    /// A shift by what could be too much.
    shift_if(x, i, p) { let v = x[0]; if v < 32 { i << v } else { p.n } };
    /// A subgroup operation.
    subgroup_if(x, i, p) { let v = x[0]; if v < 32 { subgroup::add(i) } else { p.n } };
    /// Vectors, of what is loaded already.
    vector_pure(x, i, p) { let v = vec2(x[0], i); let w = if v == vec2(1, 1) { v } else { vec2(i, 3) }; w.x() };
    /// Vectors, of what is not.
    vector_read(x, i, p) { let v = vec2(x[0], i); let w = if v == vec2(1, 1) { vec2(x[i], 1) } else { v }; w.x() };
    /// A condition of the host.
    known_if(x, i, p) { let v = x[0]; if comptime!(true) { v } else { i / p.n } };
    /// A condition of literals.
    literal_if(x, i, p) { let v = x[0]; if 3 > 2u32 { v } else { i / p.n } };
}

#[test]
fn harmless_arms_are_selected_and_others_branch() {
    let forms = [
        (PureIf.stage(), 0, 1),
        (PureArms.stage(), 1, 0),
        // The cast of the result is a select too.
        (PureAnd.stage(), 1, 0),
        (PartialIf.stage(), 0, 1),
        (TotalIf.stage(), 1, 0),
        (ShiftIf.stage(), 0, 1),
        (SubgroupIf.stage(), 0, 1),
        (VectorPure.stage(), 1, 0),
        (VectorRead.stage(), 0, 1),
        (KnownIf.stage(), 0, 0),
        (LiteralIf.stage(), 0, 0),
    ];
    for (staged, selects, branches) in forms {
        let staged = staged.unwrap();
        let found = (count(&staged, Op::Select), count(&staged, Op::BranchConditional));
        assert_eq!(found, (selects, branches), "{}", staged.name);
    }
    let and = PureAnd.stage().unwrap();
    assert_eq!((count(&and, Op::LogicalAnd), count(&and, Op::LogicalOr)), (1, 1));
}
