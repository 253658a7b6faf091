//! Limits written by hand: a row of a text file names a kernel and the most it may cost.

use std::collections::BTreeMap;

use kiln_kernels::{is_format, kernel_of};
use thiserror::Error;

/// What a file limits: a name for each of a row's numbers.
pub type Names<const N: usize> = [&'static str; N];

/// One row: limits in the order of their names, and the kernels they are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget<const N: usize> {
    /// A variant's name, a kernel's with its format (`gemv<Q4_0>`), a kernel's, or `default`.
    pub name: String,
    /// The most of each cost.
    pub limits: [u64; N],
    /// Where it is written: file and line.
    pub place: String,
}

/// Why a budget cannot be read or is not kept.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BudgetError {
    /// A line that is no row.
    #[error("{place}: expected {numbers} numbers and a kernel's name; found {line:?}")]
    Line {
        /// File and line.
        place: String,
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
        "{kernel}: expected at most {limit} {cost}; found {found}; cost less, or {}",
        raised(kernel, row, place)
    )]
    Over {
        /// The kernel.
        kernel: String,
        /// The row that limits it.
        row: String,
        /// Where the row is.
        place: String,
        /// Which cost.
        cost: &'static str,
        /// The limit.
        limit: u64,
        /// What it costs.
        found: u64,
    },
    /// A row for a kernel that is not there.
    #[error(
        "the row `{row}` ({place}) limits nothing: no kernel has this name{}; correct or drop it",
        alike.as_ref().map_or_else(String::new, |alike| format!(", and one is `{alike}`"))
    )]
    Nobody {
        /// The row.
        row: String,
        /// Where it is.
        place: String,
        /// A kernel that is called so with a format's name as files write it, or in other letters.
        alike: Option<String>,
    },
    /// A row that limits nothing.
    #[error(
        "the row `{row}` ({place}) is loose: expected {cost} of at least half its {limit}; found at most {found}; lower or drop it"
    )]
    Loose {
        /// The row.
        row: String,
        /// Where it is.
        place: String,
        /// Which cost.
        cost: &'static str,
        /// The limit.
        limit: u64,
        /// The largest found.
        found: u64,
    },
}

/// What to do where costs are meant.
fn raised(kernel: &str, row: &str, place: &str) -> String {
    let [own, _] = short_names(kernel);
    match own.contains('<') && own != row {
        true => format!(
            "in this change raise the row `{row}` ({place}), which is for all formats, or add a row `{own}` beside it"
        ),
        false => format!("raise the row `{row}` ({place}) in this change"),
    }
}

/// Reads the budget rows of a file; `#` starts a comment.
///
/// # Errors
/// The first line that is no row.
pub fn budgets<const N: usize>(file: &str, text: &str) -> Result<Vec<Budget<N>>, BudgetError> {
    let lines = (1..).zip(text.lines()).filter(|(_, l)| !l.trim().is_empty() && !l.starts_with('#'));
    let read = |(number, line): (usize, &str)| {
        let place = format!("{file}:{number}");
        row(line, &place).ok_or_else(|| BudgetError::Line { place, numbers: N, line: line.to_owned() })
    };
    lines.map(read).collect()
}

fn row<const N: usize>(line: &str, place: &str) -> Option<Budget<N>> {
    let mut rest = line;
    let mut limits = [0; N];
    for limit in &mut limits {
        let (number, others) = rest.trim_start().split_once(' ')?;
        *limit = number.parse().ok()?;
        rest = others;
    }
    let name = rest.trim();
    (!name.is_empty()).then(|| Budget { name: name.to_owned(), limits, place: place.to_owned() })
}

/// The names of a variant's kernel, with its format (`gemv<Q4_0>`) and without.
pub fn short_names(variant: &str) -> [&str; 2] {
    [variant.split('(').next().unwrap_or(variant), kernel_of(variant)]
}

/// Whether a kernel's name with its format is the one meant, or begins with it: `gemv<Q4K>` is meant by `gemv<Q4_K>` too, as
/// files write the format's name.
pub fn is_meant(own: &str, by: &str) -> bool {
    let of_format =
        |name: &str| name.split_once('<').map(|(_, format)| format.trim_end_matches('>').to_owned());
    let alike = || of_format(own).zip(of_format(by)).is_some_and(|(own, by)| is_format(&own, &by));
    own.starts_with(by) || kernel_of(own) == kernel_of(by) && alike()
}

/// The row of a variant: its own, its kernel's of its format, its kernel's, the default.
pub fn row_of<'b, const N: usize>(rows: &'b [Budget<N>], variant: &str) -> Option<&'b Budget<N>> {
    let [own, kernel] = short_names(variant);
    [variant, own, kernel, "default"].iter().find_map(|name| rows.iter().find(|row| row.name == *name))
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
                let (kernel, place, row) = (kernel.clone(), row.place.clone(), row.name.clone());
                errors.push(BudgetError::Over { kernel, row, place, cost, limit, found });
            }
        }
    }
    for row in rows.iter().filter(|row| row.name != "default") {
        let is_of = |kernel| {
            let [own, all]: [&str; 2] = short_names(kernel);
            [kernel, own, all].contains(&row.name.as_str())
        };
        if !kernels.iter().any(|(kernel, _)| is_of(kernel)) {
            let mut all = kernels.iter().map(|(kernel, _)| short_names(kernel)[0]);
            let alike = all.find(|own| is_meant(own, &row.name)).map(str::to_owned);
            errors.push(BudgetError::Nobody { row: row.name.clone(), place: row.place.clone(), alike });
            continue;
        }
        let most = largest.get(row.name.as_str()).copied().unwrap_or([0; N]);
        for (n, found) in most.into_iter().enumerate() {
            let (limit, cost) = (row.limits[n], names[n]);
            if found < limit / 2 {
                let (place, row) = (row.place.clone(), row.name.clone());
                errors.push(BudgetError::Loose { row, place, cost, limit, found });
            }
        }
    }
    errors
}
