//! The one way to launch a kernel: every contract is checked before a device sees the dispatch.

use std::marker::PhantomData;

use thiserror::Error;

use crate::{
    BufferId, BufferRange, Device, DeviceCaps, DeviceError, Dispatch, Grid, Kernel, MatrixProduct,
    StageErrors, StagedKernel,
    spirv::{Capability, Scope},
};

/// A typed range of a buffer: `T` is the element type that the kernel's parameter has.
#[derive(Debug)]
pub struct BufferRef<T> {
    /// The range.
    pub range: BufferRange,
    elem: PhantomData<fn() -> T>,
}

impl<T> Clone for BufferRef<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for BufferRef<T> {}

impl<T> BufferRef<T> {
    /// The range `offset_bytes..offset_bytes + bytes` of `buffer`, as elements of type `T`.
    pub const fn new(buffer: BufferId, offset_bytes: u64, bytes: u64) -> Self {
        BufferRef { range: BufferRange { buffer, offset_bytes, bytes }, elem: PhantomData }
    }
}

impl<T> From<BufferRange> for BufferRef<T> {
    fn from(range: BufferRange) -> Self {
        BufferRef { range, elem: PhantomData }
    }
}

/// One launch as [`Kernel::bind`] derives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchArgs {
    /// One range per binding, in binding order.
    pub bindings: Vec<BufferRange>,
    /// Bytes that each binding must at least have, from the `#[len]` contracts; `None` where there is none.
    pub needed_bytes: Vec<Option<u64>>,
    /// The push-constant block.
    pub push: Vec<u8>,
    /// Workgroup counts.
    pub grid: Grid,
}

/// Why a launch was refused, or how it failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The kernel cannot be staged.
    #[error(transparent)]
    Stage(#[from] StageErrors),
    /// A capability the kernel needs and the device lacks.
    #[error("{kernel} needs {capability:?}, which {device} does not have")]
    MissingCapability {
        /// The kernel.
        kernel: String,
        /// The capability.
        capability: Capability,
        /// The device.
        device: String,
    },
    /// A capability the kernel needs, and the device has, that is left out as asked.
    #[error("{kernel} needs {capability:?}, which {device} has and was asked to do without")]
    LeftOut {
        /// The kernel.
        kernel: String,
        /// The capability.
        capability: Capability,
        /// The device.
        device: String,
    },
    /// A cooperative multiplication that the device does not have.
    #[error("{kernel} multiplies {product}, which {device} does not; it has {has}")]
    MissingProduct {
        /// The kernel.
        kernel: String,
        /// The product.
        product: MatrixProduct,
        /// The device.
        device: String,
        /// What it has of the same scope and elements.
        has: String,
    },
    /// Fragments on a device that is not known to have them.
    #[error(
        "{kernel} expects the elements of a 16x8x16 product of f16 in the order of fragments; {device} is not known to \
         have it; use a kernel that loads its matrices from memory"
    )]
    MissingFragments {
        /// The kernel.
        kernel: String,
        /// The device.
        device: String,
    },
    /// A number over one of the device's limits.
    #[error("{kernel} needs {needed} {what}, {device} allows {allowed}")]
    OverLimit {
        /// The kernel.
        kernel: String,
        /// What is limited, with its unit.
        what: &'static str,
        /// What the kernel or launch needs.
        needed: u64,
        /// What the device allows.
        allowed: u64,
        /// The device.
        device: String,
    },
    /// A subgroup size the device cannot give.
    #[error("{kernel} needs subgroups of {needed}, {device} has {lowest} to {highest}")]
    SubgroupSize {
        /// The kernel.
        kernel: String,
        /// The size it requires.
        needed: u32,
        /// The device's smallest.
        lowest: u32,
        /// The device's largest.
        highest: u32,
        /// The device.
        device: String,
    },
    /// A buffer shorter than its `#[len]` contract.
    #[error("{kernel}: argument {argument} needs {needed} bytes, the range given has {given}")]
    TooShort {
        /// The kernel.
        kernel: String,
        /// The parameter.
        argument: String,
        /// Bytes the contract asks for.
        needed: u64,
        /// Bytes given.
        given: u64,
    },
    /// A buffer whose length nobody would check.
    #[error(
        "{kernel}: nothing says how many bytes argument {argument} needs, and a driver is told not to check either; take \
         the arguments from the kernel's `bind`"
    )]
    NoContract {
        /// The kernel.
        kernel: String,
        /// The parameter.
        argument: String,
    },
    /// A binding offset that is not aligned as the device asks.
    #[error(
        "{kernel}: argument {argument} starts at byte {offset}, {device} asks for a multiple of {alignment}"
    )]
    Misaligned {
        /// The kernel.
        kernel: String,
        /// The parameter.
        argument: String,
        /// The offset given.
        offset: u64,
        /// The device's alignment.
        alignment: u32,
        /// The device.
        device: String,
    },
    /// A written range that overlaps another argument's.
    #[error("{kernel}: argument {written} is written and overlaps argument {other}")]
    Overlap {
        /// The kernel.
        kernel: String,
        /// The written parameter.
        written: String,
        /// The other parameter.
        other: String,
    },
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Stages `kernel`, checks the launch and runs it; an empty grid is a no-op.
///
/// # Errors
/// Every refusal of [`check`], [`LaunchError::Stage`], or the device's failure.
pub fn launch<K: Kernel>(device: &dyn Device, kernel: &K, args: &K::Args<'_>) -> Result<(), LaunchError> {
    let staged = kernel.stage()?;
    launch_staged(device, &staged, &kernel.bind(args))
}

/// As [`launch`], for a kernel that is staged already.
///
/// # Errors
/// Every refusal of [`check`], or the device's failure.
pub fn launch_staged(
    device: &dyn Device,
    kernel: &StagedKernel,
    args: &LaunchArgs,
) -> Result<(), LaunchError> {
    check(device, kernel, args)?;
    if args.grid.is_empty() {
        return Ok(());
    }
    let LaunchArgs { bindings, needed_bytes, push, grid } = args;
    Ok(device.dispatch(&Dispatch { kernel, bindings, needed_bytes, push, grid: *grid })?)
}

/// Whether `device` can run `kernel` at all: capabilities, workgroup, push constants, subgroup size.
///
/// # Errors
/// The first thing that is missing, by name.
pub fn check_device(device: &dyn Device, kernel: &StagedKernel) -> Result<(), LaunchError> {
    check_caps(device.caps(), kernel)
}

/// As [`check_device`], for a device that is known but not open.
///
/// # Errors
/// The first thing that is missing, by name.
pub fn check_caps(caps: &DeviceCaps, kernel: &StagedKernel) -> Result<(), LaunchError> {
    let layout = &kernel.layout;
    let name = || kernel.name.clone();
    if let Some(&capability) = layout.capabilities.iter().find(|c| !caps.capabilities.contains(c)) {
        let (kernel, device) = (name(), caps.name.clone());
        return Err(match caps.left_out.contains(&capability) {
            true => LaunchError::LeftOut { kernel, capability, device },
            false => LaunchError::MissingCapability { kernel, capability, device },
        });
    }
    let missing = layout.products.iter().find(|p| !caps.matrix.multiplies(p, layout.invocations()));
    if let Some(&product) = missing {
        let (device, has) = (caps.name.clone(), similar(caps, &product));
        return Err(LaunchError::MissingProduct { kernel: name(), product, device, has });
    }
    if layout.fragments && !caps.matrix.fragments {
        return Err(LaunchError::MissingFragments { kernel: name(), device: caps.name.clone() });
    }
    // What a device has once and for all comes before limits, which another variant may keep.
    let (lowest, highest) = caps.subgroup_sizes;
    if let Some(needed) = layout.subgroup_size.filter(|needed| !(lowest..=highest).contains(needed)) {
        let device = caps.name.clone();
        return Err(LaunchError::SubgroupSize { kernel: name(), needed, lowest, highest, device });
    }
    let limits = &caps.limits;
    let by_workgroup = layout.products.iter().any(|p| p.scope == Scope::Workgroup);
    let reserved = if by_workgroup { caps.matrix.reserved_workgroup_bytes } else { 0 };
    let workgroup_bytes = limits.max_workgroup_bytes.saturating_sub(reserved);
    let pairs = [
        ("invocations per workgroup", layout.invocations(), limits.max_invocations),
        ("invocations along x", layout.local_size[0], limits.max_local_size[0]),
        ("invocations along y", layout.local_size[1], limits.max_local_size[1]),
        ("invocations along z", layout.local_size[2], limits.max_local_size[2]),
        ("bytes of workgroup memory", layout.workgroup_bytes, workgroup_bytes),
        ("bytes of push constants", layout.push_bytes(), limits.max_push_bytes),
        ("storage buffers", u32::try_from(layout.bindings.len()).unwrap_or(u32::MAX), limits.max_bindings),
    ];
    for (what, needed, allowed) in pairs {
        over_limit(caps, kernel, what, needed.into(), allowed.into())?;
    }
    Ok(())
}

/// The shapes that the device multiplies of the product's scope and elements.
fn similar(caps: &DeviceCaps, product: &MatrixProduct) -> String {
    let like = |p: &&MatrixProduct| (p.scope, p.elems) == (product.scope, product.elems);
    let shape = |p: &MatrixProduct| format!("{}x{}x{}", p.mnk[0], p.mnk[1], p.mnk[2]);
    let fixed = caps.matrix.fixed.iter().filter(like).map(shape);
    let flexible = caps.matrix.flexible.iter().filter(|f| like(&&f.granularity)).map(|f| {
        let invocations = if f.invocations == 0 { "any".to_owned() } else { f.invocations.to_string() };
        format!("multiples of {} in {invocations} invocations", shape(&f.granularity))
    });
    let shapes: Vec<String> = fixed.chain(flexible).collect();
    if shapes.is_empty() { "none of these elements".to_owned() } else { shapes.join(", ") }
}

/// Checks one launch: [`check_device`], then grid, lengths, alignment and overlap.
///
/// # Errors
/// The first thing that is wrong, by name.
pub fn check(device: &dyn Device, kernel: &StagedKernel, args: &LaunchArgs) -> Result<(), LaunchError> {
    check_args(device.caps(), kernel, args)
}

/// As [`check`], for a device that is known but not open.
///
/// # Errors
/// The first thing that is wrong, by name.
pub fn check_args(caps: &DeviceCaps, kernel: &StagedKernel, args: &LaunchArgs) -> Result<(), LaunchError> {
    check_caps(caps, kernel)?;
    let (limits, layout) = (&caps.limits, &kernel.layout);
    for (what, axis) in [("workgroups along x", 0), ("workgroups along y", 1), ("workgroups along z", 2)] {
        over_limit(caps, kernel, what, args.grid.0[axis].into(), limits.max_grid[axis].into())?;
    }
    let stated = args.needed_bytes.iter().copied().chain(std::iter::repeat(None));
    for ((binding, range), needed) in layout.bindings.iter().zip(&args.bindings).zip(stated) {
        let given = range.bytes;
        let name = || (kernel.name.clone(), binding.name.clone());
        if needed.is_none() && !layout.checked {
            let (kernel, argument) = name();
            return Err(LaunchError::NoContract { kernel, argument });
        }
        if let Some(needed) = needed.filter(|&n| n > given) {
            let (kernel, argument) = name();
            return Err(LaunchError::TooShort { kernel, argument, needed, given });
        }
        over_limit(caps, kernel, "bytes in one binding", given, limits.max_binding_bytes)?;
        let alignment = limits.binding_offset_alignment;
        if range.offset_bytes % u64::from(alignment.max(1)) != 0 {
            return Err(LaunchError::Misaligned {
                kernel: kernel.name.clone(),
                argument: binding.name.clone(),
                offset: range.offset_bytes,
                alignment,
                device: caps.name.clone(),
            });
        }
    }
    check_overlap(kernel, args)
}

fn check_overlap(kernel: &StagedKernel, args: &LaunchArgs) -> Result<(), LaunchError> {
    let named: Vec<_> = kernel.layout.bindings.iter().zip(&args.bindings).collect();
    for (i, (a, ra)) in named.iter().enumerate() {
        for (b, rb) in &named[i + 1..] {
            let apart = ra.buffer != rb.buffer
                || ra.offset_bytes.saturating_add(ra.bytes) <= rb.offset_bytes
                || rb.offset_bytes.saturating_add(rb.bytes) <= ra.offset_bytes;
            if !apart && (a.access.writes() || b.access.writes()) {
                let (written, other) = if a.access.writes() { (a, b) } else { (b, a) };
                return Err(LaunchError::Overlap {
                    kernel: kernel.name.clone(),
                    written: written.name.clone(),
                    other: other.name.clone(),
                });
            }
        }
    }
    Ok(())
}

fn over_limit(
    caps: &DeviceCaps,
    kernel: &StagedKernel,
    what: &'static str,
    needed: u64,
    allowed: u64,
) -> Result<(), LaunchError> {
    if needed <= allowed {
        return Ok(());
    }
    let (kernel, device) = (kernel.name.clone(), caps.name.clone());
    Err(LaunchError::OverLimit { kernel, what, needed, allowed, device })
}
