//! The Hadamard transform of runs of 32 elements: an orthogonal mix, its own inverse, that leaves products alone and
//! spreads what one element has over all.
//!
//! Source: J. Hadamard, Résolution d'une question relative aux déterminants, 1893; in stages as Yates's algorithm, 1937.

use kiln_dsl::prelude::*;

/// Makes the transform orthogonal: 1 / √32.
const UNIT: f32 = 0.176_776_7;

/// The stages, two at a time: the distance between the elements of a pair, and that between two pairs.
const ROUNDS: [(u32, Option<u32>); 3] = [(1, Some(2)), (4, Some(8)), (16, None)];

/// Mixes each run of 32 of `x`, `n` elements of workgroup memory, for invocation `t` of `local`; every invocation has to come
/// here, what it wrote before being visible to all, as the result is.
#[device]
pub fn hadamard(x: &Shared<f32>, t: u32, #[comptime] n: u32, #[comptime] local: u32) {
    let mut own = [0.0; comptime!(n.div_ceil(local))];
    for (near, far) in comptime!(ROUNDS) {
        for j in comptime!(0..n.div_ceil(local)) {
            let d = t + j * local;
            if d < n {
                own[j] = half(d, x[d], x[d ^ near], comptime!(near));
                if comptime!(far.is_some()) {
                    let e = d ^ comptime!(far.unwrap_or(0));
                    let other = half(d, x[e], x[e ^ near], comptime!(near));
                    own[j] = half(d, own[j], other, comptime!(far.unwrap_or(0)));
                }
            }
        }
        barrier();
        for j in comptime!(0..n.div_ceil(local)) {
            let d = t + j * local;
            if d < n {
                x[d] = own[j] * comptime!(if far.is_none() { UNIT } else { 1.0 });
            }
        }
        barrier();
    }
}

/// The half of a butterfly that element `d` gets: the sum of itself and the element at `distance`, or their difference.
#[device]
fn half(d: u32, own: f32, other: f32, #[comptime] distance: u32) -> f32 {
    select((d & distance) == 0, own + other, other - own)
}
