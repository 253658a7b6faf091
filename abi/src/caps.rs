//! What a device can do, as plain data.

use std::collections::BTreeSet;

use crate::{MatrixCaps, spirv::Capability};

/// The kind of a device, in order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeviceKind {
    /// A card with memory of its own.
    Discrete,
    /// A GPU that shares the host's memory.
    Integrated,
    /// A GPU of a virtual machine.
    Virtual,
    /// A driver that runs on the CPU, or the interpreter.
    Cpu,
    /// Anything else.
    Other,
}

/// A device's limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Invocations per workgroup, at most.
    pub max_invocations: u32,
    /// Workgroup size along x, y, z, at most.
    pub max_local_size: [u32; 3],
    /// Workgroup counts along x, y, z, at most.
    pub max_grid: [u32; 3],
    /// Workgroup memory in bytes, at most.
    pub max_workgroup_bytes: u32,
    /// Push-constant bytes, at most.
    pub max_push_bytes: u32,
    /// Bytes of one storage-buffer binding, at most.
    pub max_binding_bytes: u64,
    /// Bytes of one buffer, at most.
    pub max_buffer_bytes: u64,
    /// Bytes of one memory allocation, at most.
    pub max_allocation_bytes: u64,
    /// Storage buffers visible to one kernel, at most.
    pub max_bindings: u32,
    /// A binding's offset is a multiple of this many bytes.
    pub binding_offset_alignment: u32,
}

/// What a kernel may use without saying so, of the limits that devices differ in: every device of Vulkan 1.4, and of
/// the 2022 roadmap before it, has as much. A kernel that needs more states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor {
    /// Invocations per workgroup.
    pub invocations: u32,
    /// Workgroup memory in bytes.
    pub workgroup_bytes: u32,
}

impl Default for Floor {
    fn default() -> Self {
        Floor { invocations: 256, workgroup_bytes: 16384 }
    }
}

/// What a device can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceCaps {
    /// The device's own name.
    pub name: String,
    /// Driver name and version.
    pub driver: String,
    /// Kind, for choosing among devices.
    pub kind: DeviceKind,
    /// SPIR-V capabilities whose features are enabled.
    pub capabilities: BTreeSet<Capability>,
    /// Those that it has beside them, taken away as asked.
    pub left_out: BTreeSet<Capability>,
    /// The subgroup size a kernel gets when it requires none.
    pub subgroup_size: u32,
    /// The smallest and largest subgroup size a kernel can require.
    pub subgroup_sizes: (u32, u32),
    /// Cooperative multiplications.
    pub matrix: MatrixCaps,
    /// Limits.
    pub limits: Limits,
}

impl DeviceCaps {
    /// Takes away those of these capabilities that are there.
    pub fn leave_out(&mut self, capabilities: &BTreeSet<Capability>) {
        self.left_out.extend(self.capabilities.intersection(capabilities));
        self.capabilities.retain(|capability| !capabilities.contains(capability));
    }
}
