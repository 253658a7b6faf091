//! What a kernel costs by its words alone: numbers that a change can be held to on a machine without a GPU.

use std::{collections::BTreeMap, fmt};

use kiln_abi::spirv::{Effect, Op, StorageClass};
use kiln_spirv_emit::words::{DecodeError, decode};
use thiserror::Error;

/// Names of the costs, in the order of [`Costs::all`].
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

/// One row of the budget: limits in the order of [`NAMES`], and the kernels they are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// A variant's name, a kernel's, or `default`.
    pub name: String,
    /// The most of each cost.
    pub limits: [u32; 8],
}

/// Why a budget cannot be read or is not kept.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BudgetError {
    /// A line that is no row.
    #[error("expected {} numbers and a kernel's name; found {line:?}", NAMES.len())]
    Line {
        /// The line.
        line: String,
    },
    /// A kernel without a row.
    #[error("{kernel} has no row, and there is no row `default`")]
    NoRow {
        /// The kernel.
        kernel: String,
    },
    /// A cost over its limit.
    #[error(
        "{kernel}: expected at most {limit} {cost}; found {found}; cost less, or raise the row `{row}` in this change"
    )]
    Over {
        /// The kernel.
        kernel: String,
        /// The row that limits it.
        row: String,
        /// Which cost.
        cost: &'static str,
        /// The limit.
        limit: u32,
        /// What it costs.
        found: u32,
    },
    /// A row that limits nothing.
    #[error(
        "the row `{row}` is loose: expected {cost} of at least half its {limit}; found at most {found}; lower or drop it"
    )]
    Loose {
        /// The row.
        row: String,
        /// Which cost.
        cost: &'static str,
        /// The limit.
        limit: u32,
        /// The largest found.
        found: u32,
    },
}

/// Reads budget rows; `#` starts a comment.
///
/// # Errors
/// The first line that is no row.
pub fn budgets(text: &str) -> Result<Vec<Budget>, BudgetError> {
    let lines = text.lines().filter(|l| !l.trim().is_empty() && !l.starts_with('#'));
    lines.map(|line| row(line).ok_or_else(|| BudgetError::Line { line: line.to_owned() })).collect()
}

fn row(line: &str) -> Option<Budget> {
    let mut rest = line;
    let mut limits = [0; 8];
    for limit in &mut limits {
        let (number, others) = rest.trim_start().split_once(' ')?;
        *limit = number.parse().ok()?;
        rest = others;
    }
    let name = rest.trim();
    (!name.is_empty()).then(|| Budget { name: name.to_owned(), limits })
}

/// The row of a variant: its own, its kernel's, the default.
pub fn row_of<'b>(rows: &'b [Budget], variant: &str) -> Option<&'b Budget> {
    let kernel = variant.split(['<', '(']).next().unwrap_or(variant);
    [variant, kernel, "default"].iter().find_map(|name| rows.iter().find(|row| row.name == *name))
}

/// Every kernel against its row; and every named row is near what it limits, so that it would catch a change.
pub fn check(rows: &[Budget], kernels: &[(String, Costs)]) -> Vec<BudgetError> {
    let mut errors = Vec::new();
    let mut largest: BTreeMap<&str, [u32; 8]> = BTreeMap::new();
    for (kernel, costs) in kernels {
        let Some(row) = row_of(rows, kernel) else {
            errors.push(BudgetError::NoRow { kernel: kernel.clone() });
            continue;
        };
        let most = largest.entry(&row.name).or_default();
        for (n, found) in costs.all().into_iter().enumerate() {
            most[n] = most[n].max(found);
            let (limit, cost) = (row.limits[n], NAMES[n]);
            if found > limit {
                let (kernel, row) = (kernel.clone(), row.name.clone());
                errors.push(BudgetError::Over { kernel, row, cost, limit, found });
            }
        }
    }
    for row in rows.iter().filter(|row| row.name != "default") {
        let most = largest.get(row.name.as_str()).copied().unwrap_or_default();
        for (n, found) in most.into_iter().enumerate() {
            let (limit, cost) = (row.limits[n], NAMES[n]);
            if found < limit / 2 {
                errors.push(BudgetError::Loose { row: row.name.clone(), cost, limit, found });
            }
        }
    }
    errors
}

impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.all().into_iter().zip(NAMES).map(|(n, name)| format!("{n} {name}"));
        f.write_str(&parts.collect::<Vec<_>>().join(", "))
    }
}
