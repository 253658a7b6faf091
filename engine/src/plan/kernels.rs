//! The kernels of a plan: each staged once, checked against the device, with the reason for its choice.

use std::collections::BTreeMap;

use kiln_abi::{DeviceCaps, LaunchError, StagedKernel, launch::check_args};
use kiln_kernels::Registry;

use super::{PlanError, PlannedStep};

/// A kernel that a plan launches.
#[derive(Debug, Clone)]
pub struct PlannedKernel {
    /// The part it plays, such as `gemv`.
    pub role: String,
    /// Why it and no other.
    pub reason: String,
    /// Words and interface.
    pub staged: StagedKernel,
}

/// By name; a launch names its kernel.
pub type PlannedKernels = BTreeMap<String, PlannedKernel>;

/// Stages the kernels of `steps` and checks every launch against the device.
pub(super) fn stage(
    steps: &[PlannedStep],
    registry: &Registry,
    caps: &DeviceCaps,
) -> Result<PlannedKernels, PlanError> {
    let mut kernels = PlannedKernels::new();
    for launch in steps.iter().flat_map(|step| &step.launches) {
        let refused =
            |source: LaunchError| PlanError::Launch { word: launch.label.clone(), source: Box::new(source) };
        let call = &launch.call;
        if !kernels.contains_key(&call.name) {
            let staged = call.stage().map_err(|errors| refused(errors.into()))?;
            let (role, reason) = choice(&call.name, registry);
            let reason = launch.reason.clone().unwrap_or(reason);
            kernels.insert(call.name.clone(), PlannedKernel { role, reason, staged });
        }
        check_args(caps, &kernels[&call.name].staged, &call.args).map_err(refused)?;
    }
    Ok(kernels)
}

/// Role of a kernel, and the reason for it among those of the same role and format.
fn choice(name: &str, registry: &Registry) -> (String, String) {
    // Tile and form aside, where no variant has just these.
    let kind = |name: &str| name.split('(').next().map(str::to_owned);
    let same = registry.variants().find(|v| v.name == name);
    let Some(found) = same.or_else(|| registry.variants().find(|v| kind(&v.name) == kind(name))) else {
        return (name.to_owned(), "not in the registry".to_owned());
    };
    let mut arms: Vec<_> = registry
        .variants()
        .filter(|v| (v.role, v.format) == (found.role, found.format))
        .filter_map(|v| v.arm)
        .collect();
    arms.dedup();
    let reason = match (found.format, found.arm) {
        (Some(format), Some(arm)) if arms.len() == 1 => format!("{arm}, the only arm for {format}"),
        (_, Some(arm)) => format!("{arm}, of {}", arms.join(", ")),
        (_, None) => "the only kernel of its role".to_owned(),
    };
    (found.role.to_owned(), reason)
}
