//! What a run did, in numbers: a cost that can be asserted on a machine without a GPU.

/// Accesses to one storage class; each counts one lane and one scalar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Scalars loaded.
    pub loads: u64,
    /// Scalars stored.
    pub stores: u64,
    /// Bytes loaded.
    pub loaded_bytes: u64,
    /// Bytes stored.
    pub stored_bytes: u64,
}

impl Traffic {
    pub(crate) fn load(&mut self, lanes: u32, bytes: u32) {
        self.loads += u64::from(lanes);
        self.loaded_bytes += u64::from(lanes) * u64::from(bytes);
    }

    pub(crate) fn store(&mut self, lanes: u32, bytes: u32) {
        self.stores += u64::from(lanes);
        self.stored_bytes += u64::from(lanes) * u64::from(bytes);
    }
}

/// What matrix instructions did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MatrixCounters {
    /// Matrix instructions, each counted once for its scope; element access of single invocations is not among them.
    pub instructions: u64,
    /// Multiplications of products, each with its addition.
    pub multiply_adds: u64,
    /// Calls of decode, reduction and per-element functions, each counted once for its element.
    pub calls: u64,
}

/// What one dispatch executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Workgroups run.
    pub workgroups: u64,
    /// Scalar instructions times the lanes that were active in them.
    pub lane_operations: u64,
    /// Scalar instructions, each counted once for its subgroup.
    pub instructions: u64,
    /// Those of them in which not every lane of the subgroup took part.
    pub divergent: u64,
    /// Subgroup operations, each counted once for its subgroup and its scalar; elections are none.
    pub subgroup_operations: u64,
    /// Workgroup barriers passed, each counted once for its workgroup.
    pub barriers: u64,
    /// Storage buffers.
    pub buffers: Traffic,
    /// Workgroup memory.
    pub workgroup: Traffic,
    /// Function and private variables.
    pub variables: Traffic,
    /// The push-constant block.
    pub push: Traffic,
    /// f16 results that are infinite although every operand was finite, and f16 sums of products that left f16's range.
    pub f16_overflows: u64,
    /// Matrix instructions.
    pub matrices: MatrixCounters,
}
