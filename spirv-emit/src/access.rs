//! Which buffers a kernel loads from and stores to, read off its instructions.

use kiln_abi::{
    Access,
    spirv::{Effect, Op},
};

use crate::ir::{Module, ValueKind};

/// What reaches a module-scope variable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// A load does.
    pub loads: bool,
    /// A store does.
    pub stores: bool,
}

impl Touched {
    /// The access as the launcher sees it; `None` when nothing reaches the variable.
    pub fn access(self) -> Option<Access> {
        match (self.loads, self.stores) {
            (true, true) => Some(Access::ReadWrite),
            (true, false) => Some(Access::Read),
            (false, true) => Some(Access::Write),
            (false, false) => None,
        }
    }
}

/// For each of the module's globals, what reaches it: loads and stores followed through access chains to their root.
///
/// Asking for a buffer's length touches nothing.
pub fn touched(module: &Module) -> Vec<Touched> {
    let roots = module.pointer_roots();
    let mut touched = vec![Touched::default(); module.globals.len()];
    for inst in module.insts() {
        let Some(root) = inst.value(0).and_then(|p| roots[p.0 as usize]) else { continue };
        let ValueKind::Global(global) = module.value(root).kind else { continue };
        match inst.op {
            Op::Load | Op::AtomicLoad | Op::CooperativeMatrixLoadKHR | Op::CooperativeMatrixLoadTensorNV => {
                touched[global].loads = true
            }
            Op::Store
            | Op::AtomicStore
            | Op::CooperativeMatrixStoreKHR
            | Op::CooperativeMatrixStoreTensorNV => touched[global].stores = true,
            op if op.effect() == Effect::Atomic => touched[global] = Touched { loads: true, stores: true },
            _ => {}
        }
    }
    touched
}
