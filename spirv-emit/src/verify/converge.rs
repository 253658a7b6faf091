//! Barriers and subgroup operations stand where every invocation they wait for arrives.
//!
//! Refused is what provably goes wrong: a condition made of the invocation's index around the operation, a loop that
//! invocations leave at different rounds, a return of some of them before it. A condition on loaded data may hold for
//! all, so it passes here; the interpreter watches it run.

use kiln_abi::{
    Location,
    spirv::{Effect, Op, Scope},
};

use super::{Report, facts::Facts, uniform::Uniformity};
use crate::ir::{Inst, Node, Operand, Region, ValueId};

pub(super) fn barriers(facts: &Facts<'_>, report: &mut Report<'_>) {
    check(facts, report, |inst| match (inst.op, inst.operands.first()) {
        (Op::ControlBarrier, Some(Operand::Scope(Scope::Subgroup))) => Some(Needs::Lanes),
        (Op::ControlBarrier, _) => Some(Needs::Workgroup),
        _ => None,
    });
}

pub(super) fn subgroup_operations(facts: &Facts<'_>, report: &mut Report<'_>) {
    check(facts, report, |inst| {
        // Electing one of the lanes that are there is meant for them.
        let collective = inst.op.effect() == Effect::Subgroup && inst.op != Op::GroupNonUniformElect;
        collective.then_some(Needs::Lanes)
    });
}

/// Who has to arrive.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    Workgroup,
    Lanes,
}

/// Where invocations last parted: those of the workgroup, and lanes of one subgroup.
#[derive(Clone, Copy, Default)]
struct Parted {
    workgroup: Option<Location>,
    lanes: Option<Location>,
}

impl Parted {
    fn or(self, other: Parted) -> Parted {
        Parted { workgroup: self.workgroup.or(other.workgroup), lanes: self.lanes.or(other.lanes) }
    }
}

struct Walk<'w, 'f, 'm, 'e> {
    uniformity: &'w Uniformity<'f, 'm>,
    needs: fn(&Inst) -> Option<Needs>,
    /// Some invocations have returned.
    returned: Parted,
    report: &'w mut Report<'e>,
}

fn check(facts: &Facts<'_>, report: &mut Report<'_>, needs: fn(&Inst) -> Option<Needs>) {
    if facts.insts.iter().any(|inst| needs(inst).is_some()) {
        let uniformity = Uniformity::new(facts);
        let mut walk = Walk { uniformity: &uniformity, needs, returned: Parted::default(), report };
        walk.region(&facts.module.entry.body, Parted::default());
    }
}

impl Walk<'_, '_, '_, '_> {
    /// Walks the region; returns where invocations left it for the innermost loop's end or step.
    fn region(&mut self, region: &Region, parted: Parted) -> Parted {
        let mut left = Parted::default();
        for node in &region.nodes {
            let parted = parted.or(left).or(self.returned);
            match node {
                Node::Inst(inst) => self.inst(inst, parted),
                Node::If { cond, then, otherwise, at } => {
                    let here = parted.or(parts(self.uniformity, *cond, *at));
                    for arm in [then, otherwise] {
                        left = left.or(self.region(arm, here));
                    }
                }
                Node::Loop { header, cond, body, step, at, .. } => {
                    let mut here = parted.or(leaving(self.uniformity, body, Parted::default(), false));
                    if let Some(cond) = cond {
                        here = here.or(parts(self.uniformity, *cond, *at));
                    }
                    self.region(header, here);
                    self.region(body, here);
                    self.region(step, here);
                }
                Node::Print { .. } => {}
                Node::Break(_) | Node::Continue(_) => left = left.or(parted),
                Node::Return(_) => self.returned = self.returned.or(parted),
            }
        }
        left
    }

    fn inst(&mut self, inst: &Inst, parted: Parted) {
        let (who, at) = match (self.needs)(inst) {
            Some(Needs::Workgroup) => ("every invocation of the workgroup", parted.workgroup),
            Some(Needs::Lanes) => ("every lane of the subgroup", parted.lanes),
            None => return,
        };
        if let Some(at) = at {
            let message = format!(
                "expected {who} here; found a condition at {at} that differs between them; move this out of it"
            );
            self.report.add(inst.at, message);
        }
    }
}

fn parts(uniformity: &Uniformity<'_, '_>, cond: ValueId, at: Location) -> Parted {
    let differs = uniformity.differs(cond);
    Parted { workgroup: differs.map(|_| at), lanes: differs.filter(|lanes| *lanes).map(|_| at) }
}

/// Where some invocations leave the loop, or the kernel, while others go on to its next round; a `break` of a loop
/// further in stays inside.
fn leaving(uniformity: &Uniformity<'_, '_>, region: &Region, parted: Parted, inner: bool) -> Parted {
    let mut left = Parted::default();
    for node in &region.nodes {
        match node {
            Node::Return(_) => left = left.or(parted),
            Node::Break(_) if !inner => left = left.or(parted),
            Node::If { cond, then, otherwise, at } => {
                let here = parted.or(parts(uniformity, *cond, *at));
                left = left.or(leaving(uniformity, then, here, inner));
                left = left.or(leaving(uniformity, otherwise, here, inner));
            }
            Node::Loop { body, .. } => left = left.or(leaving(uniformity, body, parted, true)),
            Node::Inst(_) | Node::Print { .. } | Node::Break(_) | Node::Continue(_) => {}
        }
    }
    left
}
