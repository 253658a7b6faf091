//! Folds of one value per invocation, in an order that the count alone fixes.

use kiln_dsl::prelude::*;

/// n / 2, n / 4, …, 1.
pub(crate) fn halves(n: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(n / 2), |n| Some(n / 2)).take_while(|n| *n > 0)
}

/// Adds up `sums` in runs of `n` (a power of two), for the invocation `t` of the workgroup; every invocation has to
/// come here. The total of a run is in its first element, visible to all.
#[device]
pub fn fold_sums(sums: &Shared<f32>, t: u32, #[comptime] n: u32) {
    barrier();
    for step in comptime!(halves(n)) {
        if (t & (n - 1)) < step {
            sums[t] += sums[t + step];
        }
        barrier();
    }
}

/// As [`fold_sums`], the largest of a run.
#[device]
pub fn fold_max(values: &Shared<f32>, t: u32, #[comptime] n: u32) {
    barrier();
    for step in comptime!(halves(n)) {
        if (t & (n - 1)) < step {
            values[t] = max(values[t], values[t + step]);
        }
        barrier();
    }
}
