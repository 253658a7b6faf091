//! What a kernel says of the devices it is for, against what it uses.

use kiln_abi::spirv::Capability;

use super::{Report, facts::Facts};
use crate::{ir::GlobalKind, layout, lower::capabilities};

pub(super) fn workgroup_memory(facts: &Facts<'_>, report: &mut Report<'_>) {
    let floor = facts.module.stated.floor.workgroup_bytes;
    // A size that cannot be counted is another rule's.
    if let Ok(bytes) = layout::workgroup_bytes(facts.module)
        && bytes > floor
    {
        let last = facts.module.globals.iter().rfind(|g| g.kind == GlobalKind::Workgroup);
        report.add(
            last.map_or_else(|| facts.somewhere(), |g| g.at),
            format!(
                "expected at most {floor} bytes of workgroup memory; found {bytes}; shrink it, or state \
                 `workgroup_bytes = {bytes}` in `#[kernel]`"
            ),
        );
    }
}

pub(super) fn capabilities(facts: &Facts<'_>, report: &mut Report<'_>) {
    let Some(requires) = &facts.module.stated.requires else { return };
    for (capability, at) in capabilities::needed(facts.module) {
        let every_module = matches!(capability, Capability::Shader | Capability::VulkanMemoryModel);
        if !every_module && !requires.contains(&capability) {
            let name = capability.name();
            report.add(
                at,
                format!(
                    "expected only the capabilities that the kernel requires; found a use of {name}; add it to \
                     `requires`, or do without"
                ),
            );
        }
    }
}
