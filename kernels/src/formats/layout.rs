//! How blocks of a file become planes of a device: bit by bit, as each format's [`Format::source`] says.

use std::borrow::Cow;
use std::fmt;

use kiln_dsl::prelude::Plane;
use kiln_dsl::tensor::plane_offsets;
use thiserror::Error;

use super::Format;

/// Element and bit of it behind `bit` of a field, each 16 bytes of which hold 32 elements: byte l of word j holds the
/// elements 4j + l and 16 + 4j + l of them.
pub const fn nibble(bit: usize) -> (usize, usize) {
    let (j, l, high, b) = (bit % 128 / 32, bit % 32 / 8, bit % 8 / 4, bit % 4);
    (32 * (bit / 128) + 16 * high + 4 * j + l, b)
}

/// The same for a field whose bytes 2p and 2p + 1 hold the elements 4p to 4p + 3: even ones first.
pub const fn coded_nibble(bit: usize) -> (usize, usize) {
    let (byte, high, b) = (bit / 8, bit % 8 / 4, bit % 4);
    (4 * (byte / 2) + byte % 2 + 2 * high, b)
}

/// The same for a field whose words hold 16 elements each: byte l of word j holds the elements 16j + l, 16j + 4 + l,
/// 16j + 8 + l, 16j + 12 + l.
pub const fn pair(bit: usize) -> (usize, usize) {
    let (j, l, n, b) = (bit / 32, bit % 32 / 8, bit % 8 / 2, bit % 2);
    (16 * j + 4 * n + l, b)
}

/// The element behind `bit` of a field whose words hold 32 elements each: bit p of byte l of word j is element
/// 32j + 4p + l.
pub const fn single(bit: usize) -> usize {
    32 * (bit / 32) + 4 * (bit % 8) + bit % 32 / 8
}

/// The block's bit `b` of element `i` of 32, whose 16 bytes from `qs` on hold the elements 0 to 15 in their low nibbles
/// and 16 to 31 in their high ones.
pub const fn in_halves(qs: usize, (i, b): (usize, usize)) -> usize {
    8 * (qs + i % 16) + 4 * (i / 16) + b
}

/// A code of a format's blocks that costs a device less to decode than the file's, at most a twentieth larger. A load puts
/// blocks in it, and `Format::source` speaks of its bits.
#[derive(Clone, Copy, Debug)]
pub struct Recoding {
    /// Bytes of a block in it.
    pub bytes: u32,
    /// Puts a block of the file in it.
    pub code: fn(&[u8], &mut [u8]),
    /// The inverse: a block of the file that decodes to the same, of several always one. Kernels never need it; it is
    /// what tests hold `code` against: coded again it gives the same bits, and it decodes to the values of the file's.
    pub restore: fn(&[u8], &mut [u8]),
}

/// Bytes of the blocks whose bits move: those of the file, or coded anew.
pub(crate) fn coded_bytes<F: Format>() -> u32 {
    F::RECODING.map_or(F::GEOMETRY.bytes(), |r| r.bytes)
}

/// Blocks of a file, coded anew where the format says so.
pub fn recode<F: Format>(blocks: &[u8]) -> Cow<'_, [u8]> {
    let code = |r: Recoding| Cow::Owned(each_block(blocks, [F::GEOMETRY.bytes(), r.bytes], r.code));
    F::RECODING.map_or(Cow::Borrowed(blocks), code)
}

/// Blocks of so many bytes as others of so many.
fn each_block(blocks: &[u8], bytes: [u32; 2], f: fn(&[u8], &mut [u8])) -> Vec<u8> {
    let [from, to] = bytes.map(|n| n as usize);
    let mut out = vec![0; blocks.len() / from * to];
    blocks.chunks_exact(from).zip(out.chunks_exact_mut(to)).for_each(|(block, out)| f(block, out));
    out
}

/// Bits of a block's field that are zero in every file.
pub const ZERO: u32 = u32::MAX;

/// For each plane, in pieces of [`Moves::grain`] bits: the bit of the block where the piece comes from, or [`ZERO`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moves {
    /// Bits that move together: a power of two up to 32.
    pub grain: u32,
    /// Per plane, for the fields of one block.
    pub planes: Vec<Vec<u32>>,
}

impl Moves {
    /// The moves of a format, in the largest pieces that serve.
    pub fn of<F: Format>() -> Self {
        let bits: Vec<Vec<Option<usize>>> =
            moved::<F>().map(|(p, plane)| places::<F>(p, plane).map(Place::source::<F>).collect()).collect();
        let block_bits = block_bits::<F>();
        let fits = |grain: usize| {
            block_bits.is_multiple_of(grain)
                && bits.iter().flat_map(|plane| plane.chunks(grain)).all(|piece| match piece[0] {
                    _ if piece.len() < grain => false,
                    Some(first) => {
                        first % grain == 0 && piece.iter().enumerate().all(|(i, b)| *b == Some(first + i))
                    }
                    None => piece.iter().all(Option::is_none),
                })
        };
        let grain = [32, 16, 8, 4, 2].into_iter().find(|g| fits(*g)).unwrap_or(1);
        let number = |bit: Option<usize>| bit.and_then(|b| u32::try_from(b).ok()).unwrap_or(ZERO);
        let planes = bits.iter().map(|p| p.iter().step_by(grain).map(|b| number(*b)).collect()).collect();
        Moves { grain: grain as u32, planes }
    }
}

/// A bit of a plane's field, as `Format::source` is asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The plane.
    pub plane: usize,
    /// The unit of its block; 0 of a field that units share.
    pub unit: usize,
    /// The bit of the field.
    pub bit: usize,
}

impl Place {
    fn source<F: Format>(self) -> Option<usize> {
        F::source(self.plane, self.unit, self.bit)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "source({}, {}, {})", self.plane, self.unit, self.bit)
    }
}

/// A bit of a block, or of the blocks that a unit holds, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockBit {
    /// Its number.
    pub bit: usize,
    /// Blocks of a unit.
    pub blocks: usize,
    /// Bytes of one block.
    pub bytes: usize,
}

impl fmt::Display for BlockBit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BlockBit { bit, blocks, bytes } = *self;
        let (low, byte) = (bit % 8, bit / 8);
        match blocks {
            1 => write!(f, "bit {bit} of a block (bit {low} of byte {byte})"),
            _ => write!(
                f,
                "bit {bit} of a unit's {blocks} blocks (bit {low} of byte {} of block {})",
                byte % bytes,
                byte / bytes
            ),
        }
    }
}

/// Why planes are no rearrangement of blocks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LayoutError {
    /// Units share a field that are not a block.
    #[error(
        "plane {plane} has a field for {found} units, and a block has {expected}: a field is of the unit \
         (`Plane::unit`) or of the whole block (`Plane::block(bytes, {expected})`)"
    )]
    Shared {
        /// The plane.
        plane: usize,
        /// Units that share a field.
        found: u32,
        /// Units of a block.
        expected: u32,
    },
    /// A bit from outside the block.
    #[error(
        "{place} is bit {found}, and the last is {last}: `source(plane, unit, bit)` is a bit of the unit's own block, \
         or `None` where the field is wider than what it holds"
    )]
    Beyond {
        /// The bit of a plane.
        place: Place,
        /// What `source` answers.
        found: usize,
        /// The last bit there is.
        last: BlockBit,
    },
    /// A bit of a block has two places.
    #[error("{bit} has two places, {first} and {second}: one of the two is another bit")]
    Twice {
        /// The bit of a block.
        bit: BlockBit,
        /// Where it is.
        first: Place,
        /// Where it is again.
        second: Place,
    },
    /// The words of the table are not as many as its plane has.
    #[error(
        "the tables of `PLANES` have {expected} words (`Plane::table`, `Plane::pairs`), and `Format::table` gives {found}: \
         they are the same words"
    )]
    Table {
        /// Words of the planes.
        expected: usize,
        /// Words given.
        found: usize,
    },
    /// A bit of a block has none.
    #[error("{bit} has no place: no `source(plane, unit, bit)` is this bit, so no kernel reads it")]
    Nowhere {
        /// The bit of a block.
        bit: BlockBit,
    },
}

/// Whether every bit of a block has one place in the planes, and every word of the table one.
///
/// # Errors
/// The first that has not.
pub fn check<F: Format>() -> Result<(), LayoutError> {
    let (blocks, bytes) = (blocks_at_once::<F>(), coded_bytes::<F>() as usize);
    let block_bit = |bit| BlockBit { bit, blocks, bytes };
    let n_bits = block_bits::<F>();
    let mut of_bits: Vec<Option<Place>> = vec![None; n_bits];
    for (p, plane) in moved::<F>() {
        let units = units_of_block::<F>() as u32;
        if plane.units != 1 && plane.units != units {
            return Err(LayoutError::Shared { plane: p, found: plane.units, expected: units });
        }
        for place in places::<F>(p, plane) {
            let Some(bit) = place.source::<F>() else { continue };
            let last = block_bit(n_bits - 1);
            let of_bit = of_bits.get_mut(bit).ok_or(LayoutError::Beyond { place, found: bit, last })?;
            if let Some(first) = of_bit.replace(place) {
                return Err(LayoutError::Twice { bit: block_bit(bit), first, second: place });
            }
        }
    }
    let (expected, found) = (table_words(F::PLANES), F::table().len());
    if found != expected {
        return Err(LayoutError::Table { expected, found });
    }
    let without = of_bits.iter().position(Option::is_none);
    without.map_or(Ok(()), |bit| Err(LayoutError::Nowhere { bit: block_bit(bit) }))
}

/// Words of all tables, each but the last filled up to where the next begins.
fn table_words(planes: &[Plane]) -> usize {
    let tables: Vec<_> = planes.iter().copied().filter(|plane| plane.is_table()).collect();
    let (offsets, _) = plane_offsets(&tables, 0);
    offsets.last().zip(tables.last()).map_or(0, |(first, last)| (*first as usize + last.bytes as usize) / 4)
}

/// The bits of a plane's fields for one block.
fn places<F: Format>(plane: usize, of: &Plane) -> impl Iterator<Item = Place> {
    let field_bits = of.bytes as usize * 8;
    let fields = if of.units == 1 { units_of_block::<F>() } else { 1 };
    (0..fields * field_bits).map(move |at| Place { plane, unit: at / field_bits, bit: at % field_bits })
}

/// Bits of the blocks that are moved at once.
fn block_bits<F: Format>() -> usize {
    coded_bytes::<F>() as usize * 8 * blocks_at_once::<F>()
}

/// Units of a block, or one where a unit is several blocks.
fn units_of_block<F: Format>() -> usize {
    (F::BLK / F::UNIT).max(1) as usize
}

/// Blocks of a unit, or one where a block is several units.
pub(crate) fn blocks_at_once<F: Format>() -> usize {
    (F::UNIT / F::BLK).max(1) as usize
}

/// The planes that come from blocks, with their numbers; the table of a format does not.
fn moved<F: Format>() -> impl Iterator<Item = (usize, &'static Plane)> {
    F::PLANES.iter().enumerate().filter(|(_, plane)| plane.units > 0)
}

/// Bytes on a device of a tensor of `n_elems` elements, which are whole blocks and units.
pub fn device_bytes<F: Format>(n_elems: u64) -> u64 {
    plane_offsets(F::PLANES, n_elems / u64::from(F::UNIT)).1
}

/// A tensor as a device holds it.
pub fn pack<F: Format>(blocks: &[u8]) -> Vec<u8> {
    planes::<F>(&recode::<F>(blocks))
}

/// The planes of blocks whose bits move: the plain-Rust twin of the kernel `repack`.
pub(crate) fn planes<F: Format>(blocks: &[u8]) -> Vec<u8> {
    let n_blocks = blocks.len() / coded_bytes::<F>() as usize;
    let n_elems = n_blocks as u64 * u64::from(F::GEOMETRY.elements());
    let (offsets, bytes) = plane_offsets(F::PLANES, n_elems / u64::from(F::UNIT));
    let mut out = vec![0; bytes as usize];
    each_bit::<F>(n_blocks, &offsets, |from, to| {
        out[to / 8] |= (blocks[from / 8] >> (from % 8) & 1) << (to % 8)
    });
    if let Some(plane) = F::PLANES.iter().position(|p| p.units == 0) {
        let first = offsets[plane] as usize;
        for (out, word) in out[first..].chunks_exact_mut(4).zip(F::table()) {
            out.copy_from_slice(&word.to_le_bytes());
        }
    }
    out
}

/// The blocks behind [`pack`]: its inverse.
pub fn unpack<F: Format>(planes: &[u8], n_blocks: usize) -> Vec<u8> {
    let n_elems = n_blocks as u64 * u64::from(F::GEOMETRY.elements());
    let (offsets, _) = plane_offsets(F::PLANES, n_elems / u64::from(F::UNIT));
    let mut out = vec![0; n_blocks * coded_bytes::<F>() as usize];
    each_bit::<F>(n_blocks, &offsets, |from, to| {
        out[from / 8] |= (planes[to / 8] >> (to % 8) & 1) << (from % 8)
    });
    match F::RECODING {
        Some(r) => each_block(&out, [r.bytes, F::GEOMETRY.bytes()], r.restore),
        None => out,
    }
}

/// Every bit of every block and where it lies in the planes.
fn each_bit<F: Format>(n_blocks: usize, offsets: &[u64], mut f: impl FnMut(usize, usize)) {
    let (each, block_bits) = (blocks_at_once::<F>(), block_bits::<F>());
    let moves = Moves::of::<F>();
    let grain = moves.grain as usize;
    for ((p, _), pieces) in moved::<F>().zip(&moves.planes) {
        let plane_bits = pieces.len() * grain;
        for block in 0..n_blocks / each {
            for (i, piece) in pieces.iter().enumerate().filter(|(_, piece)| **piece != ZERO) {
                for bit in 0..grain {
                    let to = offsets[p] as usize * 8 + block * plane_bits + i * grain + bit;
                    f(block * block_bits + *piece as usize + bit, to);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_the_words_of_their_planes() {
        assert_eq!(table_words(&[Plane::unit(16)]), 0);
        assert_eq!(table_words(&[Plane::unit(16), Plane::table(5)]), 5);
        assert_eq!(table_words(&[Plane::unit(16), Plane::pairs(6), Plane::table(5)]), 8 + 5);
    }

    /// Each element of a field of 64 has each bit once, however wide its bits lie apart.
    #[test]
    fn orders_hold_for_fields_of_more_than_32_elements() {
        let elements = |n: usize, order: fn(usize) -> (usize, usize)| {
            let mut all: Vec<_> = (0..64 * n).map(order).collect();
            all.sort_unstable();
            assert_eq!(all, (0..64 * n).map(|at| (at / n, at % n)).collect::<Vec<_>>());
        };
        elements(1, |bit| (single(bit), 0));
        elements(2, pair);
        elements(4, nibble);
        elements(4, coded_nibble);
        assert_eq!([single(31), single(32), single(63)], [31, 32, 63]);
    }
}
