//! Which values are the same on every invocation of a workgroup, and which provably are not.
//!
//! A value that follows from the invocation's own index by arithmetic is computed for each invocation, so that
//! `local_id() / 32 == 0` is known to be uniform in a workgroup of 32. What was loaded from a buffer or from workgroup
//! memory may be either: it is unknown, and nothing is claimed of it.

use std::rc::Rc;

use kiln_abi::{
    DType,
    spirv::{BuiltIn, Effect, Op},
};

use super::facts::Facts;
use crate::{
    fold::{Known, evaluate, scalar},
    ir::{GlobalKind, Inst, Node, Operand, Region, ValueId, ValueKind},
};

/// Larger workgroups are not computed invocation by invocation.
const MOST: u32 = 4096;
/// Classes of variables only go down, so a few rounds settle them.
const ROUNDS: u32 = 8;

/// What is known of a value over the invocations of one workgroup.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Class {
    /// Not reached yet; only a variable that nothing was stored to.
    Fresh,
    /// One value for all, whatever it is.
    Uniform,
    /// The value on each invocation, by flat index; not all the same.
    Each(Rc<[Known]>),
    /// Made of each invocation's index and of what is the same for all.
    Varying {
        /// Also within a subgroup.
        lanes: bool,
    },
    /// Nothing.
    Unknown,
}

/// The classes of a module's values.
pub(super) struct Uniformity<'f, 'm> {
    facts: &'f Facts<'m>,
    invocations: u32,
    /// Lanes of a stated subgroup, or 2: every subgroup that matters has neighbors in it.
    lanes: usize,
    values: Vec<Class>,
    /// When each value's class last changed, and when it was last made of its operands'; 0 for never.
    changed: Vec<u32>,
    made: Vec<u32>,
    now: u32,
}

impl<'f, 'm> Uniformity<'f, 'm> {
    pub(super) fn new(facts: &'f Facts<'m>) -> Self {
        let module = facts.module;
        let invocations = module.local_size.iter().try_fold(1u32, |n, &axis| n.checked_mul(axis));
        let lanes = module.subgroup_size.unwrap_or(2).clamp(1, 128) as usize;
        let values = module.values.iter().map(|v| match v.kind {
            ValueKind::Const(_) => Class::Uniform,
            ValueKind::Local(_) => Class::Fresh,
            ValueKind::Global(_) | ValueKind::Param | ValueKind::Inst => Class::Unknown,
        });
        let invocations = invocations.unwrap_or(u32::MAX);
        let never = vec![0; module.values.len()];
        let mut all = Uniformity {
            facts,
            invocations,
            lanes,
            values: values.collect(),
            changed: never.clone(),
            made: never,
            now: 0,
        };
        for _ in 0..ROUNDS {
            let before = all.now;
            module.entry.prologue.iter().for_each(|inst| all.inst(inst, false));
            all.region(&module.entry.body, false);
            if all.changed.iter().all(|&at| at <= before) {
                return all;
            }
        }
        // Not settled: claim nothing of variables.
        for (value, class) in module.values.iter().zip(&mut all.values) {
            if !matches!(value.kind, ValueKind::Const(_)) {
                *class = Class::Unknown;
            }
        }
        all
    }

    /// Whether a condition provably differs between invocations, and whether also within a subgroup.
    pub(super) fn differs(&self, cond: ValueId) -> Option<bool> {
        self.varies(&self.values[cond.0 as usize])
    }

    fn varies(&self, class: &Class) -> Option<bool> {
        match class {
            Class::Each(values) => Some(self.within_subgroup(values)),
            Class::Varying { lanes } => Some(*lanes),
            Class::Fresh | Class::Uniform | Class::Unknown => None,
        }
    }

    fn within_subgroup(&self, values: &[Known]) -> bool {
        values.chunks(self.lanes).any(|lanes| lanes.iter().any(|v| *v != lanes[0]))
    }

    fn region(&mut self, region: &Region, split: bool) {
        for node in &region.nodes {
            match node {
                Node::Inst(inst) => self.inst(inst, split),
                Node::If { cond, then, otherwise, .. } => {
                    let split = split || self.values[cond.0 as usize] != Class::Uniform;
                    self.region(then, split);
                    self.region(otherwise, split);
                }
                Node::Loop { header, cond, body, step, .. } => {
                    self.region(header, split);
                    let split = split || cond.is_some_and(|c| self.values[c.0 as usize] != Class::Uniform);
                    self.region(body, split);
                    self.region(step, split);
                }
                Node::Print { .. } | Node::Break(_) | Node::Continue(_) | Node::Return(_) => {}
            }
        }
    }

    fn inst(&mut self, inst: &Inst, split: bool) {
        if inst.op == Op::Store {
            self.store(inst, split);
        }
        let Some(result) = inst.result else { return };
        let operands = (0..inst.operands.len()).filter_map(|i| inst.value(i));
        let last = operands.map(|v| self.changed[v.0 as usize]).max().unwrap_or(0);
        let made = self.made[result.0 as usize];
        // A class follows from the operands' own, and takes a computation for each invocation.
        if made == 0 || made < last {
            self.set(result, self.class(inst));
            self.made[result.0 as usize] = self.now;
        }
    }

    fn set(&mut self, value: ValueId, class: Class) {
        self.now += 1;
        let old = &mut self.values[value.0 as usize];
        if *old != class {
            *old = class;
            self.changed[value.0 as usize] = self.now;
        }
    }

    /// A variable is what every store to it is. Invocations that a branch leaves out keep what they had.
    fn store(&mut self, inst: &Inst, split: bool) {
        let Some(root) = inst.value(0).and_then(|p| self.facts.roots[p.0 as usize]) else { return };
        if !matches!(self.facts.module.value(root).kind, ValueKind::Local(_)) {
            return;
        }
        let whole = inst.value(0) == Some(root);
        let stored = inst.value(1).map_or(Class::Unknown, |v| self.values[v.0 as usize].clone());
        let old = self.values[root.0 as usize].clone();
        let mixed = split && (self.varies(&old).is_none() || self.varies(&stored).is_none());
        let stored = if mixed || !whole { Class::Unknown } else { stored };
        let joined = self.join(old, stored);
        self.set(root, joined);
    }

    fn join(&self, a: Class, b: Class) -> Class {
        match (a, b) {
            (Class::Fresh, c) | (c, Class::Fresh) => c,
            (a, b) if a == b => a,
            (a, b) => match (self.varies(&a), self.varies(&b)) {
                (Some(a), Some(b)) => Class::Varying { lanes: a && b },
                _ => Class::Unknown,
            },
        }
    }

    fn class(&self, inst: &Inst) -> Class {
        match inst.op {
            Op::Load => self.load(inst),
            Op::GroupNonUniformElect if self.invocations > 1 => Class::Varying { lanes: true },
            Op::CompositeExtract => self.axis(inst).unwrap_or_else(|| self.computed(inst)),
            op if matches!(op.effect(), Effect::Pure | Effect::Partial) => self.computed(inst),
            _ => Class::Unknown,
        }
    }

    fn load(&self, inst: &Inst) -> Class {
        let Some(pointer) = inst.value(0) else { return Class::Unknown };
        let Some(root) = self.facts.roots[pointer.0 as usize] else { return Class::Unknown };
        let module = self.facts.module;
        match module.value(root).kind {
            ValueKind::Local(_) if root == pointer => self.values[root.0 as usize].clone(),
            ValueKind::Global(g) => match &module.globals[g].kind {
                GlobalKind::Push { .. } => Class::Uniform,
                GlobalKind::BuiltIn(builtin) => self.builtin(*builtin),
                _ => Class::Unknown,
            },
            ValueKind::Local(_) | ValueKind::Const(_) | ValueKind::Param | ValueKind::Inst => Class::Unknown,
        }
    }

    fn builtin(&self, builtin: BuiltIn) -> Class {
        let stated = self.facts.module.subgroup_size;
        match (builtin, stated) {
            (BuiltIn::NumWorkgroups | BuiltIn::WorkgroupId, _)
            | (BuiltIn::SubgroupSize | BuiltIn::NumSubgroups, _) => Class::Uniform,
            (BuiltIn::LocalInvocationIndex, _) => self.each(|i| i),
            (BuiltIn::SubgroupLocalInvocationId, Some(n)) if n > 0 => self.each(|i| i % n),
            (BuiltIn::SubgroupId, Some(n)) if n > 0 => self.each(|i| i / n),
            (BuiltIn::SubgroupLocalInvocationId, _) if self.invocations > 1 => Class::Varying { lanes: true },
            // The vectors are taken apart by `axis`.
            _ => Class::Unknown,
        }
    }

    /// A component of an invocation's place in its workgroup or in the dispatch.
    fn axis(&self, inst: &Inst) -> Option<Class> {
        let vector = inst.value(0)?;
        let Some(&Operand::Lit(axis)) = inst.operands.get(1) else { return None };
        let module = self.facts.module;
        let load = module.entry.prologue.iter().find(|i| i.result == Some(vector) && i.op == Op::Load)?;
        let ValueKind::Global(g) = module.value(load.value(0)?).kind else { return None };
        let [x, y, _] = module.local_size;
        let place = |i: u32| match axis {
            0 => i % x,
            1 => i / x % y,
            _ => i / x / y,
        };
        match module.globals[g].kind {
            GlobalKind::BuiltIn(BuiltIn::LocalInvocationId) => Some(self.each(place)),
            GlobalKind::BuiltIn(BuiltIn::GlobalInvocationId) => Some(self.with_uniform(&self.each(place))),
            _ => None,
        }
    }

    /// A value on each invocation; a uniform one when all are the same.
    fn each(&self, of: impl Fn(u32) -> u32) -> Class {
        if self.invocations > MOST || self.invocations == 0 {
            return Class::Varying { lanes: false };
        }
        let values = (0..self.invocations).map(|i| Known { dtype: DType::U32, n: of(i).into() });
        settled(values.collect())
    }

    /// That value together with one that is the same for all.
    fn with_uniform(&self, class: &Class) -> Class {
        match self.varies(class) {
            Some(lanes) => Class::Varying { lanes },
            None => class.clone(),
        }
    }

    fn computed(&self, inst: &Inst) -> Class {
        let operands: Vec<ValueId> = (0..inst.operands.len()).filter_map(|i| inst.value(i)).collect();
        let classes: Vec<&Class> = operands.iter().map(|v| &self.values[v.0 as usize]).collect();
        if classes.iter().any(|c| matches!(c, Class::Unknown | Class::Fresh)) {
            return Class::Unknown;
        }
        if classes.iter().all(|c| **c == Class::Uniform) {
            return Class::Uniform;
        }
        self.evaluated(inst, &operands).unwrap_or_else(|| {
            let lanes = classes.iter().any(|c| self.varies(c) == Some(true));
            Class::Varying { lanes }
        })
    }

    /// The result on each invocation, if every operand is known on each.
    fn evaluated(&self, inst: &Inst, operands: &[ValueId]) -> Option<Class> {
        let to = self.facts.result(inst).filter(|to| to.lanes == 1)?.dtype;
        let known = |v: &ValueId| match &self.values[v.0 as usize] {
            Class::Each(values) => Some(On::Each(values)),
            _ => scalar(self.facts.module, *v).map(On::All),
        };
        let all = 0..self.invocations as usize;
        let values: Option<Vec<Known>> = match *operands {
            [a] => {
                let a = known(&a)?;
                all.map(|i| evaluate(inst.op, to, &[a.at(i)?])).collect()
            }
            [a, b] => {
                let (a, b) = (known(&a)?, known(&b)?);
                all.map(|i| evaluate(inst.op, to, &[a.at(i)?, b.at(i)?])).collect()
            }
            // Nothing of more operands is folded.
            _ => None,
        };
        values.map(settled)
    }
}

/// An operand on the invocations.
enum On<'a> {
    Each(&'a [Known]),
    All(Known),
}

impl On<'_> {
    fn at(&self, invocation: usize) -> Option<Known> {
        match self {
            On::Each(values) => values.get(invocation).copied(),
            On::All(known) => Some(*known),
        }
    }
}

fn settled(values: Vec<Known>) -> Class {
    match values.iter().all(|v| *v == values[0]) {
        true => Class::Uniform,
        false => Class::Each(values.into()),
    }
}
