//! How a workgroup cuts rows and keys, and on which devices.

use std::fmt;

use kiln_abi::{
    DeviceCaps, MatrixElem, MatrixProduct,
    spirv::{Capability, Scope},
};

use crate::kv_type::KvType;

/// How a workgroup cuts rows and keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AttentionShape {
    /// Width of a head.
    pub head_dim: u32,
    /// Keys of a block; they divide a page.
    pub keys: u32,
    /// Subgroups of the workgroup.
    pub subgroups: u32,
    /// Rows, columns and depth of a matrix.
    pub edge: u32,
    /// Lanes of a subgroup, at least a row's worth.
    pub lanes: u32,
}

/// `64 rows by 32 keys of 128, 32 lanes`
impl fmt::Debug for AttentionShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AttentionShape { head_dim, keys, edge, lanes, .. } = self;
        write!(f, "{} rows by {keys} keys of {head_dim}, matrices of {edge}, {lanes} lanes", self.rows())
    }
}

/// Halves of a word.
pub(super) const PER_WORD: u32 = 8;
/// Rows from which a tile of them beats a row after the other.
const FEWEST_ROWS: u32 = 32;
/// Products of a block with the query that a subgroup does, one after the other in the code: a driver for the CPU takes
/// longer to compile more than to run them, and a card's registers hold no wider head.
const MOST: u32 = 16;

impl AttentionShape {
    /// Of a large card's matrices, then of a CPU driver's.
    pub(super) const fn all(head_dim: u32) -> [AttentionShape; 2] {
        // What is on its way shares the registers with query and sums.
        let keys = if head_dim > 128 { 16 } else { 32 };
        [
            AttentionShape { head_dim, keys, subgroups: 4, edge: 16, lanes: 32 },
            AttentionShape { head_dim, keys: 16, subgroups: 2, edge: 8, lanes: 8 },
        ]
    }

    /// Rows of a tile.
    pub const fn rows(&self) -> u32 {
        self.subgroups * self.edge
    }

    /// Invocations of the workgroup.
    pub const fn invocations(&self) -> u32 {
        self.subgroups * self.lanes
    }

    /// Words of a line.
    pub(super) const fn line(&self) -> u32 {
        self.head_dim / PER_WORD
    }

    /// Words from a staged line to the next, which starts in other banks.
    pub(super) const fn pitch(&self) -> u32 {
        self.line() + 1
    }

    /// Words of keys and values, or of the query before them.
    pub(super) const fn staged(&self) -> u32 {
        let lines = if self.rows() > 2 * self.keys { self.rows() } else { 2 * self.keys };
        lines * self.pitch()
    }

    /// Four scores each: from a row of them to the next.
    pub(super) const fn score_pitch(&self) -> u32 {
        self.keys / 4 + 1
    }

    /// Eight weights each: from a row of them to the next.
    pub(super) const fn weight_pitch(&self) -> u32 {
        self.keys / PER_WORD + 1
    }

    /// Words of a block's keys, and of its values.
    pub(super) const fn block(&self) -> u32 {
        self.keys * self.line()
    }

    /// Words of its keys that an invocation copies.
    pub(super) const fn each(&self) -> u32 {
        self.block().div_ceil(self.invocations())
    }

    /// Lanes that share a row.
    pub(super) const fn sharing(&self) -> u32 {
        self.lanes / self.edge
    }

    /// Bytes of workgroup memory.
    pub const fn workgroup_bytes(&self) -> u32 {
        16 * (self.staged() + self.rows() * (self.score_pitch() + self.weight_pitch()))
    }
}

/// The shape for `rows` rows on a device, if matrices serve them.
pub fn choose(rows: u32, head_dim: u32, ty: KvType, caps: &DeviceCaps) -> Option<AttentionShape> {
    let elems = [MatrixElem::F16, MatrixElem::F16, MatrixElem::F32, MatrixElem::F32];
    let (low, high) = caps.subgroup_sizes;
    let needed = [Capability::CooperativeMatrixKHR, Capability::Float16];
    let runs = |s: &AttentionShape| {
        let product = MatrixProduct { scope: Scope::Subgroup, mnk: [s.edge; 3], elems };
        (low..=high).contains(&s.lanes)
            && head_dim.is_multiple_of(s.edge)
            && head_dim / s.edge * (s.keys / s.edge) <= MOST
            && s.invocations() <= caps.limits.max_invocations
            && s.workgroup_bytes() <= caps.limits.max_workgroup_bytes
            && caps.matrix.multiplies(&product, s.invocations())
    };
    let served = ty == KvType::F16
        && head_dim > 0
        && rows >= FEWEST_ROWS
        && needed.iter().all(|c| caps.capabilities.contains(c));
    AttentionShape::all(head_dim).into_iter().find(|s| served && runs(s))
}
