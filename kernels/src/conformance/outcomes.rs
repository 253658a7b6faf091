//! How many of the kernels that ran failed, and what those have in common: the last line of a run with failures.

use std::collections::BTreeMap;
use std::fmt;

use crate::{Variant, kernel_of};

/// What became of the variants that ran, by name. As text, what failed.
#[derive(Clone, Debug, Default)]
pub struct Outcomes(BTreeMap<String, Outcome>);

#[derive(Clone, Copy, Debug)]
struct Outcome {
    format: Option<&'static str>,
    arm: Option<&'static str>,
    failed: bool,
}

impl Outcomes {
    /// Notes a variant that ran; one that failed once has failed.
    pub fn add(&mut self, variant: &Variant, failed: bool) {
        let Variant { format, arm, .. } = *variant;
        self.note(variant.name.clone(), Outcome { format, arm, failed });
    }

    fn note(&mut self, name: String, outcome: Outcome) {
        self.0.entry(name).or_insert(outcome).failed |= outcome.failed;
    }

    /// Notes those of another run.
    pub fn join(&mut self, other: Self) {
        other.0.into_iter().for_each(|(name, outcome)| self.note(name, outcome));
    }

    /// How many ran.
    pub fn ran(&self) -> usize {
        self.0.len()
    }

    /// How many of them failed.
    pub fn failed(&self) -> usize {
        self.failures().count()
    }

    fn failures(&self) -> impl Iterator<Item = &Outcome> {
        self.0.values().filter(|outcome| outcome.failed)
    }

    /// Whether any variant of a kernel failed.
    fn fails(&self, kernel: &str) -> bool {
        self.0.iter().any(|(name, outcome)| outcome.failed && kernel_of(name) == kernel)
    }

    /// What all that failed have of these, if it is one.
    fn shared(&self, of: impl Fn(&Outcome) -> Option<&'static str>) -> Option<&'static str> {
        let first = self.failures().next().and_then(&of)?;
        self.failures().all(|outcome| of(outcome) == Some(first)).then_some(first)
    }

    /// Parts of a variant's name, such as `planes: Two`, that all that failed have, of several, and not all of their kernels.
    fn parts(&self) -> Vec<&str> {
        let mut failed = self.0.iter().filter(|(_, outcome)| outcome.failed).map(|(name, _)| parts_of(name));
        let Some(mut shared) = failed.next().filter(|_| self.failed() > 1) else { return Vec::new() };
        for parts in failed {
            shared.retain(|part| parts.contains(part));
        }
        let passed = self.0.iter().filter(|(name, outcome)| !outcome.failed && self.fails(kernel_of(name)));
        let passed: Vec<_> = passed.map(|(name, _)| parts_of(name)).collect();
        shared.retain(|part| passed.iter().any(|parts| !parts.contains(part)));
        shared
    }

    /// The kernels that failed, or those that did not where they are fewer.
    fn kernels(&self) -> String {
        let mut kernels: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for (name, outcome) in &self.0 {
            let (failed, ran) = kernels.entry(kernel_of(name)).or_default();
            *failed += usize::from(outcome.failed);
            *ran += 1;
        }
        let listed = |is_listed: fn(usize, usize) -> bool| -> Vec<String> {
            let listed = kernels.iter().filter(|(_, (failed, ran))| is_listed(*failed, *ran));
            let text = |(name, (failed, ran)): (&&str, &(usize, usize))| match failed {
                _ if (1..*ran).contains(failed) => format!("{name} ({failed} of {ran} failed)"),
                _ => (*name).to_owned(),
            };
            listed.map(text).collect()
        };
        let (failing, rest) = (listed(|failed, _| failed > 0), listed(|failed, ran| failed < ran));
        match rest.len() {
            0 => "every kernel".to_owned(),
            n if n < failing.len() => format!("all but {}", rest.join(", ")),
            _ => failing.join(", "),
        }
    }
}

/// What a variant's name has in parentheses, but for what is empty.
fn parts_of(name: &str) -> Vec<&str> {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or_default();
    inner.split(", ").filter(|part| !part.is_empty() && !part.ends_with(": ")).collect()
}

impl fmt::Display for Outcomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} kernels failed", self.failed(), self.ran())?;
        if self.failed() == 0 {
            return Ok(());
        }
        let format = self.shared(|outcome| outcome.format).map(|format| format!("format {format}; "));
        // Where a kernel has one arm alone, its name says as much.
        let parts = |arm| self.0.iter().any(|(name, o)| o.arm != Some(arm) && self.fails(kernel_of(name)));
        let arm = self.shared(|outcome| outcome.arm).filter(|arm| parts(*arm));
        let arm = arm.map(|arm| format!("arm {arm}; "));
        write!(f, ": {}{}", format.unwrap_or_default(), arm.unwrap_or_default())?;
        self.parts().into_iter().try_for_each(|part| write!(f, "{part}; "))?;
        f.write_str(&self.kernels())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Registry;

    /// What is said where these of a format's variants, or of all, fail.
    fn said(of: Option<&str>, fails: impl Fn(&Variant) -> bool) -> String {
        let (registry, mut outcomes) = (Registry::builtin(), Outcomes::default());
        for variant in registry.variants().filter(|v| of.is_none() || v.format == of) {
            outcomes.add(variant, fails(variant));
        }
        outcomes.to_string()
    }

    #[test]
    fn what_fails_together_is_told_together() {
        let registry = Registry::builtin();
        let of = |kernel: &str| {
            let own = registry.variants().filter(|v| v.format == Some("Q5_0"));
            own.filter(|v| kernel.is_empty() || kernel_of(&v.name) == kernel).count()
        };
        let (all, one) = (of(""), Some("Q5_0"));
        let but = said(one, |v| kernel_of(&v.name) != "repack_blocks");
        assert_eq!(but, format!("{} of {all} kernels failed: format Q5_0; all but repack_blocks", all - 1));
        assert_eq!(said(one, |_| true), format!("{all} of {all} kernels failed: format Q5_0; every kernel"));
        let dot4 = said(one, |v| kernel_of(&v.name) == "gemv_dot4");
        let n = of("gemv_dot4");
        assert_eq!(dot4, format!("{n} of {all} kernels failed: format Q5_0; gemv_dot4"));
        let bytes = |v: &Variant| v.name.contains("planes: One");
        let some = registry.variants().filter(|v| v.format == one && bytes(v)).count();
        let partly = format!("arm dot4_int8; planes: One; gemv_dot4 ({some} of {n} failed)");
        assert_eq!(said(one, bytes), format!("{some} of {all} kernels failed: format Q5_0; {partly}"));
        // What differs between those that failed is not told, nor what a variant's name leaves open.
        let form = said(one, |v| v.name.contains("(planes: Two, t: 64x4x8,"));
        let shared = "; arm dot4; planes: Two; t: 64x4x8; ";
        assert!(form.contains(shared) && !form.contains("form: ") && !form.contains("subgroup"), "{form}");
        let lone = registry.variants().find(|v| v.format == one && bytes(v)).map(|v| v.name.clone());
        let lone = said(one, |v| Some(&v.name) == lone.as_ref());
        assert!(
            lone.ends_with(&format!(": format Q5_0; arm dot4_int8; gemv_dot4 (1 of {n} failed)")),
            "{lone}"
        );
        assert_eq!(said(one, |_| false), format!("0 of {all} kernels failed"));
    }

    #[test]
    fn formats_and_arms_are_told_where_all_that_fails_has_one() {
        let formats = ["Q5_0", "Q8_0"];
        let two = said(None, |v| v.format.is_some_and(|f| formats.contains(&f)) && v.role == "get_rows");
        let rows =
            format!(" kernels failed: get_rows (2 of {} failed)", Registry::builtin().formats().count());
        assert!(two.starts_with("2 of ") && two.ends_with(&rows), "{two}");
        let whole = said(None, |v| v.format == Some("Q5_0"));
        assert!(whole.contains(" kernels failed: format Q5_0; decode_each ("), "{whole}");
        let plain = said(None, |v| v.name == "add");
        assert!(plain.ends_with(" kernels failed: add"), "{plain}");
    }

    #[test]
    fn a_kernel_that_fails_at_one_size_has_failed() {
        let registry = Registry::builtin();
        let add = registry.variants().find(|v| v.name == "add").unwrap();
        let (mut four, mut eight) = (Outcomes::default(), Outcomes::default());
        four.add(add, true);
        eight.add(add, false);
        eight.join(four.clone());
        four.add(add, false);
        assert_eq!([four, eight].map(|all| all.to_string()), ["1 of 1 kernels failed: every kernel"; 2]);
    }
}
