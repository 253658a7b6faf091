//! What the dot4 arm multiplies: units of W as signed bytes, and the blocks of x that they meet.

use kiln_dsl::prelude::*;

use crate::activations::{BLOCK, Planes};

/// A unit of W ready to multiply.
pub(super) struct Weights {
    lanes: Vec<Ex<u32>>,
    scales: Vec<(Ex<f32>, Ex<f32>)>,
}

impl Weights {
    #[track_caller]
    pub(super) fn of<F: PackedFormat>(unit: &Unit, counts: Option<Ex<bool>>) -> Self {
        let (mut lanes, mut scales) = (Vec::new(), Vec::new());
        for pack in 0..F::UNIT / 4 {
            lanes.push(F::lanes(unit, number(pack)));
        }
        for group in 0..F::UNIT / F::GROUP {
            let (scale, offset) = F::scale_offset(unit, number(group));
            scales.push(counts.map_or((scale, offset), |c| (or_zero(c, scale), or_zero(c, offset))));
        }
        Weights { lanes, scales }
    }

    pub(super) fn lanes(&self, pack: u32) -> Ex<u32> {
        self.lanes[pack as usize]
    }

    pub(super) fn scale(&self, group: u32) -> Ex<f32> {
        self.scales[group as usize].0
    }

    pub(super) fn offset(&self, group: u32) -> Ex<f32> {
        self.scales[group as usize].1
    }
}

impl<'a> Read for &'a Weights {
    type Out = &'a Weights;
    fn read(&self) -> &'a Weights {
        self
    }
}

/// What does not count is nothing.
#[device]
fn or_zero(counts: bool, x: f32) -> f32 {
    select(counts, x, 0.0)
}

#[track_caller]
pub(super) fn number(n: u32) -> Ex<u32> {
    n.read()
}

/// What a unit of W meets: blocks of x, each its words, hi before lo, and its scale with the sums of its halves.
pub(super) struct Column {
    blocks: Vec<Vec<Ex<Vec4<u32>>>>,
    planes: Planes,
}

impl Column {
    /// The blocks of unit `i` of the `per_row` of a row of x; where these are `known`, of the unit so many behind.
    #[track_caller]
    pub(super) fn new<F: PackedFormat>(
        x: &Buf<Vec4<u32>>,
        row: Ex<u32>,
        (per_row, known): (Ex<u32>, Option<(u32, u32)>),
        i: Ex<u32>,
        planes: Planes,
    ) -> Self {
        let (n, fields) = (F::UNIT / BLOCK, planes.fields());
        let field = |block, field| match known {
            Some((units, behind)) => {
                let more = (field * units + behind) * n + block;
                known_word(x, row, i, (fields * units, n), more)
            }
            None => x_word(x, row, (field, fields), per_row, i, (block, n)),
        };
        let block = |block| (0..planes.fields()).map(|f| field(block, f)).collect();
        Column { blocks: (0..n).map(block).collect(), planes }
    }

    pub(super) fn planes(&self) -> Planes {
        self.planes
    }

    pub(super) fn word(&self, plane: u32, pack: u32) -> Ex<u32> {
        let (block, pack) = (pack / (BLOCK / 4), pack % (BLOCK / 4));
        let four = self.blocks[block as usize][(2 * plane + pack / 4) as usize];
        match pack % 4 {
            0 => four.x(),
            1 => four.y(),
            2 => four.z(),
            _ => four.w(),
        }
    }

    pub(super) fn field(&self, block: u32, i: u32) -> Ex<f32> {
        let four = self.blocks[block as usize][2 * self.planes.count() as usize];
        let word = match i {
            0 => four.x(),
            1 => four.y(),
            _ => four.z(),
        };
        bitcast::<f32, u32>(word)
    }
}

impl<'a> Read for &'a Column {
    type Out = &'a Column;
    fn read(&self) -> &'a Column {
        self
    }
}

/// The word `more` behind the first one of unit `i` of a row of x, which has so many units for all its fields, and so many
/// words a unit: an address has room for what is known of it.
#[device]
fn known_word(
    x: &Buf<Vec4<u32>>,
    row: u32,
    i: u32,
    #[comptime] of: (u32, u32),
    #[comptime] more: u32,
) -> Vec4<u32> {
    x[(row * comptime!(of.0) + i) * comptime!(of.1) + more]
}

/// A field of block `of.0` of the `of.1` that unit `i` has.
#[device]
fn x_word(
    x: &Buf<Vec4<u32>>,
    row: u32,
    #[comptime] field: (u32, u32),
    per_row: u32,
    i: u32,
    #[comptime] of: (u32, u32),
) -> Vec4<u32> {
    let start = row * comptime!(field.1) + comptime!(field.0);
    if comptime!(of.1 == 1) {
        x[start * per_row + i]
    } else {
        x[(start * per_row + i) * comptime!(of.1) + comptime!(of.0)]
    }
}
