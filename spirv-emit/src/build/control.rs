//! Regions, branches, loops and the ways out of them.

use kiln_abi::{
    Location,
    spirv::{Effect, Op},
};

use super::{Builder, OpenRegion, index};
use crate::ir::{Const, Inst, LoopControl, Node, Operand, Region, RegionId, Type, ValueId, ValueKind};

impl Builder {
    /// Opens a child region: what follows goes into it.
    pub fn open_region(&mut self) -> RegionId {
        let id = RegionId(index(self.spliced.len()));
        self.spliced.push(None);
        self.open.push(OpenRegion { id, nodes: Vec::new(), terminated: false, unreachable_reported: false });
        id
    }

    /// Closes the innermost region and hands it out; pass it to [`Builder::branch`], [`Builder::repeat`] or
    /// [`Builder::splice`].
    pub fn close_region(&mut self) -> Region {
        match self.open.pop() {
            Some(open) => Region { id: open.id, nodes: open.nodes },
            None => Region { id: RegionId(0), nodes: Vec::new() },
        }
    }

    /// Appends a branch.
    pub fn branch(&mut self, cond: ValueId, then: Region, otherwise: Region, at: Location) {
        let cond = self.brought_in(cond);
        self.check_operands(&[Operand::Value(cond)], at);
        let terminated = then.terminated() && otherwise.terminated();
        self.node(Node::If { cond, then, otherwise, at }, at);
        self.set_terminated(terminated);
    }

    /// Enters a loop whose header is staged: its values are visible, and `break` and `continue` are legal, until
    /// [`Builder::leave_loop`]. Stage the body and the step in between.
    pub fn enter_loop(&mut self, header: &Region) {
        self.loop_headers.push(header.id);
    }

    /// The counterpart of [`Builder::enter_loop`].
    pub fn leave_loop(&mut self) {
        self.loop_headers.pop();
    }

    /// Appends a loop: see [`Node::Loop`].
    pub fn repeat(
        &mut self,
        header: Region,
        cond: Option<ValueId>,
        (body, step): (Region, Region),
        control: LoopControl,
        at: Location,
    ) {
        let node = Node::Loop { header, cond, body, step, control, at };
        let terminated = node.terminated();
        self.node(node, at);
        self.set_terminated(terminated);
    }

    /// Appends a `break`.
    pub fn brk(&mut self, at: Location) {
        self.leave(Node::Break(at), "break", at);
    }

    /// Appends a `continue`.
    pub fn cont(&mut self, at: Location) {
        self.leave(Node::Continue(at), "continue", at);
    }

    /// Appends a `return`.
    pub fn ret(&mut self, at: Location) {
        self.node(Node::Return(at), at);
        self.set_terminated(true);
    }

    /// Puts a closed region's nodes into the current one; its values become the current region's.
    pub fn splice(&mut self, region: Region) {
        let current = self.current();
        self.spliced[region.id.0 as usize] = Some(current);
        let terminated = region.terminated();
        if let Some(open) = self.open.last_mut() {
            open.nodes.extend(region.nodes);
            open.terminated |= terminated;
        }
    }

    /// Whether running the region's instructions is total and free of side effects, so that a select may replace the
    /// branch: pure ops, partial ops whose operand makes them total, and loads of local variables only.
    pub fn is_speculatable(&self, region: &Region) -> bool {
        region.nodes.iter().all(|node| match node {
            Node::Inst(inst) => match inst.op.effect() {
                Effect::Pure => true,
                Effect::Partial => self.partial_is_total(inst),
                Effect::Load => self.loads_local(inst),
                Effect::Declare
                | Effect::Store
                | Effect::Atomic
                | Effect::Call
                | Effect::Barrier
                | Effect::Subgroup
                | Effect::Control => false,
            },
            Node::If { .. }
            | Node::Loop { .. }
            | Node::Print { .. }
            | Node::Break(_)
            | Node::Continue(_)
            | Node::Return(_) => false,
        })
    }

    fn loads_local(&self, inst: &Inst) -> bool {
        let Some(Operand::Value(pointer)) = inst.operands.first() else { return false };
        matches!(self.module.value(*pointer).kind, ValueKind::Local(_))
    }

    fn partial_is_total(&self, inst: &Inst) -> bool {
        let Some(Operand::Value(second)) = inst.operands.get(1) else { return false };
        let (Some(Const::Scalar { bits, .. }), Some(Operand::Value(first))) =
            (self.as_const(*second), inst.operands.first())
        else {
            return false;
        };
        let width = match self.module.ty(self.type_of(*first)) {
            Type::Scalar(d) => d.bytes() * 8,
            Type::Vector { .. }
            | Type::Array { .. }
            | Type::RuntimeArray { .. }
            | Type::Struct { .. }
            | Type::Pointer { .. }
            | Type::Matrix(_)
            | Type::TensorLayout { .. }
            | Type::TensorView { .. } => 0,
        };
        match inst.op {
            Op::ShiftLeftLogical | Op::ShiftRightLogical | Op::ShiftRightArithmetic => *bits < width,
            Op::UDiv | Op::UMod => *bits != 0,
            Op::SDiv | Op::SRem => *bits != 0 && *bits != u32::MAX,
            _ => false,
        }
    }

    fn leave(&mut self, node: Node, word: &str, at: Location) {
        if self.loop_headers.is_empty() {
            self.error("E020", format!("`{word}` outside a run-time loop"), at);
        }
        self.node(node, at);
        self.set_terminated(true);
    }

    fn set_terminated(&mut self, terminated: bool) {
        if let Some(open) = self.open.last_mut() {
            open.terminated |= terminated;
        }
    }

    pub(super) fn node(&mut self, node: Node, at: Location) {
        let Some(open) = self.open.last_mut() else { return };
        if open.terminated {
            if !open.unreachable_reported {
                open.unreachable_reported = true;
                let message = "this is never reached: the block has already left by return, break or continue, or by a `loop` without `break`";
                self.error("E021", message.to_owned(), at);
            }
            return;
        }
        open.nodes.push(node);
    }

    pub(super) fn current(&self) -> RegionId {
        self.open.last().map_or(RegionId(0), |o| o.id)
    }

    pub(super) fn visible(&self, mut region: RegionId) -> bool {
        while let Some(outer) = self.spliced[region.0 as usize] {
            region = outer;
        }
        let floor = self.callee.as_ref().map_or(0, |c| c.floor);
        self.open[floor..].iter().any(|o| o.id == region) || self.loop_headers.contains(&region)
    }

    /// Whether a value may be used where the next instruction goes.
    pub fn in_scope(&self, value: ValueId) -> bool {
        self.module.value(value).region.is_none_or(|r| self.visible(r))
    }

    pub(super) fn check_operands(&mut self, operands: &[Operand], at: Location) {
        for operand in operands {
            let Operand::Value(value) = operand else { continue };
            if !self.in_scope(*value) {
                let made = self.module.value(*value).at;
                let message = match self.callee {
                    None => {
                        format!("the value made at {made} is used outside its block; keep it in a `let mut`")
                    }
                    Some(_) => {
                        format!("the value made at {made} is not there when this is called; hand it in")
                    }
                };
                self.error("E022", message, at);
            }
        }
    }
}
