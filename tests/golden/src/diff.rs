//! What changed in a kernel between two revisions, told by meaning instead of by ids.
//!
//! An instruction is known by what it computes: its op, its literals and, through its operands, everything it is made
//! of. A line that only got another number is the same line.

use std::{
    collections::{BTreeMap, BTreeSet, hash_map::DefaultHasher},
    fmt,
    hash::{Hash, Hasher},
};

use kiln_spirv_emit::{census::census, disasm::disassemble, words::DecodeError};

use crate::costs::{Costs, NAMES};

/// Larger differences are shown as a whole: old lines, then new ones.
const MOST_CELLS: usize = 16_000_000;

/// How a kernel changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The words are the same.
    Same,
    /// Ids and names moved; every instruction is there, in its place.
    Renumbered,
    /// The same instructions in another order.
    Reordered,
    /// Other instructions.
    Changed(Details),
}

/// What is in the new words and not in the old, and the reverse.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// Opcodes, capabilities, decorations and the like: `+ capability Float16`.
    pub uses: Vec<String>,
    /// Costs that differ: `loads 12 -> 10`.
    pub costs: Vec<String>,
    /// Lines that came and went: `+ %3 = FAdd f32 %1 %2`.
    pub lines: Vec<String>,
}

/// Compares two modules.
///
/// # Errors
/// What the op table cannot read.
pub fn compare(old: &[u32], new: &[u32]) -> Result<Change, DecodeError> {
    if old == new {
        return Ok(Change::Same);
    }
    let (old_text, new_text) = (disassemble(old)?, disassemble(new)?);
    let (before, after) = (shapes(&old_text), shapes(&new_text));
    let hashes = |lines: &[(u64, &str)]| lines.iter().map(|l| l.0).collect::<Vec<_>>();
    let (mut a, mut b) = (hashes(&before), hashes(&after));
    if a == b {
        return Ok(Change::Renumbered);
    }
    a.sort_unstable();
    b.sort_unstable();
    if a == b {
        return Ok(Change::Reordered);
    }
    let (old_uses, new_uses) = (census(old)?, census(new)?);
    let gone = old_uses.difference(&new_uses).map(|k| format!("- {k}"));
    let come = new_uses.difference(&old_uses).map(|k| format!("+ {k}"));
    let (old_costs, new_costs) = (Costs::of(old)?.all(), Costs::of(new)?.all());
    let costs = (0..NAMES.len()).filter(|&n| old_costs[n] != new_costs[n]);
    Ok(Change::Changed(Details {
        uses: gone.chain(come).collect::<BTreeSet<_>>().into_iter().collect(),
        costs: costs.map(|n| format!("{} {} -> {}", NAMES[n], old_costs[n], new_costs[n])).collect(),
        lines: difference(&before, &after),
    }))
}

/// Each line of a disassembly with the hash of what it means.
fn shapes(text: &str) -> Vec<(u64, &str)> {
    let mut made: BTreeMap<&str, u64> = BTreeMap::new();
    let mut lines = Vec::new();
    for line in text.lines().filter(|l| !l.starts_with(';')) {
        let (result, rest) = match line.trim_start().split_once(" = ") {
            Some((result, rest)) if result.starts_with('%') => (Some(result), rest),
            _ => (None, line.trim_start()),
        };
        let mut hasher = DefaultHasher::new();
        if let Some(label) = rest.strip_suffix(':').filter(|l| numbered(l)) {
            // A block is known by what is in it.
            made.insert(label, 0);
            lines.push((0, line));
            continue;
        }
        for token in rest.split([' ', ',']) {
            match numbered(token) {
                true => made.get(token).copied().unwrap_or(0).hash(&mut hasher),
                false => token.hash(&mut hasher),
            }
        }
        let hash = hasher.finish();
        if let Some(result) = result {
            made.insert(result, hash);
        }
        lines.push((hash, line));
    }
    lines
}

fn numbered(token: &str) -> bool {
    token.strip_prefix('%').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// Lines that are not in the longest common part, in order.
fn difference(old: &[(u64, &str)], new: &[(u64, &str)]) -> Vec<String> {
    let same = old.iter().zip(new).take_while(|(a, b)| a.0 == b.0).count();
    let (old, new) = (&old[same..], &new[same..]);
    let tail = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a.0 == b.0).count();
    let (old, new) = (&old[..old.len() - tail], &new[..new.len() - tail]);
    let gone = |line: &(u64, &str)| format!("- {}", line.1.trim_start());
    let come = |line: &(u64, &str)| format!("+ {}", line.1.trim_start());
    if old.len() * new.len() > MOST_CELLS {
        return old.iter().map(gone).chain(new.iter().map(come)).collect();
    }
    let width = new.len() + 1;
    let mut common = vec![0u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i * width + j] = match old[i].0 == new[j].0 {
                true => common[(i + 1) * width + j + 1] + 1,
                false => common[(i + 1) * width + j].max(common[i * width + j + 1]),
            };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i].0 == new[j].0 {
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || i < old.len() && common[(i + 1) * width + j] >= common[i * width + j + 1]
        {
            lines.push(gone(&old[i]));
            i += 1;
        } else {
            lines.push(come(&new[j]));
            j += 1;
        }
    }
    lines
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Same => f.write_str("the same words"),
            Change::Renumbered => f.write_str("the same instructions under other ids or names"),
            Change::Reordered => f.write_str("the same instructions in another order"),
            Change::Changed(details) => {
                let n = |mark: char| details.lines.iter().filter(|l| l.starts_with(mark)).count();
                write!(f, "{} instructions gone, {} new", n('-'), n('+'))?;
                let facts = details.costs.iter().chain(&details.uses);
                facts.chain(&details.lines).try_for_each(|line| write!(f, "\n    {line}"))
            }
        }
    }
}
