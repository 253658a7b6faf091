//! The products of a round in the dot4 arm: units of W, and as many columns of x as the step has rows for.

use kiln_dsl::prelude::*;

use super::{
    Tile,
    columns::{Rows, in_runs},
    dot4::Round,
    dot4_operands::{Column, Weights},
};
use crate::activations::{BLOCK, Planes};

/// Adds the products of a round to the sums.
///
/// Of several columns of two planes, each is asked for before a barrier of the subgroup, behind which a driver moves no
/// load; where rounds are not known, before the products of the column before it too.
#[track_caller]
pub(super) fn round_products<F: PackedFormat>(
    sums: &PlaceArray<f32, Local>,
    round: &Round,
    nearest: &Column,
    x: &Buf<Vec4<u32>>,
    rows: &Rows,
    planes: Planes,
    t: Tile,
) {
    let weights: Vec<_> = round.units.iter().map(|u| Weights::of::<F>(u, round.counts)).collect();
    let column = |c: u32| rows.column::<F>(x, c, round, planes, t);
    let fenced = t.cols > 1 && planes == Planes::Two;
    let mut next = None;
    in_runs(t.cols, rows.left, &mut |run| {
        for c in run {
            let own = (c > 0).then(|| next.take().unwrap_or_else(|| column(c)));
            if fenced && t.rounds == 0 && c + 1 < t.cols {
                next = Some(column(c + 1));
            }
            if fenced {
                subgroup_barrier();
            }
            for (a, weights) in (0..).zip(&weights) {
                let j = c * t.rows + round.first_row + a;
                add_product::<F>(sums, weights, own.as_ref().unwrap_or(nearest), j, t.apart);
            }
        }
    });
}

#[device]
fn add_product<F: PackedFormat>(
    sums: &PlaceArray<f32, Local>,
    weights: &Weights,
    column: &Column,
    #[comptime] j: u32,
    #[comptime] apart: bool,
) {
    if comptime!(apart) {
        sums[j] += unit_product::<F>(weights, column, 0.0);
    } else {
        sums[j] = unit_product::<F>(weights, column, sums[j]);
    }
}

/// `sum` and the product of a unit of W and its blocks of x.
#[device]
fn unit_product<F: PackedFormat>(w: &Weights, x: &Column, sum: f32) -> f32 {
    let mut sum = sum;
    let two = comptime!(x.planes() == Planes::Two);
    for group in comptime!(0..F::UNIT / F::GROUP) {
        let block = comptime!(group * F::GROUP / BLOCK);
        let d = x.field(comptime!(block), comptime!(0));
        let mut hi = 0;
        // One plane's sum is below 2^22, and this is the float 3 · 2^22 by its bits: with it, it is a float already.
        let mut lo = start(comptime!(two));
        for pack in comptime!(group * F::GROUP / 4..(group + 1) * F::GROUP / 4) {
            let q = w.lanes(comptime!(pack));
            lo = dot4_i8_acc(q, x.word(comptime!(two as u32), comptime!(pack)), lo);
            if comptime!(two) {
                hi = dot4_i8_acc(q, x.word(comptime!(0), comptime!(pack)), hi);
            }
        }
        // The size of x first: a product of the two scales may be too small for a number. A scale of one plane has
        // ten bits, so that nothing is rounded here.
        let (centered, center) = comptime!((two && F::CENTER.is_some(), F::CENTER.unwrap_or(0.0)));
        let inner = if comptime!(centered) {
            // The product with the sum is the same for all rows of W.
            fma((hi * 256 + lo) as f32, d, x_sum::<F>(&x, comptime!(group)) * center)
        } else if comptime!(two) {
            // One conversion: two sums that start as floats and meet in an fma took 2 to 13 % longer on an H200.
            (hi * 256 + lo) as f32 * d
        } else {
            // Not an fma: a device may round its product, which is long here.
            (bitcast::<f32, i32>(lo) - 12_582_912.0) * d
        };
        sum = fma(inner, w.scale(comptime!(group)), sum);
        if comptime!(F::OFFSET && !centered) {
            sum = fma(w.offset(comptime!(group)), x_sum::<F>(&x, comptime!(group)), sum);
        }
    }
    sum
}

/// The sum of x beside a group of W.
#[device]
fn x_sum<F: PackedFormat>(x: &Column, #[comptime] group: u32) -> f32 {
    let block = comptime!(group * F::GROUP / BLOCK);
    if comptime!(F::GROUP == 16) {
        x.field(comptime!(block), comptime!(1 + group % 2))
    } else {
        x.field(comptime!(block), comptime!(1)) + x.field(comptime!(block), comptime!(2))
    }
}

#[device]
fn start(#[comptime] two: bool) -> i32 {
    if comptime!(two) { 0 } else { THREE }
}

/// The bits of 12 582 912 as f32.
const THREE: i32 = 0x4b40_0000;
