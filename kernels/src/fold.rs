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
    fold_columns(&sums, t, comptime!(n), comptime!(1), comptime!(0));
}

/// As [`fold_sums`], `cols` of them side by side: column c starts at element c · `stride`.
#[device]
pub fn fold_columns(
    sums: &Shared<f32>,
    t: u32,
    #[comptime] n: u32,
    #[comptime] cols: u32,
    #[comptime] stride: u32,
) {
    barrier();
    for step in comptime!(halves(n)) {
        if (t & (n - 1)) < step {
            for c in comptime!(0..cols) {
                sums[c * stride + t] += sums[c * stride + t + step];
            }
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
