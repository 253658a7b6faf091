//! What a device made of variants.

use std::collections::BTreeMap;

use kiln_abi::LaunchError;
use kiln_kernels::{
    conformance::{Outcomes, Report},
    kernel_of,
};

/// What a device made of a registry.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Variants that ran.
    pub variants: usize,
    /// Those of them that `KILN_RECORD` says of, which did not run again.
    pub recorded: usize,
    /// Launches compared.
    pub cases: usize,
    /// Values compared.
    pub outputs: usize,
    /// The largest difference as a share of its bound.
    pub worst: f64,
    /// Why the device refused variants.
    pub refused: Vec<LaunchError>,
    /// What failed.
    pub failures: Vec<String>,
    /// What passed of each variant, by its name.
    pub passed: BTreeMap<String, Passed>,
    /// Which variants failed of those that ran.
    pub outcomes: Outcomes,
}

/// What passed of a variant, or of all with one kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct Passed {
    /// Variants.
    pub variants: usize,
    /// Launches compared.
    pub cases: usize,
    /// Values compared.
    pub outputs: usize,
    /// The largest difference as a share of its bound.
    pub worst: f64,
}

impl Passed {
    fn join(&mut self, other: Passed) {
        self.variants = self.variants.max(other.variants);
        self.cases += other.cases;
        self.outputs += other.outputs;
        self.worst = self.worst.max(other.worst);
    }
}

impl Summary {
    pub(crate) fn add(&mut self, report: Report) {
        self.cases += 1;
        self.outputs += report.outputs;
        self.worst = self.worst.max(report.worst);
    }

    /// A summary with what was counted as one variant's.
    pub(crate) fn of(mut self, variant: &str) -> Summary {
        if self.cases > 0 {
            let Summary { cases, outputs, worst, .. } = self;
            self.passed.insert(variant.to_owned(), Passed { variants: 1, cases, outputs, worst });
        }
        self
    }

    /// A line for each variant, or for all that share a kernel: cases, values, the worst share of a bound.
    pub fn lines(&self, each_variant: bool) -> String {
        let mut kernels: BTreeMap<&str, Passed> = BTreeMap::new();
        for (name, passed) in &self.passed {
            let kernel = if each_variant { name } else { kernel_of(name) };
            let sum = kernels.entry(kernel).or_default();
            let variants = sum.variants + passed.variants;
            sum.join(*passed);
            sum.variants = variants;
        }
        let line = |(name, passed): (&str, Passed)| {
            let Passed { variants, cases, outputs, worst } = passed;
            let of = if each_variant { String::new() } else { format!("{variants} variants, ") };
            format!("{name}: {of}{cases} cases, {outputs} values, worst {worst:.3} of its bound\n")
        };
        kernels.into_iter().map(line).collect()
    }

    /// Both.
    pub fn join(mut self, other: Summary) -> Summary {
        self.variants += other.variants;
        self.recorded += other.recorded;
        self.cases += other.cases;
        self.outputs += other.outputs;
        self.worst = self.worst.max(other.worst);
        self.refused.extend(other.refused);
        self.failures.extend(other.failures);
        self.outcomes.join(other.outcomes);
        for (name, passed) in other.passed {
            self.passed.entry(name).or_default().join(passed);
        }
        self
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Summary { variants, recorded, cases, outputs, worst, refused, failures, passed: _, outcomes } =
            self;
        write!(f, "{variants} variants")?;
        if *recorded > 0 {
            write!(f, " ({recorded} as recorded)")?;
        }
        write!(f, ", {cases} cases, {outputs} values, worst {worst:.3} of its bound, ")?;
        write!(f, "{} refused, {} failed", refused.len(), failures.len())?;
        let refused = refused.iter().map(ToString::to_string);
        failures.iter().cloned().chain(refused).try_for_each(|line| write!(f, "\n  {line}"))?;
        if outcomes.failed() > 0 { write!(f, "\n{outcomes}") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use kiln_kernels::{Registry, kernel_of};

    use super::Summary;

    #[test]
    fn the_last_line_sums_up_what_failed() {
        let of = |failures: &[&str]| {
            let failures: Vec<String> = failures.iter().map(ToString::to_string).collect();
            let mut summary = Summary { variants: 1, ..Summary::default() };
            for variant in Registry::builtin().variants().filter(|v| v.format == Some("F16")) {
                let fails = !failures.is_empty() && kernel_of(&variant.name) != "repack_blocks";
                summary.outcomes.add(variant, fails);
            }
            Summary { failures, ..summary }
        };
        let (failed, n) = (of(&["one", "two"]).to_string(), of(&[]).outcomes.ran());
        let last = format!("{} of {n} kernels failed: format F16; all but repack_blocks", n - 1);
        assert_eq!(failed.lines().skip(1).collect::<Vec<_>>(), ["  one", "  two", &last]);
        assert_eq!(of(&[]).to_string().lines().count(), 1);
    }

    #[test]
    fn a_line_tells_what_passed_at_every_size() {
        let ran = |cases, worst| Summary { variants: 1, cases, outputs: 10, worst, ..Summary::default() };
        let sizes = ran(2, 0.25).of("gemv<Q8_0>").join(ran(2, 0.5).of("gemv<Q8_0>"));
        let all = sizes.join(ran(1, 0.125).of("gemv<Q4_0>")).join(ran(3, 0.0).of("add"));
        let add = "add: 3 cases, 10 values, worst 0.000 of its bound";
        let (four, eight) = ("1 cases, 10 values, worst 0.125", "4 cases, 20 values, worst 0.500");
        let each = format!("{add}\ngemv<Q4_0>: {four} of its bound\ngemv<Q8_0>: {eight} of its bound\n");
        assert_eq!(all.lines(true), each);
        let together = "gemv: 2 variants, 5 cases, 30 values, worst 0.500 of its bound";
        assert_eq!(all.lines(false), format!("{}\n{together}\n", add.replace("add: ", "add: 1 variants, ")));
    }
}
