//! Functions that instructions call: what they may see of the kernel, what is made again in them, and what is handed in.

use std::collections::BTreeMap;

use kiln_abi::{
    Location,
    spirv::{BuiltIn, Effect, Op},
};

use super::Builder;
use crate::ir::{
    Callee, Function, GlobalKind, Inst, Node, Operand, Region, RegionId, Type, TypeId, ValueId, ValueKind,
};

/// A callee under construction.
pub(super) struct OpenCallee {
    params: Vec<ValueId>,
    /// Its own variables.
    pub(super) locals: Vec<ValueId>,
    /// Builtins that it has loaded.
    pub(super) builtins: BTreeMap<BuiltIn, ValueId>,
    /// Values of the kernel that were made again, and what they are in it.
    again: BTreeMap<ValueId, ValueId>,
    /// Regions open around it; only those inside it are visible.
    pub(super) floor: usize,
    /// Loops open around it.
    pub(super) loops: Vec<RegionId>,
}

impl Builder {
    /// Starts a callee; until [`Builder::close_callee`] instructions go into it, and it sees constants, buffers,
    /// push constants, builtins and its parameters. What the kernel computed of these alone is computed again when it
    /// is used; anything else has to be handed in. A callee has no callees.
    pub fn open_callee(&mut self, params: &[TypeId], at: Location) -> Vec<ValueId> {
        if self.callee.is_some() {
            self.error("E023", "a function that an instruction calls calls none itself".to_owned(), at);
        }
        let params: Vec<ValueId> =
            params.iter().map(|&ty| self.value(ty, ValueKind::Param, None, at)).collect();
        self.callee = Some(OpenCallee {
            params: params.clone(),
            locals: Vec::new(),
            builtins: BTreeMap::new(),
            again: BTreeMap::new(),
            floor: self.open.len(),
            loops: std::mem::take(&mut self.loop_headers),
        });
        self.open_region();
        params
    }

    /// Ends the callee with the value it gives; returns its index.
    pub fn close_callee(&mut self, returns: ValueId, at: Location) -> usize {
        let returns = self.brought_in(returns);
        self.check_operands(&[Operand::Value(returns)], at);
        let body: Region = self.close_region();
        if let Some(open) = self.callee.take() {
            self.loop_headers = open.loops;
            let function = Function { locals: open.locals, prologue: Vec::new(), body };
            self.module.callees.push(Callee { params: open.params, function, returns, at });
        }
        self.module.callees.len().saturating_sub(1)
    }

    /// The value as the function being built sees it: in a callee, one of the kernel is made again where it can be.
    pub(super) fn brought_in(&mut self, value: ValueId) -> ValueId {
        let Some(callee) = &self.callee else { return value };
        let seen = |b: &Self, v: ValueId| b.module.value(v).region.is_none_or(|r| b.visible(r));
        if seen(self, value) {
            return value;
        }
        if let Some(&known) = callee.again.get(&value)
            && seen(self, known)
        {
            return known;
        }
        let Some(inst) = self.of_the_kernel(value).filter(|inst| self.can_be_made_again(inst)).cloned()
        else {
            return value;
        };
        let made = self.inst(inst.op, self.type_of(value), inst.operands, inst.at);
        if let Some(callee) = &mut self.callee {
            callee.again.insert(value, made);
        }
        made
    }

    /// The kernel's instruction that makes a value in a block around the callee.
    fn of_the_kernel(&self, value: ValueId) -> Option<&Inst> {
        let floor = self.callee.as_ref().map_or(0, |c| c.floor);
        let nodes = self.open[..floor].iter().flat_map(|o| &o.nodes).filter_map(|node| match node {
            Node::Inst(inst) => Some(inst),
            _ => None,
        });
        self.module.entry.prologue.iter().chain(nodes).find(|inst| inst.result == Some(value))
    }

    /// Whether an instruction gives the same wherever it stands: arithmetic, and loads of what a launch fixes.
    fn can_be_made_again(&self, inst: &Inst) -> bool {
        let shared = |v: ValueId| {
            let ty = self.module.ty(self.type_of(v));
            matches!(ty, Type::Matrix(_) | Type::TensorLayout { .. } | Type::TensorView { .. })
        };
        let has = |v: ValueId| match self.module.value(v).kind {
            ValueKind::Const(_) | ValueKind::Global(_) => true,
            ValueKind::Local(_) | ValueKind::Param => false,
            ValueKind::Inst => self.of_the_kernel(v).is_some_and(|inst| self.can_be_made_again(inst)),
        };
        match inst.op.effect() {
            Effect::Pure | Effect::Partial => {
                let values = || (0..inst.operands.len()).filter_map(|i| inst.value(i));
                !inst.result.is_some_and(shared) && !values().any(shared) && values().all(has)
            }
            Effect::Load if inst.op == Op::Load => {
                inst.value(0).is_some_and(|pointer| self.is_fixed(pointer))
            }
            _ => false,
        }
    }

    /// Whether a pointer leads to push constants or to a builtin.
    fn is_fixed(&self, pointer: ValueId) -> bool {
        match self.module.value(pointer).kind {
            ValueKind::Global(global) => {
                matches!(self.module.globals[global].kind, GlobalKind::Push { .. } | GlobalKind::BuiltIn(_))
            }
            _ => self
                .of_the_kernel(pointer)
                .filter(|inst| inst.op == Op::AccessChain && self.can_be_made_again(inst))
                .and_then(|inst| inst.value(0))
                .is_some_and(|base| self.is_fixed(base)),
        }
    }
}
