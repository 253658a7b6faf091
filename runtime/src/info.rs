//! What is known of a device: its caps and everything else that a listing prints or a plan asks for.

use std::fmt;

use ash::vk;
use kiln_abi::{DeviceCaps, DeviceKind};

use crate::{TimestampClock, room::Room};

/// A Vulkan version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ApiVersion {
    /// Major.
    pub major: u32,
    /// Minor.
    pub minor: u32,
    /// Patch.
    pub patch: u32,
}

impl ApiVersion {
    pub(crate) fn from_raw(raw: u32) -> Self {
        Self {
            major: vk::api_version_major(raw),
            minor: vk::api_version_minor(raw),
            patch: vk::api_version_patch(raw),
        }
    }
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// One memory heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heap {
    /// Size in bytes.
    pub bytes: u64,
    /// Whether it is the device's own memory.
    pub device_local: bool,
    /// Bytes this process may use in all, where the driver says so (`VK_EXT_memory_budget`).
    pub budget_bytes: Option<u64>,
    /// Bytes this process uses, where the driver says so.
    pub used_bytes: Option<u64>,
}

/// One shape of `VK_KHR_cooperative_matrix`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CooperativeShape {
    /// m, n, k.
    pub mnk: [u32; 3],
    /// Element types of A, B, C and the result, as Vulkan names them (`FLOAT16`, `SINT8`, ...).
    pub elements: [String; 4],
    /// Whether the scope is a subgroup; otherwise it is larger.
    pub subgroup_scope: bool,
}

/// Which cooperative-matrix extensions a device has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cooperative {
    /// Shapes of `VK_KHR_cooperative_matrix`; empty without it.
    pub khr: Vec<CooperativeShape>,
    /// Whether `VK_NV_cooperative_matrix2` is there.
    pub nv2: bool,
}

/// A device of this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceInfo {
    /// Position in the loader's order: what `--device N` means.
    pub index: usize,
    /// What kernels can ask for.
    pub caps: DeviceCaps,
    /// Vulkan version.
    pub api: ApiVersion,
    /// PCI vendor and device numbers.
    pub ids: [u32; 2],
    /// The device's UUID.
    pub device_uuid: [u8; 16],
    /// The driver build's UUID.
    pub driver_uuid: [u8; 16],
    /// Memory heaps.
    pub heaps: Vec<Heap>,
    /// Device memory that can still be used, and who says so.
    pub room: Room,
    /// The compute queue's clock; `None` when it has none.
    pub timestamps: Option<TimestampClock>,
    /// Whether a kernel can require a subgroup size.
    pub requires_subgroup_size: bool,
    /// Whether a kernel can require full subgroups.
    pub full_subgroups: bool,
    /// Subgroups per workgroup, at most, where a size is required.
    pub max_subgroups: u32,
    /// Whether packed int8 dot products are one instruction.
    pub dot4_accelerated: bool,
    /// Cooperative-matrix extensions.
    pub cooperative: Cooperative,
    /// What the device has and Kiln leaves off for the sake of the validation layer, a sentence each.
    pub left_off: Vec<String>,
    /// Why Kiln cannot use the device; empty when it can.
    pub unusable: Vec<String>,
}

impl DeviceInfo {
    /// Bytes of device-local memory.
    pub fn memory_bytes(&self) -> u64 {
        self.heaps.iter().filter(|h| h.device_local).map(|h| h.bytes).sum()
    }

    /// Index, name, kind and the reasons not to use it, on one line.
    pub fn summary(&self) -> String {
        let line = format!("  {}: {} ({})", self.index, self.caps.name, kind_name(self.caps.kind));
        if self.unusable.is_empty() {
            line
        } else {
            format!("{line}, unusable: {}", self.unusable.join("; "))
        }
    }
}

/// A device kind as listings print it.
pub fn kind_name(kind: DeviceKind) -> &'static str {
    match kind {
        DeviceKind::Discrete => "discrete",
        DeviceKind::Integrated => "integrated",
        DeviceKind::Virtual => "virtual",
        DeviceKind::Cpu => "cpu",
        DeviceKind::Other => "other",
    }
}

impl fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (caps, limits) = (&self.caps, &self.caps.limits);
        let mib = |bytes: u64| bytes / (1 << 20);
        writeln!(f, "{}: {} ({})", self.index, caps.name, kind_name(caps.kind))?;
        writeln!(f, "   driver        {} · Vulkan {}", caps.driver, self.api)?;
        writeln!(f, "   memory        {} MiB, {}", mib(self.memory_bytes()), self.room)?;
        writeln!(
            f,
            "   limits        allocation {} MiB, buffer {} MiB, binding {} MiB, workgroup {} invocations, {} KiB",
            mib(limits.max_allocation_bytes),
            mib(limits.max_buffer_bytes),
            mib(limits.max_binding_bytes),
            limits.max_invocations,
            limits.max_workgroup_bytes / 1024,
        )?;
        let (lowest, highest) = caps.subgroup_sizes;
        let required = if self.requires_subgroup_size { "selectable" } else { "fixed" };
        writeln!(f, "   subgroup      {} ({lowest} to {highest}, {required})", caps.subgroup_size)?;
        let dot = if self.dot4_accelerated { "accelerated" } else { "not accelerated" };
        let nv2 = if self.cooperative.nv2 { "yes" } else { "no" };
        let shapes = self.cooperative.khr.len();
        writeln!(f, "   matrices      int8 dot {dot}, KHR cooperative shapes {shapes}, NV2 {nv2}")?;
        let names: Vec<_> = caps.capabilities.iter().map(|c| c.name()).collect();
        writeln!(f, "   capabilities  {}", names.join(" "))?;
        match self.unusable.as_slice() {
            [] => write!(f, "   usable        yes"),
            reasons => write!(f, "   usable        no: {}", reasons.join("; ")),
        }
    }
}
