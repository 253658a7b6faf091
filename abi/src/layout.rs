//! What a host has to know of a kernel to launch it.

use crate::{DType, MatrixProduct, spirv::Capability};

/// How a kernel touches a buffer, derived from its IR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// Only loads reach the buffer.
    Read,
    /// Only stores reach the buffer.
    Write,
    /// Loads and stores, or atomics.
    ReadWrite,
}

impl Access {
    /// Whether the kernel may load from the buffer.
    pub const fn reads(self) -> bool {
        matches!(self, Access::Read | Access::ReadWrite)
    }

    /// Whether the kernel may store to the buffer.
    pub const fn writes(self) -> bool {
        matches!(self, Access::Write | Access::ReadWrite)
    }
}

/// One storage buffer of a kernel, in descriptor set 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingLayout {
    /// The parameter's name in the kernel.
    pub name: String,
    /// Descriptor binding number (the parameter's position among the buffers).
    pub index: u32,
    /// The element type's name, such as `f32` or a block's.
    pub elem: String,
    /// Bytes from one element to the next.
    pub elem_bytes: u32,
    /// Derived access.
    pub access: Access,
}

/// One scalar of the push-constant block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushField {
    /// Field name.
    pub name: String,
    /// Scalar type (32-bit).
    pub dtype: DType,
    /// Offset in bytes.
    pub offset_bytes: u32,
}

/// The interface of a staged kernel, computed from its signature and its IR.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelLayout {
    /// The SPIR-V entry point's name.
    pub entry: String,
    /// Buffers, ascending by binding number.
    pub bindings: Vec<BindingLayout>,
    /// Push-constant fields, ascending by offset.
    pub push: Vec<PushField>,
    /// Invocations per workgroup along x, y, z.
    pub local_size: [u32; 3],
    /// The subgroup size the kernel requires, if it depends on one.
    pub subgroup_size: Option<u32>,
    /// Workgroup memory in bytes.
    pub workgroup_bytes: u32,
    /// Capabilities that the words declare, ascending.
    pub capabilities: Vec<Capability>,
    /// Cooperative multiplications that the words hold, ascending.
    pub products: Vec<MatrixProduct>,
    /// Whether a driver that can leave its checks of loads and stores out is to keep them: where something is comes from
    /// numbers in memory.
    pub checked: bool,
    /// Whether it counts on which elements of a subgroup's 16 × 8 × 16 product of f16 an invocation holds: see
    /// [`crate::MatrixCaps::fragments`].
    pub fragments: bool,
}

impl KernelLayout {
    /// Size of the push-constant block in bytes.
    pub fn push_bytes(&self) -> u32 {
        self.push.iter().map(|f| f.offset_bytes + f.dtype.bytes()).max().unwrap_or(0)
    }

    /// Invocations in one workgroup.
    pub fn invocations(&self) -> u32 {
        self.local_size.iter().product()
    }
}

/// Workgroup counts of a dispatch along x, y, z.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grid(pub [u32; 3]);

impl Grid {
    /// Whether the dispatch has no workgroup at all: a no-op.
    pub const fn is_empty(self) -> bool {
        self.0[0] == 0 || self.0[1] == 0 || self.0[2] == 0
    }
}

impl From<u32> for Grid {
    fn from(x: u32) -> Self {
        Grid([x, 1, 1])
    }
}

impl From<[u32; 2]> for Grid {
    fn from([x, y]: [u32; 2]) -> Self {
        Grid([x, y, 1])
    }
}

impl From<[u32; 3]> for Grid {
    fn from(xyz: [u32; 3]) -> Self {
        Grid(xyz)
    }
}
