//! What a kernel costs by its words alone: numbers that a change can be held to on a machine without a GPU.

use std::{collections::BTreeMap, fmt};

use kiln_abi::spirv::{Effect, Op, StorageClass};
use kiln_spirv_emit::words::{DecodeError, decode};

/// Names of the static costs, in the order of [`Costs::all`].
pub const NAMES: [&str; 8] =
    ["words", "instructions", "looped", "loads", "stores", "barriers", "branches", "variables"];

/// Static costs of one kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Words of the module.
    pub words: u32,
    /// Instructions of the body.
    pub instructions: u32,
    /// Those of them inside loops, each counted once.
    pub looped: u32,
    /// Loads from storage buffers.
    pub loads: u32,
    /// Stores to storage buffers.
    pub stores: u32,
    /// Barriers.
    pub barriers: u32,
    /// Conditional branches, those of loops among them.
    pub branches: u32,
    /// Local variables.
    pub variables: u32,
}

impl Costs {
    /// Counts a module.
    ///
    /// # Errors
    /// What the op table cannot read.
    pub fn of(words: &[u32]) -> Result<Costs, DecodeError> {
        let mut costs = Costs { words: u32::try_from(words.len()).unwrap_or(u32::MAX), ..Costs::default() };
        let (mut classes, mut pointers) = (BTreeMap::new(), BTreeMap::new());
        let mut merges = Vec::new();
        for i in decode(words)? {
            if i.op == Op::TypePointer {
                classes.insert(i.result, i.word(0));
            }
            if let Some(&class) = classes.get(&i.ty) {
                pointers.insert(i.result, class);
            }
            match i.op {
                Op::LoopMerge => merges.push(i.word(0)),
                Op::Label if merges.last() == Some(&i.result) => drop(merges.pop()),
                Op::BranchConditional => costs.branches += 1,
                Op::Variable if i.word(0) == StorageClass::Function.number() => costs.variables += 1,
                _ => {}
            }
            if matches!(i.op.effect(), Effect::Declare | Effect::Control) {
                continue;
            }
            costs.instructions += 1;
            costs.looped += u32::from(!merges.is_empty());
            costs.barriers += u32::from(i.op.effect() == Effect::Barrier);
            let buffer = pointers.get(&i.word(0)) == Some(&StorageClass::StorageBuffer.number());
            costs.loads += u32::from(i.op == Op::Load && buffer);
            costs.stores += u32::from(i.op == Op::Store && buffer);
        }
        Ok(costs)
    }

    /// Every cost, in the order of [`NAMES`].
    pub fn all(self) -> [u32; 8] {
        [
            self.words,
            self.instructions,
            self.looped,
            self.loads,
            self.stores,
            self.barriers,
            self.branches,
            self.variables,
        ]
    }
}

impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.all().into_iter().zip(NAMES).map(|(n, name)| format!("{n} {name}"));
        f.write_str(&parts.collect::<Vec<_>>().join(", "))
    }
}
