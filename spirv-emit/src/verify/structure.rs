//! Ids, operands and results are in order: what every other rule takes for granted.

use kiln_abi::{
    Location,
    spirv::{Effect, Op, OpResult, OperandKind, Scope},
};

use super::Report;
use crate::ir::{
    Const, GlobalKind, Inst, Module, Node, Operand, Region, Type, TypeId, ValueId, ValueKind, for_each_node,
};

/// Deeper than any kernel nests its blocks, and shallow enough for every pass to walk.
const MAX_NESTING: u32 = 128;

pub(super) fn ids(module: &Module, report: &mut Report<'_>) {
    let (n_types, n_values) = (module.types.len(), module.values.len());
    let missing_type = |ty: TypeId| ty.0 as usize >= n_types;
    let missing = |v: ValueId| v.0 as usize >= n_values;
    for (i, ty) in module.types.iter().enumerate() {
        let later = |part: TypeId| part.0 as usize >= i;
        let wrong = match ty {
            Type::Scalar(_) => false,
            Type::Vector { n, .. } => !(2..=4).contains(n),
            Type::Array { elem, len, .. } => *len == 0 || later(*elem),
            Type::RuntimeArray { elem, .. } => later(*elem),
            Type::Struct { members, .. } => members.is_empty() || members.iter().any(|m| later(m.ty)),
            Type::Pointer { pointee, .. } => later(*pointee),
            Type::Matrix(m) => {
                m.rows == 0 || m.cols == 0 || !matches!(m.scope, Scope::Subgroup | Scope::Workgroup)
            }
            Type::TensorLayout { rank, .. } => !(1..=5).contains(rank),
            Type::TensorView { permutation, .. } => {
                let n = permutation.len();
                !(1..=5).contains(&n) || (0..n).any(|d| !permutation.iter().any(|&p| p as usize == d))
            }
        };
        if wrong {
            report.add(Location::caller(), format!("type {i} is empty or not made of earlier types: {ty:?}"));
        }
    }
    for (i, value) in module.values.iter().enumerate() {
        let later = |part: &ValueId| {
            part.0 as usize >= i || !matches!(module.values[part.0 as usize].kind, ValueKind::Const(_))
        };
        let wrong = match &value.kind {
            ValueKind::Const(Const::Composite { ty, parts }) => *ty != value.ty || parts.iter().any(later),
            ValueKind::Const(Const::Scalar { ty, .. } | Const::Null(ty)) => *ty != value.ty,
            ValueKind::Const(Const::Bool(_)) | ValueKind::Inst => false,
            ValueKind::Global(g) => module.globals.get(*g).is_none_or(|g| g.value.0 as usize != i),
            ValueKind::Local(l) => {
                !module.functions().any(|f| f.locals.get(*l).is_some_and(|l| l.0 as usize == i))
            }
            ValueKind::Param => !module.callees.iter().any(|c| c.params.iter().any(|p| p.0 as usize == i)),
        };
        if wrong || missing_type(value.ty) {
            report
                .add(value.at, format!("value {i} refers to a type, variable or constant that is not there"));
        }
    }
    for (i, global) in module.globals.iter().enumerate() {
        let ty = match &global.kind {
            GlobalKind::Buffer { elem: ty, .. } | GlobalKind::Push { block: ty } => Some(*ty),
            GlobalKind::Workgroup | GlobalKind::BuiltIn(_) => None,
        };
        let kind = module.values.get(global.value.0 as usize).map(|v| &v.kind);
        if kind != Some(&ValueKind::Global(i)) || ty.is_some_and(missing_type) {
            report.add(global.at, format!("variable {} has no value or no type of its own", global.name));
        }
    }
    for callee in &module.callees {
        let param = |v: &ValueId| module.values.get(v.0 as usize).map(|v| &v.kind) != Some(&ValueKind::Param);
        if callee.params.iter().any(param) || missing(callee.returns) {
            report.add(callee.at, "a function's parameter or result is not there".to_owned());
        }
    }
    for (i, local) in module.functions().flat_map(|f| f.locals.iter().enumerate()) {
        if module.values.get(local.0 as usize).map(|v| &v.kind) != Some(&ValueKind::Local(i)) {
            report.add(Location::caller(), format!("local variable {i} has no value of its own"));
        }
    }
    let mut check = |values: &[Option<ValueId>], at: Location| {
        if values.iter().flatten().any(|&v| missing(v)) {
            report.add(at, "a value is used that is not there".to_owned());
        }
    };
    for_each_inst(module, &mut |inst| {
        let values = (0..inst.operands.len()).map(|i| inst.value(i)).chain([inst.result]);
        check(&values.collect::<Vec<_>>(), inst.at);
        let no_type = |o: &Operand| match o {
            Operand::Type(ty) => missing_type(*ty),
            Operand::Callee(callee) => *callee >= module.callees.len(),
            _ => false,
        };
        if inst.operands.iter().any(no_type) {
            check(&[Some(ValueId(u32::MAX))], inst.at);
        }
    });
    let mut nodes = |node: &Node| match node {
        Node::If { cond, at, .. } => check(&[Some(*cond)], *at),
        Node::Loop { cond, at, .. } => check(&[*cond], *at),
        Node::Print { values, at, .. } => check(&values.iter().copied().map(Some).collect::<Vec<_>>(), *at),
        Node::Inst(_) | Node::Break(_) | Node::Continue(_) | Node::Return(_) => {}
    };
    module.functions().for_each(|f| for_each_node(&f.body, &mut |node| nodes(node)));
}

pub(super) fn ops(module: &Module, report: &mut Report<'_>) {
    for_each_inst(module, &mut |inst| {
        // Blocks give values through variables here: nothing merges by a phi.
        if inst.op == Op::Phi || matches!(inst.op.effect(), Effect::Declare | Effect::Control | Effect::Call)
        {
            let name = inst.op.name();
            report.add(inst.at, format!("expected an instruction of a block; found {name}, which is none"));
        }
    });
}

pub(super) fn operands(module: &Module, report: &mut Report<'_>) {
    for_each_inst(module, &mut |inst| {
        if !operands_fit(inst) {
            let (name, n) = (inst.op.name(), inst.operands.len());
            let expected = inst.op.operands();
            report
                .add(inst.at, format!("{name} takes {expected:?}; found {n} operands: {:?}", inst.operands));
        }
    });
}

/// Whether one of the instruction's own operands is a function.
fn calls(op: Op) -> bool {
    matches!(op, Op::CooperativeMatrixReduceNV | Op::CooperativeMatrixPerElementOpNV)
}

fn operands_fit(inst: &Inst) -> bool {
    // The writer adds the instruction set's id and the memory operands.
    let kinds = match inst.op {
        Op::ExtInst => &inst.op.operands()[1..],
        _ => inst.op.operands(),
    };
    let mut rest = inst.operands.as_slice();
    for kind in kinds {
        let fits = |operand: &Operand| match kind {
            OperandKind::Id if inst.op == Op::CooperativeMatrixLengthKHR => {
                matches!(operand, Operand::Type(_))
            }
            OperandKind::Id if matches!(operand, Operand::Callee(_)) => calls(inst.op),
            OperandKind::Id | OperandKind::Ids => matches!(operand, Operand::Value(_)),
            OperandKind::Literal
            | OperandKind::Literals
            | OperandKind::OptMatrixOperands
            | OperandKind::MatrixReduce
            | OperandKind::TensorOperands => matches!(operand, Operand::Lit(_)),
            OperandKind::PackedFormat => *operand == Operand::Lit(0),
            OperandKind::Scope => matches!(operand, Operand::Scope(_)),
            OperandKind::Semantics => matches!(operand, Operand::Semantics(_)),
            OperandKind::GroupOperation => matches!(operand, Operand::Group(_)),
            OperandKind::GlslOp => matches!(operand, Operand::Glsl(_)),
            OperandKind::String
            | OperandKind::ContextLiteral
            | OperandKind::OptMemory
            | OperandKind::OptFloatEncoding
            | OperandKind::StorageClass
            | OperandKind::Decoration
            | OperandKind::Capability
            | OperandKind::ExecutionMode
            | OperandKind::LoopControl
            | OperandKind::SelectionControl => false,
        };
        match kind {
            OperandKind::OptMemory => {}
            OperandKind::OptMatrixOperands if rest.is_empty() => {}
            OperandKind::TensorOperands => match rest.split_first() {
                Some((Operand::Lit(mask), ids))
                    if ids.len() == mask.count_ones() as usize
                        && ids.iter().all(|id| matches!(id, Operand::Value(_) | Operand::Callee(_))) =>
                {
                    rest = &[];
                }
                _ => return false,
            },
            OperandKind::Ids | OperandKind::Literals => {
                if !rest.iter().all(fits) {
                    return false;
                }
                rest = &[];
            }
            _ => match rest.split_first() {
                Some((first, others)) if fits(first) => rest = others,
                _ => return false,
            },
        }
    }
    rest.is_empty()
}

pub(super) fn results(module: &Module, report: &mut Report<'_>) {
    let mut made = vec![false; module.values.len()];
    for_each_inst(module, &mut |inst| {
        let (name, has) = (inst.op.name(), inst.op.result() != OpResult::None);
        let Some(result) = inst.result else {
            if has {
                report.add(inst.at, format!("expected a result of {name}; found none"));
            }
            return;
        };
        match module.values.get(result.0 as usize) {
            Some(value) if has && value.kind == ValueKind::Inst => {}
            _ => report.add(inst.at, format!("{name} cannot give value {}", result.0)),
        }
        if let Some(made) = made.get_mut(result.0 as usize)
            && std::mem::replace(made, true)
        {
            report.add(inst.at, format!("value {} is made a second time, by {name}", result.0));
        }
    });
}

pub(super) fn nesting(module: &Module, report: &mut Report<'_>) {
    if let Some(at) = module.functions().find_map(|f| too_deep(&f.body, MAX_NESTING)) {
        report.add(at, format!("expected blocks nested at most {MAX_NESTING} deep; found more; use a loop"));
    }
}

fn too_deep(region: &Region, left: u32) -> Option<Location> {
    region.nodes.iter().find_map(|node| match node {
        Node::If { at, .. } | Node::Loop { at, .. } if left == 0 => Some(*at),
        Node::If { then, otherwise, .. } => {
            too_deep(then, left - 1).or_else(|| too_deep(otherwise, left - 1))
        }
        Node::Loop { header, body, step, .. } => too_deep(header, left - 1)
            .or_else(|| too_deep(body, left - 1))
            .or_else(|| too_deep(step, left - 1)),
        Node::Inst(_) | Node::Print { .. } | Node::Break(_) | Node::Continue(_) | Node::Return(_) => None,
    })
}

fn for_each_inst<'m>(module: &'m Module, f: &mut dyn FnMut(&'m Inst)) {
    module.insts().into_iter().for_each(f);
}
