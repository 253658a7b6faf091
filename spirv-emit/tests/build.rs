//! What the builder refuses while a kernel is built, each with a control that it takes.

use kiln_abi::{
    DType, Location,
    spirv::{BuiltIn, Op},
};
use kiln_spirv_emit::{
    Builder,
    ir::{GlobalKind, LoopControl, Module, Operand, Type, ValueId},
};

/// A kernel that stores to `y[i]`; `body` gets `y` and `i` and adds to it.
fn build(body: impl FnOnce(&mut Builder, ValueId, ValueId)) -> Result<Module, Vec<(&'static str, u32)>> {
    let at = Location::caller();
    let mut b = Builder::new("k", [1, 1, 1], None);
    let elem = b.scalar(DType::U32);
    let kind =
        GlobalKind::Buffer { binding: 0, elem, elem_name: "u32".to_owned(), writable: true, view: false };
    let y = b.buffer("y", elem, 4, kind, at);
    let i = b.builtin(BuiltIn::LocalInvocationIndex, at);
    let zero = b.scalar_const(DType::U32, 0);
    let pointer = b.access_chain(y, &[zero, i], at);
    b.store(pointer, i, at);
    body(&mut b, y, i);
    b.finish().map_err(|e| e.errors.iter().map(|e| (e.code, e.at.line)).collect())
}

/// `bad` is refused with `code` at the line it returns and with nothing else; `good` is taken.
#[track_caller]
fn check(
    code: &'static str,
    bad: impl FnOnce(&mut Builder, ValueId, ValueId) -> u32,
    good: impl FnOnce(&mut Builder, ValueId, ValueId),
) {
    let mut line = 0;
    let errors = build(|b, y, i| line = bad(b, y, i)).expect_err("the broken kernel is refused");
    assert_eq!(errors, [(code, line)]);
    build(good).expect("the control is taken");
}

fn u(b: &mut Builder, n: u32) -> ValueId {
    b.scalar_const(DType::U32, n)
}

fn two(b: &mut Builder, op: Op, dtype: DType, x: ValueId, y: ValueId, at: Location) -> ValueId {
    let ty = b.scalar(dtype);
    b.inst(op, ty, vec![Operand::Value(x), Operand::Value(y)], at)
}

fn here() -> Location {
    Location::caller()
}

#[test]
fn e010_a_chain_starts_at_a_pointer() {
    let chain = |b: &mut Builder, from: ValueId, i| {
        let zero = u(b, 0);
        let at = here();
        b.access_chain(from, &[zero, i], at);
        at.line
    };
    check("E010", |b, _, i| chain(b, i, i), |b, y, i| _ = chain(b, y, i));
}

#[test]
fn e011_a_member_is_picked_by_a_constant_in_range() {
    let chain = |b: &mut Builder, y: ValueId, member| {
        let at = here();
        b.access_chain(y, &[member], at);
        at.line
    };
    check(
        "E011",
        |b, y, _| {
            let one = u(b, 1);
            chain(b, y, one)
        },
        |b, y, _| {
            let zero = u(b, 0);
            chain(b, y, zero);
        },
    );
    check("E011", chain, |_, _, _| {});
}

#[test]
fn e012_a_scalar_is_not_indexed() {
    let chain = |b: &mut Builder, y: ValueId, depth: usize| {
        let zero = u(b, 0);
        let at = here();
        b.access_chain(y, &vec![zero; depth], at);
        at.line
    };
    check("E012", |b, y, _| chain(b, y, 3), |b, y, _| _ = chain(b, y, 2));
}

#[test]
fn e013_a_load_needs_a_pointer() {
    let load = |b: &mut Builder, from| {
        let at = here();
        b.load(from, at);
        at.line
    };
    check(
        "E013",
        |b, _, i| load(b, i),
        |b, _, _| {
            let ty = b.scalar(DType::U32);
            let local = b.local(ty, here());
            load(b, local);
        },
    );
}

#[test]
fn e014_a_bool_has_no_place_in_a_buffer() {
    let block = |b: &mut Builder, dtype| {
        let ty = b.scalar(dtype);
        let at = here();
        b.buffer_struct("block", &[("flag", ty)], at);
        at.line
    };
    check("E014", |b, _, _| block(b, DType::Bool), |b, _, _| _ = block(b, DType::U8));
}

#[test]
fn e020_break_needs_a_loop() {
    let leave = |b: &mut Builder| {
        let at = here();
        b.brk(at);
        at.line
    };
    check(
        "E020",
        |b, _, _| leave(b),
        |b, _, _| {
            b.open_region();
            let header = b.close_region();
            b.enter_loop(&header);
            b.open_region();
            leave(b);
            let body = b.close_region();
            b.open_region();
            let step = b.close_region();
            b.leave_loop();
            b.repeat(header, None, (body, step), LoopControl::None, here());
        },
    );
}

#[test]
fn e021_nothing_follows_a_return_or_an_endless_loop() {
    let after = |b: &mut Builder, i| {
        let at = here();
        two(b, Op::IAdd, DType::U32, i, i, at);
        at.line
    };
    check(
        "E021",
        |b, _, i| {
            b.ret(here());
            after(b, i)
        },
        |b, _, i| {
            after(b, i);
            b.ret(here());
        },
    );
    let endless = |b: &mut Builder| {
        b.open_region();
        let header = b.close_region();
        b.enter_loop(&header);
        b.open_region();
        let body = b.close_region();
        b.open_region();
        let step = b.close_region();
        b.leave_loop();
        b.repeat(header, None, (body, step), LoopControl::None, here());
    };
    check(
        "E021",
        |b, _, i| {
            endless(b);
            after(b, i)
        },
        |b, _, _| endless(b),
    );
}

#[test]
fn e022_a_value_stays_in_its_block() {
    let inner = |b: &mut Builder, i: ValueId| {
        let one = u(b, 1);
        let cond = two(b, Op::IEqual, DType::Bool, i, one, here());
        b.open_region();
        let made = two(b, Op::IAdd, DType::U32, i, i, here());
        let then = b.close_region();
        b.open_region();
        let otherwise = b.close_region();
        b.branch(cond, then, otherwise, here());
        made
    };
    check(
        "E022",
        |b, _, i| {
            let made = inner(b, i);
            let at = here();
            two(b, Op::IAdd, DType::U32, made, i, at);
            at.line
        },
        |b, _, i| _ = inner(b, i),
    );
}

#[test]
fn e030_to_e032_operations_without_a_result() {
    let known = |op, dtype, x, y| {
        move |b: &mut Builder, _: ValueId, _: ValueId| {
            let (x, y) = (b.scalar_const(dtype, x), b.scalar_const(dtype, y));
            let at = here();
            two(b, op, dtype, x, y, at);
            at.line
        }
    };
    let fine =
        |op, dtype, x, y| move |b: &mut Builder, p: ValueId, i: ValueId| _ = known(op, dtype, x, y)(b, p, i);
    for op in [Op::UDiv, Op::UMod] {
        check("E030", known(op, DType::U32, 7, 0), fine(op, DType::U32, 7, 1));
    }
    let least = i32::MIN.cast_unsigned();
    for op in [Op::SDiv, Op::SRem] {
        check("E030", known(op, DType::I32, 7, 0), fine(op, DType::I32, 7, u32::MAX));
        check("E031", known(op, DType::I32, least, u32::MAX), fine(op, DType::I32, least, 1));
    }
    check("E031", known(Op::SDiv, DType::I8, (-128i32).cast_unsigned(), u32::MAX), |_, _, _| {});
    for op in [Op::ShiftLeftLogical, Op::ShiftRightLogical] {
        check("E032", known(op, DType::U32, 1, 32), fine(op, DType::U32, 1, 31));
        check("E032", known(op, DType::U8, 1, 8), fine(op, DType::U8, 1, 7));
    }
    check("E032", known(Op::ShiftRightArithmetic, DType::I32, 1, u32::MAX), |_, _, _| {});
}

#[test]
fn errors_come_in_source_order_all_at_once() {
    let errors = build(|b, _, i| {
        b.load(i, here());
        b.brk(here());
    });
    assert_eq!(errors.unwrap_err().iter().map(|e| e.0).collect::<Vec<_>>(), ["E013", "E020"]);
}

#[test]
fn a_struct_is_laid_out_by_the_one_function() {
    let mut b = Builder::new("k", [1, 1, 1], None);
    let (half, byte) = (b.scalar(DType::F16), b.scalar(DType::I8));
    let qs = b.buffer_array(byte, 32, here());
    let block = b.buffer_struct("Q8_0", &[("d", half), ("qs", qs)], here());
    let Type::Struct { members, .. } = b.type_of_id(block) else { panic!("a struct") };
    assert_eq!(members.iter().map(|m| m.offset).collect::<Vec<_>>(), [Some(0), Some(2)]);
}
