//! Fragments: tiles of a subgroup whose elements are known to be where they are.
//!
//! [`Tile`] leaves to the device which element an invocation holds. These functions name it, so a tile is made of words
//! that are in registers already, and its sums are read without memory. Lane l of 32 is (g = l / 4, t = l % 4):
//!
//! | tile | word or element | holds |
//! |---|---|---|
//! | [`MatA`] of f16, 16 × 16 | words 0, 1 | row g at depths 2t, 2t + 1 and at 2t + 8, 2t + 9 |
//! | | words 2, 3 | row g + 8 at the same depths |
//! | [`MatB`] of f16, 16 × 8 | words 0, 1 | column g at depths 2t, 2t + 1 and at 2t + 8, 2t + 9 |
//! | [`Acc`] of f32, 16 × 8 | elements 0, 1 | row g at columns 2t, 2t + 1 |
//! | | elements 2, 3 | row g + 8 at columns 2t, 2t + 1 |
//!
//! The lower half of a word is the smaller depth. A kernel that calls them needs subgroups of 32 on a device that says it
//! has this order (`MatrixCaps::fragments`), and is refused by name on any other.

use half::f16;
use kiln_abi::{DType, Location, spirv::Op};
use kiln_spirv_emit::ir::{Operand, Type};

use crate::{
    dims::{Dim, dim},
    ops::bitcast,
    place::{At, var, write},
    session::with,
    tile::{Acc, MatA, MatB, Sg, Tile, TileUse},
    value::{Ex, Read, Vec2, Vec4},
};

impl<R: Dim, K: Dim> Tile<f16, MatA, Sg, R, K> {
    /// The left factor whose four words an invocation holds: see [`crate::fragment`].
    #[track_caller]
    pub fn of_words(w0: Ex<u32>, w1: Ex<u32>, w2: Ex<u32>, w3: Ex<u32>) -> Ex<Self> {
        needs_order::<R, K>([16, 16]);
        of_words(&[w0, w1, w2, w3])
    }
}

impl<K: Dim, C: Dim> Tile<f16, MatB, Sg, K, C> {
    /// The right factor whose two words an invocation holds: see [`crate::fragment`].
    #[track_caller]
    pub fn of_words(w0: Ex<u32>, w1: Ex<u32>) -> Ex<Self> {
        needs_order::<K, C>([16, 8]);
        of_words(&[w0, w1])
    }
}

/// The four sums that an invocation holds: see [`crate::fragment`].
#[track_caller]
pub fn sums<R: Dim, C: Dim>(tile: Ex<Tile<f32, Acc, Sg, R, C>>) -> Ex<Vec4<f32>> {
    let at = Location::caller();
    needs_order::<R, C>([16, 8]);
    let held = var(tile);
    let parts = [0u32, 1, 2, 3].map(|e| held.at(e.read()).read().id);
    Ex::new(with(|s| {
        let ty = s.b.ty(Type::Vector { elem: DType::F32, n: 4 });
        s.b.inst(Op::CompositeConstruct, ty, parts.map(Operand::Value).into(), at)
    }))
}

/// Drivers fold pairs of halves that come from words, written one by one into a variable, to no instruction at all.
#[track_caller]
fn of_words<U: TileUse, R: Dim, C: Dim>(words: &[Ex<u32>]) -> Ex<Tile<f16, U, Sg, R, C>> {
    let tile = var(Tile::<f16, U, Sg, R, C>::zero());
    for (v, &word) in (0u32..).zip(words) {
        let pair = bitcast::<Vec2<f16>, u32>(word);
        write(&tile.at((2 * v).read()), pair.at(0u32.read()));
        write(&tile.at((2 * v + 1).read()), pair.at(1u32.read()));
    }
    tile.read()
}

/// Marks the kernel; the order is one of this shape alone, and of subgroups of 32.
#[track_caller]
fn needs_order<R: Dim, C: Dim>(wanted: [u32; 2]) {
    let (at, is) = (Location::caller(), [dim::<R>(), dim::<C>()]);
    with(|s| {
        s.b.stated().fragments = true;
        let [rows, cols] = wanted;
        if is != wanted {
            let message = format!(
                "the elements of a tile of {rows} × {cols} are known to be where they are; this one has {} × {}",
                is[0], is[1]
            );
            s.b.error("E132", message, at);
        }
        let size = s.b.subgroup_size();
        if size != Some(32) {
            let found = size.map_or("none".to_owned(), |n| n.to_string());
            let message = format!(
                "elements are known to be where they are in subgroups of 32; found {found}; state `subgroup = 32`"
            );
            s.b.error("E133", message, at);
        }
    });
}
