//! How blocks of a file become planes of a device: bit by bit, as each format's [`Format::source`] says.

use std::borrow::Cow;

use kiln_dsl::prelude::Plane;
use kiln_dsl::tensor::plane_offsets;

use super::Format;

/// Element and bit of it behind `bit` of a field of 16 bytes: byte l of word j holds elements 4j + l and 16 + 4j + l.
pub const fn nibble(bit: usize) -> (usize, usize) {
    let (j, l, high, b) = (bit / 32, bit % 32 / 8, bit % 8 / 4, bit % 4);
    (16 * high + 4 * j + l, b)
}

/// The same for a field of 16 bytes whose bytes 2p and 2p + 1 hold the elements 4p to 4p + 3: even ones first.
pub const fn coded_nibble(bit: usize) -> (usize, usize) {
    let (byte, high, b) = (bit / 8, bit % 8 / 4, bit % 4);
    (4 * (byte / 2) + byte % 2 + 2 * high, b)
}

/// The same for a field of 8 bytes: byte l of word j holds elements 16j + l, 16j + 4 + l, 16j + 8 + l, 16j + 12 + l.
pub const fn pair(bit: usize) -> (usize, usize) {
    let (j, l, n, b) = (bit / 32, bit % 32 / 8, bit % 8 / 2, bit % 2);
    (16 * j + 4 * n + l, b)
}

/// The element behind `bit` of a field of 4 bytes: bit p of byte l is element 4p + l.
pub const fn single(bit: usize) -> usize {
    4 * (bit % 8) + bit / 8
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
        let units = units_of_block::<F>();
        let field_bits = |plane: &Plane| plane.bytes as usize * 8;
        let fields = |plane: &Plane| if plane.units == 1 { units } else { 1 };
        let bits: Vec<Vec<Option<usize>>> = moved::<F>()
            .map(|(p, plane)| {
                (0..fields(plane) * field_bits(plane))
                    .map(|bit| F::source(p, bit / field_bits(plane), bit % field_bits(plane)))
                    .collect()
            })
            .collect();
        let block_bits = coded_bytes::<F>() as usize * 8 * blocks_at_once::<F>();
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
    let each = blocks_at_once::<F>();
    let block_bits = coded_bytes::<F>() as usize * 8 * each;
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
