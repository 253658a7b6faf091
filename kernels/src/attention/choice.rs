//! Whether a step's keys are taken in parts: a function of the step's class, the model's shape and the device.

use kiln_abi::DeviceCaps;

use super::{Grain, cover::Cover};
use crate::{gemv, kv_type::KvType};

/// Rows that attend, and to what.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Rows that the command has room for.
    pub rows: u32,
    /// Query heads.
    pub n_head: u32,
    /// Heads of keys and values.
    pub n_head_kv: u32,
    /// Width of a head.
    pub head_dim: u32,
    /// How keys and values are kept.
    pub ty: KvType,
    /// Positions of a sequence, at most.
    pub n_ctx: u32,
    /// Positions that a row sees, itself included; 0 for all.
    pub window: u32,
}

/// How they do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Keys of a part; none where a workgroup reaches over all.
    pub grain: Option<Grain>,
    /// Parts of a row, at most.
    pub n_parts: u32,
    /// Heads at once.
    pub heads: u32,
    /// The subgroup size whose shuffles it uses.
    pub subgroup: Option<u32>,
    /// Why.
    pub reason: String,
}

/// Rows that fill a device without parts.
const MANY_ROWS: u32 = 17;
/// Fours of queries that an invocation keeps, at most.
const MAX_QUERIES: u32 = 8;
/// Heads at once, at most.
const MAX_HEADS: u32 = 4;

/// Chooses; every choice gives the same bits.
pub fn choose(shape: Shape, caps: &DeviceCaps) -> Choice {
    let subgroup = gemv::subgroup(caps);
    let sharing = shape.n_head / shape.n_head_kv;
    let heads = heads_at_once(shape.head_dim, shape.ty, sharing, subgroup);
    let n_parts = |grain: Grain| grain.parts(shape.n_ctx, shape.window);
    let bytes = |n_parts| {
        4 * u64::from(shape.rows) * u64::from(n_parts) * u64::from(shape.n_head) * u64::from(shape.head_dim)
    };
    let fits =
        |n_parts| n_parts <= caps.limits.max_grid[2] && bytes(n_parts) <= caps.limits.max_binding_bytes;
    let whole = |why: &str| (None, 1, format!("all keys at once: {why}"));
    // One row needs more workgroups than it has pages; the parts of more rows take less room as pages.
    let grain = if shape.rows == 1 { Grain::Chunk } else { Grain::Page };
    let n = n_parts(grain);
    let (grain, n_parts, reason) = if shape.rows >= MANY_ROWS {
        whole("many rows fill the device")
    } else if n_parts(Grain::Page) == 1 {
        whole("a row sees one page")
    } else if !fits(n) {
        whole("the device has no room for so many parts")
    } else {
        let few = if shape.rows == 1 { "one row does" } else { "few rows do" };
        (Some(grain), n, format!("keys in parts of {}, since {few} not fill the device", grain.keys()))
    };
    let folds = subgroup.map_or("workgroup memory", |_| "shuffles");
    let reason =
        format!("{reason}; {heads} of the {sharing} heads that share keys at once; folds by {folds}");
    Choice { grain, n_parts, heads, subgroup, reason }
}

impl Choice {
    /// The same with all keys at once.
    pub fn whole(self) -> Self {
        Choice { grain: None, n_parts: 1, reason: "all keys at once, as asked".to_owned(), ..self }
    }
}

/// Heads at once of `sharing` that share keys: as few groups of as equal a size as an invocation's registers allow.
/// Without shuffles sums meet in workgroup memory, which has room for one head.
fn heads_at_once(head_dim: u32, ty: KvType, sharing: u32, subgroup: Option<u32>) -> u32 {
    if subgroup.is_none() {
        return 1;
    }
    let most = (MAX_QUERIES / Cover::of(head_dim, ty).fours()).clamp(1, MAX_HEADS);
    sharing.div_ceil(sharing.div_ceil(most))
}
