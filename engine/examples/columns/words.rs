//! What lanes do with words: where each asks for its own, how four exchange them, how bytes become halves.

use half::f16;
use kiln_dsl::prelude::*;

/// Word j of lane u's four, in lane j of each four, for all u: a transpose.
#[track_caller]
pub(super) fn exchanged(own: [Ex<u32>; 4], t: Ex<u32>) -> [Ex<u32>; 4] {
    let [a, b, c, d] = own;
    let ((a, b), (c, d)) = (swapped(a, b, t, 1), swapped(c, d, t, 1));
    let ((a, c), (b, d)) = (swapped(a, c, t, 2), swapped(b, d, t, 2));
    [a, b, c, d]
}

/// The pair with its second for lanes without `bit`, its first for those with it, given to the lane across for the other.
#[device]
fn swapped(a: u32, b: u32, t: u32, #[comptime] bit: u32) -> (u32, u32) {
    let upper = (t & bit) != 0;
    let theirs = subgroup::shuffle_xor(select(upper, a, b), bit);
    (select(upper, theirs, a), select(upper, b, theirs))
}

#[device]
pub(super) fn unit_at(first: u32, t: u32, #[comptime] i: u32) -> u32 {
    first + t + i
}

/// The first of the four units whose scales a lane brings, of so many steps from `i` on.
#[device]
pub(super) fn quad_at(first: u32, t: u32, #[comptime] i: u32, #[comptime] together: u32) -> u32 {
    first + (t & comptime!(together - 1)) * 4 + i
}

/// Four fields of two bytes, of units `i` to `i + 3` of a row, in a plane with so many bytes of eight units before it.
#[device]
pub(super) fn four_halves(
    w: &Buf<u32>,
    n_units: u32,
    start: u32,
    i: u32,
    #[comptime] before: u32,
    #[comptime] behind: u32,
) -> Vec2<u32> {
    let two = comptime!(w.view::<Vec2<u32>>());
    two[n_units / 8 * comptime!(before / 8) + (start + i) / 4 + comptime!(behind / 4)]
}

#[device]
pub(super) fn half_of(word: u32, #[comptime] i: u32) -> u32 {
    (word >> comptime!(16 * i)) & 0xffff
}

#[device]
pub(super) fn lane_of(g: u32, #[comptime] u: u32) -> u32 {
    g * 4 + u
}

#[device]
pub(super) fn from_lane(value: f32, from: u32) -> f32 {
    subgroup::shuffle(value, from)
}

#[device]
pub(super) fn lane_words(x: &Buf<Vec4<u32>>, first: u32, #[comptime] i: u32) -> Vec4<u32> {
    x[first * 32 + lane() + comptime!(i * 32)]
}

#[device]
pub(super) fn lane_pair(x: &Buf<Vec4<u32>>, first: u32, #[comptime] i: u32) -> Vec2<u32> {
    let two = comptime!(x.view::<Vec2<u32>>());
    two[first * 32 + lane() + comptime!(i * 32)]
}

#[device]
pub(super) fn scale_words(x: &Buf<Vec4<u32>>, first: u32, t: u32, #[comptime] behind: u32) -> Vec4<u32> {
    x[first * 8 + t * 2 + behind]
}

/// Two of four signed bytes as halves.
#[device]
pub(super) fn signed(word: u32, #[comptime] shift: u32) -> u32 {
    let bits = ((word >> shift) & 0x00ff_00ff) ^ 0x6480_6480;
    bitcast::<u32, Vec2<f16>>(bitcast::<Vec2<f16>, u32>(bits) - splat::<Vec2<f16>>(1152.0))
}

/// The same, 256th parts of them.
#[device]
pub(super) fn parts_of(word: u32, #[comptime] shift: u32) -> u32 {
    let bits = ((word >> shift) & 0x00ff_00ff) ^ 0x4480_4480;
    bitcast::<u32, Vec2<f16>>(bitcast::<Vec2<f16>, u32>(bits) - splat::<Vec2<f16>>(4.5))
}

/// Two of four bytes below 128 as halves of 2^-24 each: what they are by their bits.
#[device]
pub(super) fn plain(word: u32, #[comptime] shift: u32) -> u32 {
    (word >> shift) & 0x00ff_00ff
}

/// The same of so many rounds: each lane brings those of another.
#[device]
pub(super) fn round_at(
    first: u32,
    t: u32,
    #[comptime] i: u32,
    #[comptime] together: u32,
    #[comptime] lanes: u32,
) -> u32 {
    let last = comptime!(together - 1);
    first + min(t, last) * comptime!(lanes) + i
}

#[device]
pub(super) fn keep(words: &PlaceArray<u32, Local>, #[comptime] at: u32, word: u32) {
    words[at] = word;
}

#[device]
pub(super) fn kept(words: &PlaceArray<u32, Local>, #[comptime] at: u32) -> u32 {
    words[at]
}

#[device]
pub(super) fn wide_at(start: u32, g: u32, first: u32, #[comptime] units: u32) -> (u32, u32) {
    (start + ((lane() >> 3) - g) * units, first + (lane() & 7))
}
