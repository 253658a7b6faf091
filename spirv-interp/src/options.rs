//! What a caller chooses about a run; none of it turns a check off.

/// Subgroup sizes the interpreter has.
pub const SUBGROUP_SIZES: [u32; 5] = [4, 8, 16, 32, 64];

/// The order in which a subgroup reduction or scan combines its lanes.
///
/// Hardware is free to choose; a result that changes with the order is sensitive to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReduceOrder {
    /// Lane 0 first: ((x0 + x1) + x2) + x3.
    #[default]
    Forward,
    /// The last lane first: ((x3 + x2) + x1) + x0.
    Reverse,
    /// Neighbors first: (x0 + x1) + (x2 + x3).
    Tree,
}

/// How an interpreter runs kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterpOptions {
    /// Lanes of a subgroup, one of [`SUBGROUP_SIZES`]; a kernel that requires a size gets that one.
    pub subgroup_size: u32,
    /// Seeds the order of workgroups and the interleaving of subgroups.
    pub seed: u64,
    /// Instructions one subgroup may execute in one workgroup before the run counts as endless.
    pub fuel: u64,
    /// How subgroup reductions and scans associate.
    pub reduce_order: ReduceOrder,
    /// A binding's offset has to be a multiple of this many bytes.
    pub binding_offset_alignment: u32,
}

impl Default for InterpOptions {
    fn default() -> Self {
        InterpOptions {
            subgroup_size: 32,
            seed: 0,
            fuel: 1 << 28,
            reduce_order: ReduceOrder::Forward,
            binding_offset_alignment: 16,
        }
    }
}

/// A small seeded generator (splitmix64); the only source of chance in a run.
#[derive(Clone, Debug)]
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n` (n > 0).
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }
}
