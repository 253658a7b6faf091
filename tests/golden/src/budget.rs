//! Limits written by hand: a row of a text file names a kernel and the most it may cost.

use std::collections::BTreeMap;

use thiserror::Error;

/// What a file limits: a name for each of a row's numbers.
pub type Names<const N: usize> = [&'static str; N];

/// One row: limits in the order of their names, and the kernels they are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget<const N: usize> {
    /// A variant's name, a kernel's of one format (`gemv<Q8_0>`), a kernel's, or `default`.
    pub name: String,
    /// The most of each cost.
    pub limits: [u64; N],
}

/// Why a budget cannot be read or is not kept.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BudgetError {
    /// A line that is no row.
    #[error("expected {numbers} numbers and a kernel's name; found {line:?}")]
    Line {
        /// How many numbers a row has.
        numbers: usize,
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
        limit: u64,
        /// What it costs.
        found: u64,
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
        limit: u64,
        /// The largest found.
        found: u64,
    },
}

/// Reads budget rows; `#` starts a comment.
///
/// # Errors
/// The first line that is no row.
pub fn budgets<const N: usize>(text: &str) -> Result<Vec<Budget<N>>, BudgetError> {
    let lines = text.lines().filter(|l| !l.trim().is_empty() && !l.starts_with('#'));
    lines
        .map(|line| row(line).ok_or_else(|| BudgetError::Line { numbers: N, line: line.to_owned() }))
        .collect()
}

fn row<const N: usize>(line: &str) -> Option<Budget<N>> {
    let mut rest = line;
    let mut limits = [0; N];
    for limit in &mut limits {
        let (number, others) = rest.trim_start().split_once(' ')?;
        *limit = number.parse().ok()?;
        rest = others;
    }
    let name = rest.trim();
    (!name.is_empty()).then(|| Budget { name: name.to_owned(), limits })
}

/// The row of a variant: its own, its kernel's of its format, its kernel's, the default.
pub fn row_of<'b, const N: usize>(rows: &'b [Budget<N>], variant: &str) -> Option<&'b Budget<N>> {
    let kernel = variant.split(['<', '(']).next().unwrap_or(variant);
    let of_format = variant.split('(').next().unwrap_or(variant);
    [variant, of_format, kernel, "default"].iter().find_map(|name| rows.iter().find(|row| row.name == *name))
}

/// Every kernel against its row; and every named row is near what it limits, so that it would catch a change.
pub fn check<const N: usize>(
    names: Names<N>,
    rows: &[Budget<N>],
    kernels: &[(String, [u64; N])],
) -> Vec<BudgetError> {
    let mut errors = Vec::new();
    let mut largest: BTreeMap<&str, [u64; N]> = BTreeMap::new();
    for (kernel, costs) in kernels {
        let Some(row) = row_of(rows, kernel) else {
            errors.push(BudgetError::NoRow { kernel: kernel.clone() });
            continue;
        };
        let most = largest.entry(&row.name).or_insert([0; N]);
        for (n, found) in costs.iter().copied().enumerate() {
            most[n] = most[n].max(found);
            let (limit, cost) = (row.limits[n], names[n]);
            if found > limit {
                let (kernel, row) = (kernel.clone(), row.name.clone());
                errors.push(BudgetError::Over { kernel, row, cost, limit, found });
            }
        }
    }
    for row in rows.iter().filter(|row| row.name != "default") {
        let most = largest.get(row.name.as_str()).copied().unwrap_or([0; N]);
        for (n, found) in most.into_iter().enumerate() {
            let (limit, cost) = (row.limits[n], names[n]);
            if found < limit / 2 {
                errors.push(BudgetError::Loose { row: row.name.clone(), cost, limit, found });
            }
        }
    }
    errors
}
