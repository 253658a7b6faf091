//! Every kernel variant of a registry against its plain-Rust reference, on any device.
//!
//! A crate that registers formats or kernels of its own calls [`run`] and gets the whole suite.
#![forbid(unsafe_code)]

pub mod cover;
pub mod language;

/// The guide's examples, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/kernels.md")]
mod guide {}

use kiln_abi::{Device, LaunchError, StagedKernel, launch::check_device};
use kiln_kernels::{
    Registry, Variant,
    conformance::{Report, check},
};

/// What a device made of a registry.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Variants that ran.
    pub variants: usize,
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
    fn add(&mut self, report: Report) {
        self.cases += 1;
        self.outputs += report.outputs;
        self.worst = self.worst.max(report.worst);
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Summary { variants, cases, outputs, worst, refused, failures } = self;
        write!(f, "{variants} variants, {cases} cases, {outputs} values, worst {worst:.3} of its bound, ")?;
        write!(f, "{} refused, {} failed", refused.len(), failures.len())?;
        let refused = refused.iter().map(ToString::to_string);
        refused.chain(failures.iter().cloned()).try_for_each(|line| write!(f, "\n  {line}"))
    }
}

/// Runs every case of every variant on `device`.
pub fn run(registry: &Registry, device: &dyn Device) -> Summary {
    run_those(registry.variants(), device, false)
}

/// Runs these variants on `device`, with the cases that take long or without.
pub fn run_those<'r>(
    variants: impl Iterator<Item = &'r Variant>,
    device: &dyn Device,
    long: bool,
) -> Summary {
    let mut summary = Summary::default();
    for variant in variants {
        match variant.stage() {
            Err(errors) => summary.failures.push(errors.to_string()),
            Ok(kernel) => run_variant(variant, &kernel, device, long, &mut summary),
        }
    }
    summary
}

/// Whether the device lacks what not every device has: a capability, a subgroup size, or the matrices that a kernel is
/// cut for with the workgroup memory that goes with them.
fn is_lack(kernel: &StagedKernel, refusal: &LaunchError) -> bool {
    let of_matrices = !kernel.layout.products.is_empty();
    match refusal {
        LaunchError::MissingCapability { .. }
        | LaunchError::MissingProduct { .. }
        | LaunchError::SubgroupSize { .. } => true,
        LaunchError::OverLimit { .. } => of_matrices,
        _ => false,
    }
}

fn run_variant(
    variant: &Variant,
    kernel: &StagedKernel,
    device: &dyn Device,
    long: bool,
    summary: &mut Summary,
) {
    match check_device(device, kernel) {
        Ok(()) => summary.variants += 1,
        Err(refusal) if is_lack(kernel, &refusal) => return summary.refused.push(refusal),
        Err(other) => return summary.failures.push(other.to_string()),
    }
    let more = if long { variant.long_cases() } else { Vec::new() };
    for case in variant.cases().into_iter().chain(more) {
        match check(device, kernel, &case) {
            Ok(report) => summary.add(report),
            Err(failure) => summary.failures.push(format!("{}: {failure}", variant.name)),
        }
    }
}
