//! Each rule of the validator: a module that breaks it is refused with its code at the broken place, and the same
//! module unbroken is accepted.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeSet;

use kiln_abi::{
    DType, Location,
    spirv::{BuiltIn, Capability, MemorySemantics, Op, Scope, StorageClass},
};
use kiln_golden::fixtures;
use kiln_spirv_emit::{
    ir::{
        Const, GlobalKind, Inst, Module, Node, Operand, Region, RegionId, Type, TypeId, Value, ValueId,
        ValueKind, for_each_node,
    },
    verify::{MEANING, STRUCTURE, verify},
};

/// Code, the fixture that is broken, and how; breaking gives the place of the error, if it has one of its own.
type Broken = (&'static str, &'static str, fn(&mut Module) -> Option<Location>);

const BROKEN: &[Broken] = &[
    ("V001", "add", |m| operand(m, Op::FAdd, 0, Operand::Value(ValueId(9999)))),
    ("V002", "add", |m| edit(m, Op::FAdd, |i| i.op = Op::FunctionCall)),
    ("V003", "add", |m| edit(m, Op::FAdd, |i| i.operands.truncate(1))),
    ("V004", "add", |m| edit(m, Op::FAdd, |i| i.result = None)),
    ("V005", "branches", nest),
    ("V010", "integers", |m| retype(m, Op::IAdd, Type::Scalar(DType::I32))),
    ("V011", "floats", |m| retype(m, Op::FAdd, Type::Scalar(DType::U32))),
    ("V012", "integers", |m| retype(m, Op::UMulExtended, Type::Scalar(DType::U32))),
    ("V013", "integers", |m| constant_operand(m, Op::UDiv, 1, DType::U32, 0)),
    ("V014", "integers", |m| retype(m, Op::BitReverse, Type::Scalar(DType::I32))),
    ("V015", "integers", |m| retype(m, Op::ShiftRightLogical, Type::Scalar(DType::I32))),
    ("V016", "integers", |m| constant_operand(m, Op::ShiftLeftLogical, 1, DType::U32, 32)),
    ("V017", "integers", |m| edit(m, Op::IAdd, |i| i.no_contraction = true)),
    ("V018", "float_functions", |m| retype(m, Op::ExtInst, Type::Scalar(DType::U32))),
    ("V020", "logic", |m| retype(m, Op::LogicalAnd, Type::Scalar(DType::U32))),
    ("V021", "logic", |m| retype(m, Op::IEqual, Type::Scalar(DType::U32))),
    ("V022", "logic", |m| constant_operand(m, Op::Select, 0, DType::U32, 1)),
    ("V023", "conversions", |m| retype(m, Op::ConvertFToU, Type::Scalar(DType::I32))),
    ("V024", "integers", |m| retype(m, Op::Bitcast, Type::Scalar(DType::U16))),
    ("V025", "vectors", |m| edit(m, Op::CompositeConstruct, |i| i.operands.truncate(1))),
    ("V026", "add", |m| operand(m, Op::CompositeExtract, 1, Operand::Lit(3))),
    ("V027", "vectors", |m| operand(m, Op::VectorShuffle, 2, Operand::Lit(8))),
    ("V028", "vectors", |m| constant_operand(m, Op::VectorExtractDynamic, 1, DType::F32, 0)),
    ("V029", "vectors", |m| retype(m, Op::Dot, Type::Scalar(DType::F16))),
    ("V030", "packed_dot", |m| retype(m, Op::SDot, Type::Scalar(DType::U32))),
    ("V031", "subgroups", |m| retype(m, Op::GroupNonUniformIAdd, Type::Scalar(DType::F32))),
    ("V032", "subgroups", |m| operand(m, Op::GroupNonUniformAll, 0, Operand::Scope(Scope::Workgroup))),
    ("V033", "workgroup_sum", |m| operand(m, Op::ControlBarrier, 0, Operand::Scope(Scope::Device))),
    ("V034", "workgroup_sum", |m| {
        let unseen = MemorySemantics(0x8 | 0x2000 | 0x100);
        operand(m, Op::ControlBarrier, 2, Operand::Semantics(unseen))
    }),
    ("V040", "add", |m| constant_operand(m, Op::Store, 1, DType::U32, 0)),
    ("V041", "add", |m| {
        let pointee = intern(m, Type::Scalar(DType::U32));
        retype(m, Op::AccessChain, Type::Pointer { class: StorageClass::StorageBuffer, pointee })
    }),
    ("V042", "locals", |m| {
        let index = constant(m, DType::U32, 4);
        let chain = |i: &Inst| i.op == Op::AccessChain && i.operands.len() == 2;
        edit_where(m, chain, |i| i.operands[1] = Operand::Value(index))
    }),
    ("V043", "add", |m| {
        if let GlobalKind::Buffer { writable, .. } = &mut m.globals[2].kind {
            *writable = false;
        }
        edit(m, Op::Store, |_| {})
    }),
    ("V044", "add", |m| {
        let pointer = m.globals[0].value;
        operand(m, Op::FAdd, 0, Operand::Value(pointer))
    }),
    ("V045", "add", |m| {
        for ty in &mut m.types {
            if let Type::RuntimeArray { stride, .. } = ty {
                *stride = 8;
            }
        }
        Some(m.globals[0].at)
    }),
    ("V046", "workgroup_sum", |m| {
        for ty in &mut m.types {
            if let Type::Array { stride, .. } = ty {
                *stride = Some(4);
            }
        }
        workgroup(m)
    }),
    ("V047", "locals", |m| {
        let push = m.globals.iter().find_map(|g| match g.kind {
            GlobalKind::Push { block } => Some((block, g.at)),
            _ => None,
        });
        let (block, at) = push.unwrap();
        let array = m.types.iter().position(|t| matches!(t, Type::RuntimeArray { .. })).unwrap();
        if let Type::Struct { members, .. } = &mut m.types[block.0 as usize] {
            members[0].ty = TypeId(u32::try_from(array).unwrap());
        }
        Some(at)
    }),
    ("V048", "read_write", |m| operand(m, Op::ArrayLength, 1, Operand::Lit(1))),
    ("V049", "atomics", |m| operand(m, Op::AtomicIAdd, 1, Operand::Scope(Scope::Workgroup))),
    ("V050", "add", |m| {
        let made = |n: &Node| matches!(n, Node::Inst(i) if i.op == Op::FAdd);
        let at = m.entry.body.nodes.iter().position(made).unwrap();
        m.entry.body.nodes.remove(at);
        edit(m, Op::Store, |_| {})
    }),
    ("V051", "branches", |m| {
        let number = constant(m, DType::U32, 1);
        let last = m.entry.body.nodes.last_mut().unwrap();
        let Node::If { cond, at, .. } = last else { panic!("branches ends with a branch") };
        *cond = number;
        Some(*at)
    }),
    ("V070", "integer_matrices", |m| operand(m, Op::CooperativeMatrixMulAddKHR, 3, Operand::Lit(1))),
    ("V071", "float_matrices", |m| constant_operand(m, Op::MatrixTimesScalar, 1, DType::U32, 1)),
    ("V072", "float_matrices", |m| constant_operand(m, Op::CooperativeMatrixLoadKHR, 1, DType::U32, 2)),
    ("V074", "tensor_copy", |m| constant_operand(m, Op::TensorLayoutSliceNV, 1, DType::I32, 0)),
    ("V075", "tensor_copy", |m| constant_operand(m, Op::CooperativeMatrixStoreTensorNV, 2, DType::U32, 0)),
    ("V076", "whole_matrices", |m| operand(m, Op::CooperativeMatrixReduceNV, 1, Operand::Lit(4))),
    ("V077", "whole_matrices", |m| {
        let at = Location::caller();
        let workgroup = Operand::Scope(Scope::Workgroup);
        let semantics = Operand::Semantics(MemorySemantics(0x8 | 0x2000 | 0x4000 | 0x100));
        let operands = vec![workgroup.clone(), workgroup, semantics];
        let barrier = Inst { op: Op::ControlBarrier, result: None, operands, no_contraction: false, at };
        m.callees[0].function.body.nodes.push(Node::Inst(barrier));
        Some(at)
    }),
    ("V073", "matrix_elements", |m| retype(m, Op::CooperativeMatrixLengthKHR, Type::Scalar(DType::I32))),
    ("V052", "add", |m| {
        let at = Location::caller();
        m.entry.body.nodes.push(Node::Break(at));
        Some(at)
    }),
    ("V053", "add", |m| {
        let at = Location::caller();
        m.entry.body.nodes.extend([Node::Return(at), Node::Return(at)]);
        Some(at)
    }),
    ("V054", "workgroup_sum", |m| {
        let first = builtin(m, BuiltIn::LocalInvocationIndex);
        under(m, first, |i| i.op == Op::ControlBarrier)
    }),
    ("V055", "subgroups", |m| {
        let lane = builtin(m, BuiltIn::SubgroupLocalInvocationId);
        under(m, lane, |i| i.op == Op::GroupNonUniformIAdd)
    }),
    ("V060", "add", |m| {
        m.local_size = [64, 0, 1];
        None
    }),
    ("V061", "add", |m| {
        m.subgroup_size = Some(24);
        None
    }),
    ("V062", "add", |m| {
        if let GlobalKind::Buffer { binding, .. } = &mut m.globals[1].kind {
            *binding = 7;
        }
        Some(m.globals[1].at)
    }),
    ("V063", "add", |m| {
        let (first, second) = (m.globals[0].value, m.globals[1].value);
        let from_second = |i: &Inst| i.op == Op::AccessChain && i.value(0) == Some(second);
        edit_where(m, from_second, |i| i.operands[0] = Operand::Value(first));
        Some(m.globals[1].at)
    }),
    ("V064", "workgroup_sum", |m| {
        for ty in &mut m.types {
            if let Type::Array { len, .. } = ty {
                *len = 1 << 30;
            }
        }
        workgroup(m)
    }),
    ("V067", "workgroup_sum", |m| {
        m.stated.floor.workgroup_bytes = 16;
        workgroup(m)
    }),
    ("V068", "packed_dot", |m| {
        m.stated.requires = Some(BTreeSet::from([Capability::DotProduct]));
        edit(m, Op::SDot, |_| {})
    }),
    ("V065", "add", |m| {
        let number = constant(m, DType::U32, 77);
        m.values[number.0 as usize].kind = ValueKind::Const(Const::Bool(true));
        Some(m.values[number.0 as usize].at)
    }),
    ("V066", "workgroup_sum", |m| {
        let at = workgroup(m);
        m.globals
            .iter_mut()
            .filter(|g| g.kind == GlobalKind::Workgroup)
            .for_each(|g| g.class = StorageClass::Private);
        at
    }),
];

#[test]
fn every_rule_refuses_what_breaks_it_and_nothing_else() {
    for (code, fixture, spoil) in BROKEN {
        let good = fixtures::build(fixture).unwrap();
        assert!(verify(good.clone()).is_ok(), "{code}: the control {fixture} is accepted");
        let mut bad = good;
        let at = spoil(&mut bad);
        let errors = match verify(bad) {
            Ok(_) => panic!("{code}: a broken {fixture} is accepted"),
            Err(e) => e.errors,
        };
        let found = errors.iter().filter(|e| e.code == *code).collect::<Vec<_>>();
        assert!(!found.is_empty(), "{code} is not among {errors:?}");
        if let Some(at) = at {
            assert!(found.iter().any(|e| e.at == at), "{code} expected at {at}: {found:?}");
        }
        assert!(found.iter().all(|e| !e.message.is_empty()));
    }
}

#[test]
fn every_rule_has_a_broken_module() {
    let rules = STRUCTURE.iter().chain(MEANING).map(|r| r.code);
    let broken = BROKEN.iter().map(|b| b.0);
    assert_eq!(rules.collect::<BTreeSet<_>>(), broken.collect());
    assert_eq!(BROKEN.len(), STRUCTURE.len() + MEANING.len(), "one module per rule");
}

#[test]
fn an_atomics_order_is_whole_and_one_it_can_have() {
    // An acquiring store, a releasing load, a release without what makes it count, one of a failed exchange.
    for (op, at, semantics) in [
        (Op::AtomicStore, 2, 0x4142),
        (Op::AtomicLoad, 2, 0x2144),
        (Op::AtomicIAdd, 2, 0x4148),
        (Op::AtomicIAdd, 2, 0x6048),
        (Op::AtomicCompareExchange, 3, 0x2144),
    ] {
        let mut m = fixtures::build("atomics").unwrap();
        operand(&mut m, op, at, Operand::Semantics(MemorySemantics(semantics)));
        let errors = verify(m).unwrap_err().errors;
        assert!(matches!(&errors[..], [e] if e.code == "V049"), "{op:?} {semantics:#x}: {errors:?}");
    }
}

#[test]
fn all_errors_are_reported_at_once() {
    let mut m = fixtures::build("integers").unwrap();
    retype(&mut m, Op::IAdd, Type::Scalar(DType::I32));
    retype(&mut m, Op::Bitcast, Type::Scalar(DType::U16));
    m.local_size = [0, 0, 0];
    let codes: BTreeSet<_> = verify(m).unwrap_err().errors.into_iter().map(|e| e.code).collect();
    assert!(codes.is_superset(&BTreeSet::from(["V010", "V024", "V060"])), "{codes:?}");
}

fn intern(m: &mut Module, ty: Type) -> TypeId {
    let at = m.types.iter().position(|t| *t == ty).unwrap_or_else(|| {
        m.types.push(ty);
        m.types.len() - 1
    });
    TypeId(u32::try_from(at).unwrap())
}

fn constant(m: &mut Module, dtype: DType, bits: u32) -> ValueId {
    let ty = intern(m, Type::Scalar(dtype));
    let kind = ValueKind::Const(Const::Scalar { ty, bits });
    m.values.push(Value { ty, kind, region: None, at: Location::caller() });
    ValueId(u32::try_from(m.values.len() - 1).unwrap())
}

fn edit_where(
    m: &mut Module,
    wanted: impl Fn(&Inst) -> bool,
    change: impl FnOnce(&mut Inst),
) -> Option<Location> {
    let inst = find(&mut m.entry.body, &wanted).expect("the fixture has such an instruction");
    change(inst);
    Some(inst.at)
}

fn edit(m: &mut Module, op: Op, change: impl FnOnce(&mut Inst)) -> Option<Location> {
    edit_where(m, |i| i.op == op, change)
}

fn find<'m>(region: &'m mut Region, wanted: &dyn Fn(&Inst) -> bool) -> Option<&'m mut Inst> {
    region.nodes.iter_mut().find_map(|node| match node {
        Node::Inst(inst) => wanted(inst).then_some(inst),
        Node::If { then, otherwise, .. } => [then, otherwise].into_iter().find_map(|r| find(r, wanted)),
        Node::Loop { header, body, step, .. } => {
            [header, body, step].into_iter().find_map(|r| find(r, wanted))
        }
        Node::Print { .. } | Node::Break(_) | Node::Continue(_) | Node::Return(_) => None,
    })
}

fn operand(m: &mut Module, op: Op, position: usize, new: Operand) -> Option<Location> {
    edit(m, op, |i| i.operands[position] = new)
}

fn constant_operand(m: &mut Module, op: Op, position: usize, dtype: DType, bits: u32) -> Option<Location> {
    let value = constant(m, dtype, bits);
    operand(m, op, position, Operand::Value(value))
}

fn retype(m: &mut Module, op: Op, ty: Type) -> Option<Location> {
    let ty = intern(m, ty);
    let mut result = None;
    let at = edit(m, op, |i| result = i.result);
    m.values[result.unwrap().0 as usize].ty = ty;
    at
}

/// The loaded value of a builtin of the fixture.
fn builtin(m: &Module, builtin: BuiltIn) -> ValueId {
    let global = m.globals.iter().find(|g| g.kind == GlobalKind::BuiltIn(builtin)).unwrap();
    let load = m.entry.prologue.iter().find(|i| i.value(0) == Some(global.value)).unwrap();
    load.result.unwrap()
}

/// Puts the nodes that hold an instruction which `wanted` picks under `if index == 0`.
fn under(m: &mut Module, index: ValueId, wanted: fn(&Inst) -> bool) -> Option<Location> {
    let (zero, bool_) = (constant(m, DType::U32, 0), intern(m, Type::Scalar(DType::Bool)));
    let at = Location::caller();
    m.values.push(Value { ty: bool_, kind: ValueKind::Inst, region: Some(RegionId(0)), at });
    let cond = ValueId(u32::try_from(m.values.len() - 1).unwrap());
    let operands = vec![Operand::Value(index), Operand::Value(zero)];
    let compare = Inst { op: Op::IEqual, result: Some(cond), operands, no_contraction: false, at };
    let (mut found, mut nodes) = (None, vec![Node::Inst(compare)]);
    for node in std::mem::take(&mut m.entry.body.nodes) {
        let mut holds = None;
        for_each_node(&Region { id: RegionId(9000), nodes: vec![node.clone()] }, &mut |n| match n {
            Node::Inst(inst) if wanted(inst) => holds = holds.or(Some(inst.at)),
            _ => {}
        });
        match holds {
            Some(_) => {
                found = found.or(holds);
                let then = Region { id: RegionId(9001), nodes: vec![node] };
                let otherwise = Region { id: RegionId(9002), nodes: Vec::new() };
                nodes.push(Node::If { cond, then, otherwise, at });
            }
            None => nodes.push(node),
        }
    }
    m.entry.body.nodes = nodes;
    found
}

fn workgroup(m: &Module) -> Option<Location> {
    m.globals.iter().find(|g| g.kind == GlobalKind::Workgroup).map(|g| g.at)
}

/// Wraps the body in more branches than are allowed.
fn nest(m: &mut Module) -> Option<Location> {
    let cond = constant(m, DType::U32, 1);
    let at = Location::caller();
    for _ in 0..200 {
        let id = RegionId(0);
        let then = std::mem::replace(&mut m.entry.body, Region { id, nodes: Vec::new() });
        let otherwise = Region { id, nodes: Vec::new() };
        m.entry.body.nodes.push(Node::If { cond, then, otherwise, at });
    }
    Some(at)
}
