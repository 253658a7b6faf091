//! What a reviewer reads of two sets of kernels: alike changes once, by kernel, and how many there are of each.

use std::{collections::BTreeMap, fmt};

use crate::diff::{Change, Details};
use kiln_kernels::kernel_of;

/// Lines of one variant that are shown when nobody asked for that variant.
const SHOWN: usize = 40;

/// The kernels of two revisions.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Variants whose words are the same.
    pub same: usize,
    /// Variants whose words differ.
    pub changed: Vec<(String, Change)>,
    /// Variants that were not there.
    pub new: Vec<String>,
    /// Variants that are there no more.
    pub gone: Vec<String>,
    /// Whether every line is shown.
    pub whole: bool,
}

/// The kernel that a variant is of.
fn kernel(variant: &str) -> &str {
    kernel_of(variant)
}

/// What changes have in common that are shown once.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Kind<'c> {
    Renumbered,
    Reordered,
    Uses(&'c [String]),
}

fn kind(change: &Change) -> Kind<'_> {
    match change {
        Change::Same | Change::Renumbered => Kind::Renumbered,
        Change::Reordered => Kind::Reordered,
        Change::Changed(details) => Kind::Uses(&details.uses),
    }
}

fn lines(change: &Change) -> usize {
    if let Change::Changed(Details { lines, .. }) = change { lines.len() } else { 0 }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut alike: BTreeMap<(&str, Kind<'_>), Vec<&(String, Change)>> = BTreeMap::new();
        for one in &self.changed {
            alike.entry((kernel(&one.0), kind(&one.1))).or_default().push(one);
        }
        for mut variants in alike.into_values() {
            variants.sort_by_key(|v| lines(&v.1));
            let shown = if self.whole { variants.len() } else { 1 };
            for (name, change) in &variants[..shown] {
                self.change(f, name, change)?;
            }
            let more = variants.len() - shown;
            if more > 0 {
                writeln!(f, "    and {more} like it, such as {}", variants[variants.len() - 1].0)?;
            }
        }
        for (names, what) in [(&self.new, "new"), (&self.gone, "gone")] {
            let mut kernels: BTreeMap<&str, usize> = BTreeMap::new();
            names.iter().for_each(|name| *kernels.entry(kernel(name)).or_default() += 1);
            kernels.iter().try_for_each(|(kernel, n)| writeln!(f, "{kernel}: {n} {what}"))?;
        }
        let Report { same, changed, new, gone, .. } = self;
        let (changed, new, gone) = (changed.len(), new.len(), gone.len());
        write!(f, "{same} kernels have the same words, {changed} have others, {new} are new, {gone} gone")
    }
}

impl Report {
    fn change(&self, f: &mut fmt::Formatter<'_>, name: &str, change: &Change) -> fmt::Result {
        let text = change.to_string();
        let most = if self.whole { usize::MAX } else { SHOWN };
        writeln!(f, "{name}: {}", text.lines().take(most).collect::<Vec<_>>().join("\n"))?;
        match text.lines().count().saturating_sub(most) {
            0 => Ok(()),
            more => writeln!(f, "    and {more} lines; give the kernel's name to see them"),
        }
    }
}
