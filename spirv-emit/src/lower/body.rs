//! The kernel's body: regions become blocks with their merge instructions, instructions become words.

use kiln_abi::{
    Location,
    spirv::{Decoration, MemoryOperands, Op, OperandKind, StorageClass},
};

use super::{
    Writer,
    section::{id, word},
};
use crate::{
    ir::{Callee, Function, GlobalKind, Inst, LoopControl, Node, Operand, Region, Type, ValueId, ValueKind},
    layout,
};

/// A loop that is being written.
pub(super) struct OpenLoop {
    merge: u32,
    step: u32,
    /// A `break` leaves the loop.
    left: bool,
    /// A `continue` goes to the step.
    continued: bool,
}

impl Writer<'_> {
    /// Writes the entry function.
    pub(super) fn entry(&mut self, function: &Function, entry: u32) {
        let void = self.void();
        let ty = self.function_type();
        self.code.push(Op::Function, void, entry, vec![word(0), id(ty)], None);
        if self.body(function) {
            self.code.push(Op::Return, 0, 0, Vec::new(), None);
        }
        self.code.push(Op::FunctionEnd, 0, 0, Vec::new(), None);
    }

    /// Writes a function that instructions call.
    pub(super) fn callee(&mut self, index: usize, callee: &Callee) {
        let result = self.ty(self.module.value(callee.returns).ty);
        let params: Vec<u32> = callee.params.iter().map(|&p| self.ty(self.module.value(p).ty)).collect();
        let ty = self.callee_type(result, &params);
        let (function, at) = (self.callees[index], Some(callee.at));
        self.code.push(Op::Function, result, function, vec![word(0), id(ty)], at);
        for (&param, &ty) in callee.params.iter().zip(&params) {
            let value = self.value(param);
            self.code.push(Op::FunctionParameter, ty, value, Vec::new(), at);
            let pointer = matches!(self.module.ty(self.module.value(param).ty), Type::Pointer { .. });
            if pointer {
                // Buffers of the kernel may be the same memory.
                self.decorate(value, Decoration::Aliased, &[]);
            }
        }
        self.body(&callee.function);
        let returns = self.value(callee.returns);
        self.code.push(Op::ReturnValue, 0, 0, vec![id(returns)], at);
        self.code.push(Op::FunctionEnd, 0, 0, Vec::new(), None);
    }

    /// Writes a function's variables and body; tells whether control leaves it at its end.
    fn body(&mut self, function: &Function) -> bool {
        let first = self.fresh();
        self.label(first, None);
        for &local in &function.locals {
            let value = self.module.value(local);
            let (ty, result) = (self.ty(value.ty), self.value(local));
            let class = word(StorageClass::Function.number());
            self.code.push(Op::Variable, ty, result, vec![class], Some(value.at));
        }
        for inst in &function.prologue {
            self.inst(inst);
        }
        self.region(&function.body)
    }

    /// Writes a region's nodes; tells whether control leaves it at its end.
    fn region(&mut self, region: &Region) -> bool {
        for node in &region.nodes {
            let goes_on = match node {
                Node::Inst(inst) => {
                    self.inst(inst);
                    true
                }
                Node::Print { text, values, at } => {
                    self.print(text, values, *at);
                    true
                }
                Node::If { cond, then, otherwise, at } => self.branch(*cond, then, otherwise, *at),
                Node::Loop { .. } => self.repeat(node),
                Node::Break(at) => {
                    if let Some(open) = self.loops.last_mut() {
                        open.left = true;
                        let merge = open.merge;
                        self.jump(merge, Some(*at));
                    }
                    false
                }
                Node::Continue(at) => {
                    if let Some(open) = self.loops.last_mut() {
                        open.continued = true;
                        let step = open.step;
                        self.jump(step, Some(*at));
                    }
                    false
                }
                Node::Return(at) => {
                    self.code.push(Op::Return, 0, 0, Vec::new(), Some(*at));
                    false
                }
            };
            if !goes_on {
                return false;
            }
        }
        true
    }

    /// An arm without nodes gets no block. Two arms without nodes are no branch at all, since SPIR-V 1.6 refuses a
    /// conditional branch with equal targets.
    fn branch(&mut self, cond: ValueId, then: &Region, otherwise: &Region, at: Location) -> bool {
        if then.nodes.is_empty() && otherwise.nodes.is_empty() {
            return true;
        }
        let merge = self.fresh();
        let target = |w: &mut Self, arm: &Region| if arm.nodes.is_empty() { merge } else { w.fresh() };
        let (on_true, on_false) = (target(self, then), target(self, otherwise));
        let cond = self.value(cond);
        self.code.push(Op::SelectionMerge, 0, 0, vec![id(merge), word(0)], Some(at));
        let operands = vec![id(cond), id(on_true), id(on_false)];
        self.code.push(Op::BranchConditional, 0, 0, operands, Some(at));
        let mut goes_on = false;
        for (label, arm) in [(on_true, then), (on_false, otherwise)] {
            if arm.nodes.is_empty() {
                goes_on = true;
                continue;
            }
            self.label(label, Some(at));
            if self.region(arm) {
                goes_on = true;
                self.jump(merge, Some(at));
            }
        }
        self.label(merge, Some(at));
        if !goes_on {
            self.code.push(Op::Unreachable, 0, 0, Vec::new(), Some(at));
        }
        goes_on
    }

    fn repeat(&mut self, node: &Node) -> bool {
        let Node::Loop { header, cond, body, step, control, at } = node else { return true };
        let at = Some(*at);
        let [head, test, inside, next, merge] = std::array::from_fn(|_| self.fresh());
        let control = match control {
            LoopControl::None => 0,
            LoopControl::Unroll => 1,
            LoopControl::DontUnroll => 2,
        };
        self.jump(head, at);
        self.label(head, at);
        self.code.push(Op::LoopMerge, 0, 0, vec![id(merge), id(next), word(control)], at);
        self.jump(test, at);
        self.label(test, at);
        self.region(header);
        match cond {
            Some(cond) => {
                let operands = vec![id(self.value(*cond)), id(inside), id(merge)];
                self.code.push(Op::BranchConditional, 0, 0, operands, at);
            }
            None => self.jump(inside, at),
        }
        self.label(inside, at);
        self.loops.push(OpenLoop { merge, step: next, left: cond.is_some(), continued: false });
        let falls_through = self.region(body);
        if falls_through {
            self.jump(next, at);
        }
        let (left, continued) = self.loops.pop().map_or((true, true), |open| (open.left, open.continued));
        self.label(next, at);
        if falls_through || continued {
            self.region(step);
        }
        self.jump(head, at);
        self.label(merge, at);
        if !left {
            self.code.push(Op::Unreachable, 0, 0, Vec::new(), at);
        }
        left
    }

    fn label(&mut self, label: u32, at: Option<Location>) {
        self.no_line();
        self.code.push(Op::Label, 0, label, Vec::new(), at);
    }

    fn jump(&mut self, target: u32, at: Option<Location>) {
        self.code.push(Op::Branch, 0, 0, vec![id(target)], at);
    }

    fn inst(&mut self, inst: &Inst) {
        let mut operands = Vec::with_capacity(inst.operands.len() + 1);
        if inst.op == Op::ExtInst {
            operands.push(id(self.glsl_set()));
        }
        for operand in &inst.operands {
            operands.push(match operand {
                Operand::Value(v) => id(self.value(*v)),
                Operand::Lit(w) => word(*w),
                Operand::Scope(scope) => id(self.u32(scope.number())),
                Operand::Semantics(semantics) => id(self.u32(semantics.0)),
                Operand::Group(group) => word(group.number()),
                Operand::Glsl(glsl) => word(glsl.number()),
                Operand::Type(ty) => id(self.ty(*ty)),
                Operand::Callee(callee) => id(self.callees[*callee]),
            });
        }
        if let (true, Some(pointer)) = (inst.op.operands().contains(&OperandKind::OptMemory), inst.value(0)) {
            let mut mask = if self.is_shared(pointer) { MemoryOperands::NON_PRIVATE } else { 0 };
            let align = self.alignment(pointer);
            if align.is_some() {
                mask |= MemoryOperands::ALIGNED;
            }
            match inst.op.operands().iter().position(|k| *k == OperandKind::TensorOperands) {
                // Behind memory operands that more operands follow, so they are there even when empty.
                Some(tensor) => operands.insert(tensor - 1, word(mask)),
                None if mask != 0 => {
                    operands.push(word(mask));
                    operands.extend(align.map(word));
                }
                None => {}
            }
        }
        let (ty, result) = match inst.result {
            Some(result) => (self.ty(self.module.value(result).ty), self.value(result)),
            None => (0, 0),
        };
        if inst.no_contraction && result != 0 {
            self.decorate(result, Decoration::NoContraction, &[]);
        }
        self.line(inst.at);
        self.code.push(inst.op, ty, result, operands, Some(inst.at));
    }

    /// The alignment to state with an access through an address: that of what the pointer reaches.
    fn alignment(&self, pointer: ValueId) -> Option<u32> {
        match *self.module.ty(self.module.value(pointer).ty) {
            Type::Pointer { class: StorageClass::PhysicalStorageBuffer, pointee } => {
                Some(layout::extent(&self.module.types, pointee).map_or(1, |extent| extent.align))
            }
            _ => None,
        }
    }

    /// Whether other invocations can touch what the pointer reaches, so that the access takes part in the memory
    /// model's ordering: workgroup memory, and buffers that the kernel both loads from and stores to. A buffer that
    /// is only loaded from has nothing to order, one that is only stored to is read after the dispatch.
    fn is_shared(&self, pointer: ValueId) -> bool {
        let Some(root) = self.roots[pointer.0 as usize] else { return false };
        let ValueKind::Global(index) = self.module.value(root).kind else { return false };
        match self.module.globals[index].kind {
            GlobalKind::Workgroup => true,
            GlobalKind::Buffer { .. } => self.touched[index].loads && self.touched[index].stores,
            GlobalKind::Push { .. } | GlobalKind::BuiltIn(_) => false,
        }
    }
}
