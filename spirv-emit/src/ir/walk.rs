//! Walks over a module's instructions, and from a pointer to the variable behind it.

use kiln_abi::spirv::Op;

use super::{Inst, Module, Node, Operand, Region, ValueId, ValueKind};

/// Calls `f` on each node of the region and of its child regions, outer before inner, in order.
pub fn for_each_node<'m>(region: &'m Region, f: &mut dyn FnMut(&'m Node)) {
    for node in &region.nodes {
        f(node);
        match node {
            Node::If { then, otherwise, .. } => {
                for_each_node(then, f);
                for_each_node(otherwise, f);
            }
            Node::Loop { header, body, step, .. } => {
                for_each_node(header, f);
                for_each_node(body, f);
                for_each_node(step, f);
            }
            Node::Inst(_) | Node::Print { .. } | Node::Break(_) | Node::Continue(_) | Node::Return(_) => {}
        }
    }
}

impl Inst {
    /// The value at an operand's position, if there is one.
    pub fn value(&self, position: usize) -> Option<ValueId> {
        match self.operands.get(position) {
            Some(Operand::Value(v)) => Some(*v),
            _ => None,
        }
    }
}

impl Module {
    /// Every instruction: of the kernel and then of each callee, the prologue's and then the body's.
    pub fn insts(&self) -> Vec<&Inst> {
        let mut all = Vec::new();
        for function in self.functions() {
            all.extend(&function.prologue);
            for_each_node(&function.body, &mut |node| {
                if let Node::Inst(inst) = node {
                    all.push(inst);
                }
            });
        }
        all
    }

    /// For each value, the variable that it points into, through access chains; `None` for anything else.
    pub fn pointer_roots(&self) -> Vec<Option<ValueId>> {
        let variable = |(i, v): (usize, &super::Value)| match v.kind {
            ValueKind::Global(_) | ValueKind::Local(_) => Some(ValueId(u32::try_from(i).ok()?)),
            ValueKind::Const(_) | ValueKind::Param | ValueKind::Inst => None,
        };
        let mut roots: Vec<_> = self.values.iter().enumerate().map(variable).collect();
        for inst in self.insts() {
            if inst.op == Op::AccessChain
                && let (Some(result), Some(from)) = (inst.result, inst.value(0))
            {
                roots[result.0 as usize] = roots[from.0 as usize];
            }
        }
        roots
    }
}
