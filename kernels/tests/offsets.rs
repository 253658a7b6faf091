//! What a format's element has beside `scale * q`: for sixteen elements that share a scale, one number, with what is left
//! in steps of which 128 reach the largest. Conformance widens its bounds by these offsets, so a wrong one must not pass.

use kiln_kernels::conformance::Random;
use kiln_kernels::{FormatRow, Registry};

/// Elements that share a scale and an offset in every packed format.
const GROUP: usize = 16;
/// Largest magnitude of a packed `q`.
const MOST: f64 = 128.0;
/// What a weight may be off by for its own size and its offset's: a product and a sum, each rounded.
const ROUNDING: f64 = 4.0 * f32::EPSILON as f64;
/// Largest size of the numbers told apart: beyond, the distance of two weights is lost in roundings.
const LARGEST: f64 = 1e30;

/// Whether sixteen weights are `scale * q + offset`, as far as f32 can tell.
fn is_packed(weights: &[f32], offsets: &[f32]) -> bool {
    let offset = f64::from(offsets[0]);
    let w: Vec<f64> = weights.iter().map(|w| f64::from(*w)).collect();
    let lost = w.iter().map(|w| (w.abs() + offset.abs()) * ROUNDING).fold(0.0, f64::max);
    let most = w.iter().map(|w| (w - offset).abs()).fold(0.0, f64::max);
    let is_step = |step: f64| step <= lost || step + lost >= most / MOST;
    offsets.iter().all(|o| o.to_bits() == offsets[0].to_bits())
        && w.iter().all(|a| w.iter().all(|b| is_step((a - b).abs())))
}

/// Groups of random blocks that can be told apart, and those that are not as the format says.
fn groups_and_wrong(row: &FormatRow, offsets: fn(&[u8]) -> Vec<f32>) -> (usize, usize) {
    let n_blocks = 8192 / row.geometry.elements().min(256) as usize;
    let blocks = Random::new(row.id.into()).bytes(n_blocks * row.geometry.bytes() as usize);
    let mut weights = vec![0.0; n_blocks * row.geometry.elements() as usize];
    row.dequantize(&blocks, &mut weights).expect("whole blocks");
    let offsets = offsets(&blocks);
    let usable = |v: &f32| v.is_finite() && f64::from(v.abs()) < LARGEST;
    let groups: Vec<_> = weights
        .chunks_exact(GROUP)
        .zip(offsets.chunks_exact(GROUP))
        .filter(|(w, o)| w.iter().chain(*o).all(usable))
        .collect();
    (groups.len(), groups.iter().filter(|(w, o)| !is_packed(w, o)).count())
}

#[test]
fn a_packed_formats_offsets_leave_whole_steps_of_a_scale() {
    for row in Registry::builtin().formats().filter(|row| row.traits.packed) {
        let (groups, wrong) = groups_and_wrong(row, row.offsets);
        assert!(groups >= 200, "{}: {groups} groups", row.name);
        assert_eq!(
            wrong, 0,
            "{}: of {groups} groups; `Format::offset` is not what its kernels add",
            row.name
        );
    }
}

#[test]
fn a_wrong_offset_is_seen() {
    let registry = Registry::builtin();
    let row = registry.format_named("Q4_K").expect("a format");
    let none: fn(&[u8]) -> Vec<f32> = |blocks| vec![0.0; blocks.len() / 144 * 256];
    let large: fn(&[u8]) -> Vec<f32> = |blocks| vec![1e6; blocks.len() / 144 * 256];
    for offsets in [none, large] {
        let (groups, wrong) = groups_and_wrong(row, offsets);
        assert!(wrong > groups / 10, "{wrong} of {groups}");
    }
}
