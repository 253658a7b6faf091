//! Scope, conditions and the ways out of a block, checked on the finished tree.

use kiln_abi::Location;

use super::{
    Report,
    facts::{Facts, Shape},
};
use crate::ir::{Callee, Function, Inst, Node, Operand, Region, ValueId, ValueKind, for_each_node};

pub(super) fn scope(facts: &Facts<'_>, report: &mut Report<'_>) {
    let everywhere = |v: &crate::ir::Value| matches!(v.kind, ValueKind::Const(_) | ValueKind::Global(_));
    let mut walk = Scope { facts, visible: facts.module.values.iter().map(everywhere).collect(), report };
    let module = facts.module;
    walk.function(&module.entry, &[]);
    for callee in &module.callees {
        walk.function(&callee.function, &callee.params);
        walk.result(callee);
    }
}

struct Scope<'a, 'm, 'e> {
    facts: &'a Facts<'m>,
    /// For each value, whether it can be used here.
    visible: Vec<bool>,
    report: &'a mut Report<'e>,
}

impl Scope<'_, '_, '_> {
    fn used(&mut self, value: ValueId, at: Location) {
        if !self.visible[value.0 as usize] {
            let made = self.facts.module.value(value).at;
            let message = format!("the value made at {made} is not visible here; keep it in a `let mut`");
            self.report.add(at, message);
        }
    }

    /// Walks a function; what is its own is visible until the next one.
    fn function(&mut self, function: &Function, params: &[ValueId]) {
        for (value, visible) in self.facts.module.values.iter().zip(&mut self.visible) {
            *visible = matches!(value.kind, ValueKind::Const(_) | ValueKind::Global(_));
        }
        for own in params.iter().chain(&function.locals) {
            self.visible[own.0 as usize] = true;
        }
        function.prologue.iter().for_each(|inst| self.inst(inst));
        self.region(&function.body);
    }

    /// A callee gives a value of its own, at its end.
    fn result(&mut self, callee: &Callee) {
        self.used(callee.returns, callee.at);
        if callee.function.body.terminated() {
            self.report.add(callee.at, "expected a function that ends where it ends".to_owned());
        }
    }

    fn inst(&mut self, inst: &Inst) {
        for operand in &inst.operands {
            if let Operand::Value(value) = operand {
                self.used(*value, inst.at);
            }
        }
        if let Some(result) = inst.result {
            self.visible[result.0 as usize] = true;
        }
    }

    /// Walks the region; its values stay visible until they are hidden again.
    fn region(&mut self, region: &Region) {
        for node in &region.nodes {
            match node {
                Node::Inst(inst) => self.inst(inst),
                Node::If { cond, then, otherwise, at } => {
                    self.used(*cond, *at);
                    for arm in [then, otherwise] {
                        self.region(arm);
                        self.hide(arm);
                    }
                }
                Node::Loop { header, cond, body, step, at, .. } => {
                    self.region(header);
                    if let Some(cond) = cond {
                        self.used(*cond, *at);
                    }
                    for inner in [body, step] {
                        self.region(inner);
                        self.hide(inner);
                    }
                    self.hide(header);
                }
                Node::Print { values, at, .. } => values.iter().for_each(|&v| self.used(v, *at)),
                Node::Break(_) | Node::Continue(_) | Node::Return(_) => {}
            }
        }
    }

    fn hide(&mut self, region: &Region) {
        for node in &region.nodes {
            if let Node::Inst(Inst { result: Some(result), .. }) = node {
                self.visible[result.0 as usize] = false;
            }
        }
    }
}

pub(super) fn condition(facts: &Facts<'_>, report: &mut Report<'_>) {
    let mut check = |node: &Node| {
        let (cond, at) = match node {
            Node::If { cond, at, .. } | Node::Loop { cond: Some(cond), at, .. } => (*cond, *at),
            _ => return,
        };
        if facts.shape_of(cond) != Some(Shape::BOOL) {
            let found = facts.name(facts.module.value(cond).ty);
            report.add(at, format!("expected a bool condition; found {found}; compare it with something"));
        }
    };
    facts.module.functions().for_each(|f| for_each_node(&f.body, &mut |node| check(node)));
}

/// Where a node stands: what it may leave.
#[derive(Clone, Copy)]
enum Place {
    /// Outside loops.
    Open,
    /// In a loop's body.
    Body,
    /// In a loop's test or step, which end where they end.
    Closed,
}

pub(super) fn leaves(facts: &Facts<'_>, report: &mut Report<'_>) {
    check_leaves(&facts.module.entry.body, Place::Open, report);
    for callee in &facts.module.callees {
        check_leaves(&callee.function.body, Place::Open, report);
        for_each_node(&callee.function.body, &mut |node| {
            if let Node::Return(at) = node {
                report.add(*at, "a function that an instruction calls ends where it ends".to_owned());
            }
        });
    }
}

fn check_leaves(region: &Region, place: Place, report: &mut Report<'_>) {
    for node in &region.nodes {
        match (node, place) {
            (Node::Break(at) | Node::Continue(at), Place::Open) => {
                report.add(*at, "expected a loop around it; found none".to_owned());
            }
            (Node::Break(at) | Node::Continue(at) | Node::Return(at), Place::Closed) => {
                let message = "a loop's condition and step cannot leave it; move this into the body";
                report.add(*at, message.to_owned());
            }
            (Node::If { then, otherwise, .. }, _) => {
                check_leaves(then, place, report);
                check_leaves(otherwise, place, report);
            }
            (Node::Loop { header, body, step, .. }, _) => {
                check_leaves(header, Place::Closed, report);
                // A whole loop inside a test or step is left only at its end.
                check_leaves(body, Place::Body, report);
                check_leaves(step, Place::Closed, report);
            }
            (
                Node::Inst(_) | Node::Print { .. } | Node::Return(_) | Node::Break(_) | Node::Continue(_),
                _,
            ) => {}
        }
    }
}

pub(super) fn reachable(facts: &Facts<'_>, report: &mut Report<'_>) {
    let mut check = |region: &Region| {
        if let Some(end) = region.nodes.iter().position(Node::terminated)
            && let Some(next) = region.nodes.get(end + 1)
        {
            let message = "this is never reached: the block has already left by return, break or continue, or by a `loop` without `break`";
            report.add(place(next), message.to_owned());
        }
    };
    facts.module.functions().for_each(|f| check(&f.body));
    let mut inner = |node: &Node| match node {
        Node::If { then, otherwise, .. } => [then, otherwise].into_iter().for_each(&mut check),
        Node::Loop { header, body, step, .. } => [header, body, step].into_iter().for_each(&mut check),
        Node::Inst(_) | Node::Print { .. } | Node::Break(_) | Node::Continue(_) | Node::Return(_) => {}
    };
    facts.module.functions().for_each(|f| for_each_node(&f.body, &mut |node| inner(node)));
}

fn place(node: &Node) -> Location {
    match node {
        Node::Inst(inst) => inst.at,
        Node::If { at, .. }
        | Node::Loop { at, .. }
        | Node::Print { at, .. }
        | Node::Break(at)
        | Node::Continue(at)
        | Node::Return(at) => *at,
    }
}
