//! Where the fields of a unit lie in memory, and their words from there.

use kiln_abi::Location;

use super::{Field, Plane, Unit, number};
use crate::{
    ops::{add, cast, div, mul, shr},
    place::At,
    value::{Ex, Read, Vec2, Vec4},
};

impl Unit {
    /// Where this unit's field begins, counted in `size` bytes.
    #[track_caller]
    pub(super) fn start(&self, plane: usize, size: u32) -> Ex<u32> {
        self.further(self.first_start(plane, size), self.bytes_behind(plane) / size)
    }

    /// Bytes from the field that [`Unit::first_start`] finds to this unit's.
    fn bytes_behind(&self, plane: usize) -> u32 {
        let Plane { bytes, units, .. } = self.fields[plane].plane;
        self.behind.checked_div(units).map_or(0, |fields| fields * bytes)
    }

    #[track_caller]
    fn further(&self, start: Ex<u32>, by: u32) -> Ex<u32> {
        if by == 0 { start } else { add(start, number(by)) }
    }

    /// Where the field begins of the unit that this one is behind.
    #[track_caller]
    fn first_start(&self, plane: usize, size: u32) -> Ex<u32> {
        let Field { plane, first, .. } = &self.fields[plane];
        let index = match plane.units {
            0 if size == 1 => return *first,
            0 => return shr(*first, number(size.ilog2())),
            1 => self.index,
            // The same for all rows but for what a row begins with.
            units => match self.row {
                Some(row) => add(div(row, number(units)), div(self.in_row, number(units))),
                None => div(self.index, number(units)),
            },
        };
        let index = match plane.bytes / size {
            1 => index,
            n => mul(index, number(n)),
        };
        match size {
            1 => add(*first, index),
            _ => add(shr(*first, number(size.ilog2())), index),
        }
    }

    #[track_caller]
    pub(super) fn word_in_memory(&self, plane: usize, j: Ex<u32>) -> Ex<u32> {
        if let (0, Some(field)) = (plane, self.first_field) {
            return Ex::new(field.step(j.id).load(Location::caller()));
        }
        self.words.at(add(self.start(plane, 4), j)).read()
    }

    #[track_caller]
    pub(super) fn sixteen_bytes(&self, plane: usize, j: Ex<u32>) -> Ex<Vec4<u32>> {
        let fours = self.words.view::<Vec4<u32>>();
        fours.at(add(self.start(plane, 16), j)).read()
    }

    #[track_caller]
    pub(super) fn eight_bytes(&self, plane: usize, j: Ex<u32>) -> Ex<Vec2<u32>> {
        let twos = self.words.view::<Vec2<u32>>();
        twos.at(add(self.start(plane, 8), j)).read()
    }

    #[track_caller]
    pub(super) fn narrow(&self, plane: usize) -> Ex<u32> {
        let pairs = self.words.view::<i16>();
        let at = match self.fields[plane].plane.bytes {
            2 => self.start(plane, 2),
            _ if self.bytes_behind(plane).is_multiple_of(2) => {
                self.further(shr(self.first_start(plane, 1), number(1)), self.bytes_behind(plane) / 2)
            }
            _ => shr(self.start(plane, 1), number(1)),
        };
        // With the sign above: what some drivers load is that, and zeros are one more instruction.
        cast::<u32, i16>(pairs.at(at).read())
    }
}
