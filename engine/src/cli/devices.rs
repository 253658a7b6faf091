//! `kiln devices`: the Vulkan devices of this machine and the kernels that each can run.

use std::collections::BTreeMap;
use std::io::Write;

use kiln_abi::{DeviceCaps, LaunchError, StagedKernel, launch::check_caps};
use kiln_kernels::{Registry, Variant, kernel_of};
use kiln_runtime::{DeviceInfo, kind_name};
use serde_json::{Value, json};

use super::kernels::{Refusal, staged};
use super::{Context, Failure, output};
use crate::plan::Target;

/// List the Vulkan devices, what each can run, and why not the rest: by number of variants, or with --json by name.
#[derive(clap::Args)]
pub(super) struct Args {
    /// One JSON array, for programs
    #[arg(long)]
    json: bool,
    /// Write what a plan needs to know of one device, by its number, for `kiln inspect --plan --caps`
    #[arg(long, value_name = "N", conflicts_with = "json")]
    caps: Option<usize>,
}

pub(super) fn devices(context: &Context, args: &Args) -> Result<(), Failure> {
    let devices = kiln_runtime::devices()?;
    if let Some(index) = args.caps {
        let found = devices.iter().find(|device| device.index == index);
        let unknown =
            || Failure::Usage(format!("--caps {index}: devices have the numbers below {}", devices.len()));
        let text = Target::to_json(found.ok_or_else(unknown)?).map_err(|e| Failure::Usage(e.to_string()))?;
        return writeln!(std::io::stdout().lock(), "{text}").map_err(output);
    }
    let kernels = all_kernels(&context.registry)?;
    let reports = devices.iter().map(|info| (info, Fitness::of(&info.caps, &kernels)));
    let text = if args.json {
        format!("{:#}\n", Value::Array(reports.map(|(info, fitness)| as_json(info, &fitness)).collect()))
    } else {
        reports.map(|(info, fitness)| format!("{info}\n{}", as_text(info, &fitness))).collect()
    };
    std::io::stdout().lock().write_all(text.as_bytes()).map_err(output)
}

fn all_kernels(registry: &Registry) -> Result<Vec<(&Variant, StagedKernel)>, Refusal> {
    registry.variants().map(|variant| Ok((variant, staged(variant)?))).collect()
}

/// How many kernels there are, and how many of them a device runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    runs: usize,
    of: usize,
}

impl Count {
    fn add(&mut self, runs: bool) {
        self.runs += usize::from(runs);
        self.of += 1;
    }
}

/// What a device makes of the kernels.
#[derive(Debug, Default, PartialEq, Eq)]
struct Fitness {
    all: Count,
    /// Kernels that belong to an arm, by arm.
    arms: BTreeMap<&'static str, Count>,
    /// What the device lacks → the kernels that it refuses for that.
    refused: BTreeMap<String, Vec<String>>,
}

impl Fitness {
    fn of(caps: &DeviceCaps, kernels: &[(&Variant, StagedKernel)]) -> Self {
        let mut fitness = Self::default();
        for (variant, kernel) in kernels {
            let refusal = check_caps(caps, kernel).err();
            fitness.all.add(refusal.is_none());
            if let Some(arm) = variant.arm {
                fitness.arms.entry(arm).or_default().add(refusal.is_none());
            }
            if let Some(refusal) = refusal {
                fitness.refused.entry(lack(&refusal)).or_default().push(kernel.name.clone());
            }
        }
        fitness
    }
}

/// A refusal without the kernel's and the device's names, so that kernels refused for one reason come together.
fn lack(refusal: &LaunchError) -> String {
    match refusal {
        LaunchError::MissingCapability { capability, .. } => format!("no {}", capability.name()),
        LaunchError::LeftOut { capability, .. } => format!("{} left out as asked", capability.name()),
        LaunchError::MissingFragments { .. } => "no fragments of f16 products".to_owned(),
        LaunchError::OverLimit { what, needed, allowed, .. } => format!("{allowed} {what}, {needed} needed"),
        LaunchError::SubgroupSize { needed, lowest, highest, .. } => {
            format!("subgroups of {lowest} to {highest}, {needed} needed")
        }
        other => other.to_string(),
    }
}

/// The lines below the device's own, in the same columns.
fn as_text(info: &DeviceInfo, fitness: &Fitness) -> String {
    if !info.unusable.is_empty() {
        return "   arms          none, the device cannot be used\n".to_owned();
    }
    let arms: Vec<String> = fitness
        .arms
        .iter()
        .map(|(arm, Count { runs, of })| match runs {
            0 => format!("not {arm}"),
            _ => format!("{arm} ({runs} of {of} kernels)"),
        })
        .collect();
    let Count { runs, of } = fitness.all;
    let mut text = format!("   arms          {}\n   kernels       {runs} of {of}\n", arms.join(", "));
    for (reason, kernels) in &fitness.refused {
        text += &format!("   refused       {reason}: {}\n", counted(kernels));
    }
    text
}

/// Kernels, each with the number of its variants among these.
fn counted(variants: &[String]) -> String {
    let mut of: BTreeMap<&str, usize> = BTreeMap::new();
    variants.iter().for_each(|name| *of.entry(kernel_of(name)).or_default() += 1);
    of.iter().map(|(name, n)| format!("{name} ({n})")).collect::<Vec<_>>().join(", ")
}

fn as_json(info: &DeviceInfo, fitness: &Fitness) -> Value {
    let caps = &info.caps;
    let capabilities: Vec<_> = caps.capabilities.iter().map(|capability| capability.name()).collect();
    let count = |count: Count| json!({ "runs": count.runs, "of": count.of });
    json!({
        "index": info.index,
        "name": caps.name,
        "kind": kind_name(caps.kind),
        "driver": caps.driver,
        "vulkan": info.api.to_string(),
        "memory_bytes": info.memory_bytes(),
        "room_bytes": info.room.bytes,
        "subgroup_size": caps.subgroup_size,
        "subgroup_sizes": [caps.subgroup_sizes.0, caps.subgroup_sizes.1],
        "capabilities": capabilities,
        "unusable": info.unusable,
        "arms": fitness.arms.iter().map(|(arm, n)| ((*arm).to_owned(), count(*n))).collect::<serde_json::Map<_, _>>(),
        "kernels": count(fitness.all),
        "refused": fitness.refused,
    })
}

#[cfg(test)]
mod tests {
    use kiln_abi::{Device as _, spirv::Capability};
    use kiln_spirv_interp::{InterpOptions, Interpreter};

    use super::*;

    #[test]
    fn variants_are_counted_by_kernel() {
        let names = ["gemv<F16>(t: 8x2x1)", "add", "gemv<Q8_0>(t: 8x2x1)", "norm(n: 4)"].map(str::to_owned);
        assert_eq!(counted(&names), "add (1), gemv (2), norm (1)");
    }

    #[test]
    fn a_device_runs_what_its_capabilities_allow() {
        let registry = Registry::builtin();
        let kernels = all_kernels(&registry).unwrap();
        let mut caps = Interpreter::new(InterpOptions::default()).caps().clone();
        let whole = Fitness::of(&caps, &kernels);
        assert_eq!(whole.all, Count { runs: kernels.len(), of: kernels.len() });
        assert!(whole.refused.is_empty() && whole.arms.values().all(|n| n.runs == n.of && n.of > 0));

        let needs = |kernel: &StagedKernel| {
            kernel.layout.capabilities.contains(&Capability::StorageBuffer16BitAccess)
        };
        let needing: Vec<_> = kernels.iter().filter(|(_, k)| needs(k)).map(|(_, k)| k.name.clone()).collect();
        assert!(!needing.is_empty() && needing.len() < kernels.len());
        caps.capabilities.remove(&Capability::StorageBuffer16BitAccess);
        let less = Fitness::of(&caps, &kernels);
        assert_eq!(less.all, Count { runs: kernels.len() - needing.len(), of: kernels.len() });
        assert_eq!(less.refused, BTreeMap::from([("no StorageBuffer16BitAccess".to_owned(), needing)]));

        caps.limits.max_invocations = 0;
        assert!(Fitness::of(&caps, &kernels).arms.values().all(|n| n.runs == 0));
    }
}
