//! The shape of the work, and what it makes of numbers.

use kiln_kernels::activations::Planes;

/// Rows of x.
pub const COLUMNS: u32 = 8;
/// Elements of a unit of W.
pub const UNIT: u32 = 32;
/// Units of a step.
pub(super) const STEP: u32 = 4;
/// Rows of a tile.
const TILE: u32 = 16;

/// The shape of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Tiles of 16 rows that a subgroup has at once.
    pub tiles: u32,
    /// Subgroups of a workgroup.
    pub subgroups: u32,
    /// Units of a row that meet as lanes do.
    pub lanes: u32,
    /// Units that each of those adds up one after another.
    pub rounds: u32,
    /// Steps whose weights are on their way while one is multiplied.
    pub ahead: u32,
    /// When words of x are asked for.
    pub x: XAhead,
    /// The largest |q|, and whether any is negative.
    pub most: (u32, bool),
    /// Whether a word of the first plane holds the elements of one pack in its low and of another in its high bits, and
    /// nothing else is needed for them: the words are exchanged as they lie.
    pub nibbles: bool,
    /// What is left out, to see what it costs: 1 exchanges of words, 2 of scales, 4 loads of x, 8 their conversion, 16 scaling,
    /// 32 loads of weights, 64 asks for 128 bytes of a row at once, 128 leaves out loads of scales.
    pub drop: u32,
}

/// When words of x are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum XAhead {
    /// Behind the barrier of their step.
    Use,
    /// Before it.
    Step,
}

impl Shape {
    /// Rows of W of a workgroup.
    pub const fn rows(&self) -> u32 {
        self.tiles * TILE
    }

    /// Units of a row.
    pub const fn units(&self) -> u32 {
        self.lanes * self.rounds
    }

    /// Units of a subgroup that meet as lanes do.
    pub(super) const fn own(&self) -> u32 {
        self.lanes / self.subgroups
    }

    pub(super) const fn invocations(&self) -> u32 {
        self.subgroups * 32
    }

    /// Sums of a workgroup, in each of its subgroups.
    pub(super) const fn sums(&self) -> u32 {
        self.tiles * TILE * COLUMNS
    }

    /// Steps whose scales four lanes bring at once.
    pub(super) fn together(&self) -> u32 {
        if self.rounds > 1 { self.rounds } else { (self.own() / STEP).min(4) }
    }

    /// Steps on their way.
    pub(super) fn slots(&self) -> u32 {
        self.ahead.min(self.steps().len() as u32)
    }

    pub(super) fn steps(&self) -> Vec<(u32, u32)> {
        (0..self.own() / STEP).flat_map(|q| (0..self.rounds).map(move |r| (q, r))).collect()
    }

    /// What a sum of products is made of, so that it stays below 2^24.
    pub(super) fn parts(&self, group: u32, planes: Planes) -> Parts {
        let most = match planes {
            Planes::One => 127,
            Planes::Two => 32639,
        };
        match self.most.0 * most {
            all if all * group < 1 << 24 => Parts::One,
            half if group == 32 && half * 16 < 1 << 24 => Parts::Halves,
            _ => Parts::Planes,
        }
    }
}

/// What a group's sum of products is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Parts {
    One,
    Halves,
    Planes,
}

/// The factor that the scales of x have taken from sums: of weights that are subnormal halves, and of the lower plane.
pub fn factor(shape: Shape, planes: Planes) -> f32 {
    let of_weights = if shape.most.1 { 1.0 } else { 16_777_216.0 };
    if planes == Planes::Two { 256.0 * of_weights } else { of_weights }
}
