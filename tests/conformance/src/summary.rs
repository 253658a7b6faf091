//! What a device made of variants.

use kiln_abi::LaunchError;
use kiln_kernels::conformance::Report;

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
}

impl Summary {
    pub(crate) fn add(&mut self, report: Report) {
        self.cases += 1;
        self.outputs += report.outputs;
        self.worst = self.worst.max(report.worst);
    }

    pub(crate) fn join(mut self, other: Summary) -> Summary {
        self.variants += other.variants;
        self.recorded += other.recorded;
        self.cases += other.cases;
        self.outputs += other.outputs;
        self.worst = self.worst.max(other.worst);
        self.refused.extend(other.refused);
        self.failures.extend(other.failures);
        self
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Summary { variants, recorded, cases, outputs, worst, refused, failures } = self;
        write!(f, "{variants} variants")?;
        if *recorded > 0 {
            write!(f, " ({recorded} as recorded)")?;
        }
        write!(f, ", {cases} cases, {outputs} values, worst {worst:.3} of its bound, ")?;
        write!(f, "{} refused, {} failed", refused.len(), failures.len())?;
        let refused = refused.iter().map(ToString::to_string);
        failures.iter().cloned().chain(refused).try_for_each(|line| write!(f, "\n  {line}"))
    }
}
