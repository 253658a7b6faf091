//! Folds of one value per invocation, in an order that the count alone fixes.

use kiln_dsl::prelude::*;

/// n / 2, n / 4, …, 1.
pub(crate) fn halves(n: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(n / 2), |n| Some(n / 2)).take_while(|n| *n > 0)
}

/// Invocations whose values meet as a tree; the sums of such runs are then added one after the other.
pub(crate) const RUN: u32 = 32;

/// Elements of workgroup memory that [`fold_all`] takes.
pub(crate) const fn fold_all_len(local: u32, subgroup: Option<u32>) -> u32 {
    match subgroup {
        Some(_) => local / RUN,
        None => local,
    }
}

/// The sum of a value of every invocation of a workgroup of `local`, whole runs of 32; all have to come here.
/// Shuffles in subgroups of 32 and workgroup memory give the same bits.
#[device]
pub fn fold_all(
    own: f32,
    sums: &Shared<f32>,
    t: u32,
    #[comptime] local: u32,
    #[comptime] subgroup: Option<u32>,
) -> f32 {
    if comptime!(subgroup.is_some()) {
        let mut sum = own;
        for mask in comptime!(halves(RUN)) {
            let other = subgroup::shuffle_xor(sum, mask);
            sum += other;
        }
        if (t & (RUN - 1)) == 0 {
            sums[t / RUN] = sum;
        }
        barrier();
    } else {
        sums[t] = own;
        fold_columns(&sums, t, comptime!(RUN), comptime!(1), comptime!(0));
    }
    let each = comptime!(if subgroup.is_some() { 1 } else { RUN });
    let mut total = sums[0];
    for i in comptime!(1..local / RUN) {
        total += sums[i * each];
    }
    barrier();
    total
}

/// Elements of workgroup memory that [`sum_of_run`] and [`most_of_run`] take.
pub(crate) const fn fold_run_len(local: u32, subgroup: Option<u32>) -> u32 {
    if subgroup.is_some() { 1 } else { local }
}

/// The sum of a value of every invocation of a run of 32, as a tree; all of a workgroup have to come here.
#[device]
pub fn sum_of_run(own: f32, sums: &Shared<f32>, t: u32, #[comptime] subgroup: Option<u32>) -> f32 {
    let mut sum = own;
    if comptime!(subgroup.is_some()) {
        for mask in comptime!(halves(RUN)) {
            let other = subgroup::shuffle_xor(sum, mask);
            sum += other;
        }
    } else {
        sums[t] = own;
        fold_columns(&sums, t, comptime!(RUN), comptime!(1), comptime!(0));
        sum = sums[t / RUN * RUN];
        barrier();
    }
    sum
}

/// As [`sum_of_run`], the largest.
#[device]
pub fn most_of_run(own: f32, values: &Shared<f32>, t: u32, #[comptime] subgroup: Option<u32>) -> f32 {
    let mut most = own;
    if comptime!(subgroup.is_some()) {
        for mask in comptime!(halves(RUN)) {
            let other = subgroup::shuffle_xor(most, mask);
            most = max(most, other);
        }
    } else {
        values[t] = own;
        fold_max(&values, t, comptime!(RUN));
        most = values[t / RUN * RUN];
        barrier();
    }
    most
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
