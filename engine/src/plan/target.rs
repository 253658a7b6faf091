//! The device that a plan is made for: what it can do and how much room it has, of this machine or from a file.

use std::collections::BTreeSet;

use kiln_abi::{DeviceCaps, DeviceKind, Limits, MatrixCaps, spirv::Capability};
use kiln_runtime::{DeviceInfo, Gpu, Heap, Room, kind_name};
use serde::{Deserialize, Serialize};

use super::matrices;

/// What a plan needs to know of a device.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// What it can do.
    pub caps: DeviceCaps,
    /// Memory that may be used, and who bounds it.
    pub room: Room,
    /// Capabilities that the description names and Kiln has no use for.
    pub unused: Vec<String>,
}

/// Why a caps file says nothing.
#[derive(Debug, thiserror::Error)]
#[error("not a caps file: {0}; `kiln devices --caps DEVICE` writes one")]
pub struct CapsFileError(#[from] serde_json::Error);

impl Target {
    /// An open device and its room as it is now.
    pub fn of(gpu: &Gpu) -> Self {
        let (info, room) = (gpu.info(), gpu.room());
        Self { caps: info.caps.clone(), room, unused: Vec::new() }
    }

    /// The same without some of what it has.
    pub fn without(mut self, capabilities: &BTreeSet<Capability>) -> Self {
        self.caps.leave_out(capabilities);
        self
    }

    /// Reads a caps file.
    ///
    /// # Errors
    /// Text that is not JSON, or lacks a field.
    pub fn from_json(text: &str) -> Result<Self, CapsFileError> {
        let file: CapsFile = serde_json::from_str(text)?;
        let known = |name: &str| Capability::ALL.iter().copied().find(|c| c.name() == name);
        let heaps: Vec<Heap> = file.heaps.iter().map(HeapRow::heap).collect();
        let caps = DeviceCaps {
            name: file.name,
            driver: file.driver,
            kind: file.kind,
            capabilities: file.capabilities.iter().filter_map(|name| known(name)).collect(),
            left_out: BTreeSet::new(),
            subgroup_size: file.subgroup_size,
            subgroup_sizes: file.subgroup_sizes,
            matrix: file.matrix,
            limits: file.limits,
        };
        let unused = file.capabilities.into_iter().filter(|name| known(name).is_none()).collect();
        Ok(Self { caps, room: Room::of_heaps(&heaps, None), unused })
    }

    /// A device of this machine as a caps file.
    ///
    /// # Errors
    /// None that a device causes.
    pub fn to_json(info: &DeviceInfo) -> Result<String, CapsFileError> {
        let caps = info.caps.clone();
        let file = CapsFile {
            name: caps.name,
            driver: caps.driver,
            kind: caps.kind,
            capabilities: caps.capabilities.iter().map(|c| c.name().to_owned()).collect(),
            subgroup_size: caps.subgroup_size,
            subgroup_sizes: caps.subgroup_sizes,
            matrix: caps.matrix,
            limits: caps.limits,
            heaps: info.heaps.iter().map(HeapRow::of).collect(),
        };
        Ok(serde_json::to_string_pretty(&file)?)
    }

    /// Name, kind and the numbers that shape a plan, on one line.
    pub(super) fn line(&self) -> String {
        let (caps, limits) = (&self.caps, &self.caps.limits);
        format!(
            "{} ({}), subgroup {}, workgroup {} invocations and {} KiB, binding {} MiB",
            caps.name,
            kind_name(caps.kind),
            caps.subgroup_size,
            limits.max_invocations,
            limits.max_workgroup_bytes / 1024,
            limits.max_binding_bytes >> 20,
        )
    }
}

/// The file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CapsFile {
    name: String,
    driver: String,
    #[serde(with = "KindName")]
    kind: DeviceKind,
    /// SPIR-V's names.
    capabilities: BTreeSet<String>,
    subgroup_size: u32,
    subgroup_sizes: (u32, u32),
    #[serde(default, with = "matrices", skip_serializing_if = "is_none")]
    matrix: MatrixCaps,
    #[serde(with = "LimitsRow")]
    limits: Limits,
    heaps: Vec<HeapRow>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "DeviceKind", rename_all = "lowercase")]
enum KindName {
    Discrete,
    Integrated,
    Virtual,
    Cpu,
    Other,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Limits", deny_unknown_fields)]
struct LimitsRow {
    max_invocations: u32,
    max_local_size: [u32; 3],
    max_grid: [u32; 3],
    max_workgroup_bytes: u32,
    max_push_bytes: u32,
    max_binding_bytes: u64,
    max_buffer_bytes: u64,
    max_allocation_bytes: u64,
    max_bindings: u32,
    binding_offset_alignment: u32,
}

fn is_none(matrix: &MatrixCaps) -> bool {
    *matrix == MatrixCaps::default()
}

/// Bytes that are in use are a matter of the moment and stay out of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeapRow {
    bytes: u64,
    device_local: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    budget_bytes: Option<u64>,
}

impl HeapRow {
    fn of(heap: &Heap) -> Self {
        Self { bytes: heap.bytes, device_local: heap.device_local, budget_bytes: heap.budget_bytes }
    }

    fn heap(&self) -> Heap {
        let Self { bytes, device_local, budget_bytes } = *self;
        Heap { bytes, device_local, budget_bytes, used_bytes: None }
    }
}
