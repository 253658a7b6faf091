//! Blocks of a file to planes of a device, while a model is loaded: each word of a plane from the bits it is made of.
//!
//! Source: the format's own [`Format::source`], as a table of moves (`formats/layout.rs`).
//! Shapes: `blocks` is a run of blocks as the file has them; `y` the whole tensor, of whose plane the run's words begin
//! at `to`. An invocation owns a word of the plane.
//! Traffic: the blocks read once per plane, the planes written once. Numerics: bits only.

use std::borrow::Cow;

use kiln_abi::{BufferRange, Kernel};
use kiln_dsl::prelude::*;
use kiln_dsl::tensor::plane_offsets;

use crate::{
    Call, Format, Variant,
    conformance::{Buffer, Case, Content, Expected, Random, u32_bytes},
    formats::layout::{self, Moves, ZERO},
};

/// Push constants of `repack_blocks`.
#[derive(Clone, Copy, Debug, Push)]
pub struct RepackBlocksPush {
    /// Words of the plane that the run makes.
    pub words: u32,
    /// Blocks of the run.
    pub n_blocks: u32,
    /// Bits of a block.
    pub block_bits: u32,
    /// Bits that a block has in the plane.
    pub field_bits: u32,
    /// First entry of the plane in `moves`.
    pub moves_at: u32,
    /// First word of y.
    pub to: u32,
}

const LOCAL_SIZE: u32 = 128;
/// Invocations of a dispatch along x, at most.
const MOST: u32 = 65_535 * LOCAL_SIZE;

/// The kernel.
#[kernel(local_size = LOCAL_SIZE, grid = [p.words.min(MOST).div_ceil(LOCAL_SIZE), p.words.div_ceil(MOST)])]
pub fn repack_blocks<F: Format>(
    #[len((p.n_blocks * (p.block_bits / 8)).div_ceil(4))] blocks: &Buf<u32>,
    #[len(p.moves_at + p.field_bits / grain::<F>())] moves: &Buf<u32>,
    #[len(p.to + p.words)] y: &BufMut<u32>,
    #[push] p: RepackBlocksPush,
) {
    let grain = comptime!(grain::<F>());
    let i = workgroup_id_y() * MOST + global_id_x();
    if i < p.words {
        let mut word = 0;
        for piece in comptime!(0..32 / grain) {
            let bit = i * 32 + piece * grain;
            let block = bit / p.field_bits;
            if block < p.n_blocks {
                let from = moves[p.moves_at + bit % p.field_bits / grain];
                if from != ZERO {
                    let at = block * p.block_bits + from;
                    let mask = comptime!(u32::MAX >> (32 - grain));
                    word |= ((blocks[at >> 5] >> (at & 31)) & mask) << (piece * grain);
                }
            }
        }
        y[p.to + i] = word;
    }
}

/// Bits that move together.
fn grain<F: Format>() -> u32 {
    Moves::of::<F>().grain
}

/// What turns a tensor of one format into planes.
#[derive(Clone, Debug)]
pub struct Repack {
    /// Where the pieces of every plane come from, plane after plane.
    pub moves: Vec<u32>,
    /// Words of the format's table and its first byte, if it has one.
    pub table: Option<(Vec<u32>, u64)>,
    /// Blocks that a run is a multiple of, so that it begins at a word of every plane; the last run may be shorter.
    pub run: u32,
    launch: fn(BufferRange, BufferRange, BufferRange, RepackBlocksPush) -> Call,
    recode: fn(&[u8]) -> Cow<'_, [u8]>,
    file_bytes: u32,
    block_bits: u32,
    planes: Vec<Target>,
}

fn launch<F: Format>(blocks: BufferRange, moves: BufferRange, y: BufferRange, p: RepackBlocksPush) -> Call {
    let args = RepackBlocksArgs { blocks: blocks.into(), moves: moves.into(), y: y.into(), p };
    Call::new(RepackBlocks::<F>::new(), &args)
}

/// One plane of the tensor.
#[derive(Clone, Copy, Debug)]
struct Target {
    first_byte: u64,
    field_bits: u32,
    moves_at: u32,
}

impl Repack {
    /// For a tensor of `n_elems` elements, which are whole blocks and units.
    pub fn of<F: Format>(n_elems: u64) -> Self {
        let moves = Moves::of::<F>();
        let (offsets, _) = plane_offsets(F::PLANES, n_elems / u64::from(F::UNIT));
        let mut at = 0;
        let target = |(pieces, first_byte): (&Vec<u32>, &u64)| {
            let (moves_at, n) = (at, u32::try_from(pieces.len()).unwrap_or(u32::MAX));
            at += n;
            Target { first_byte: *first_byte, field_bits: n * moves.grain, moves_at }
        };
        let planes = moves.planes.iter().zip(&offsets).map(target).collect();
        let table = F::PLANES.iter().position(|p| p.units == 0).map(|p| (F::table(), offsets[p]));
        let at_once = u32::try_from(layout::blocks_at_once::<F>()).unwrap_or(1);
        Repack {
            table,
            // 32 fields of any whole bytes are whole words.
            run: 32,
            launch: launch::<F>,
            recode: layout::recode::<F>,
            file_bytes: F::GEOMETRY.bytes() * at_once,
            block_bits: layout::coded_bytes::<F>() * 8 * at_once,
            planes,
            moves: moves.planes.concat(),
        }
    }

    /// Bytes of the file for a block as a run counts them: of several where a unit is several blocks of the file.
    pub const fn file_bytes(&self) -> u32 {
        self.file_bytes
    }

    /// Blocks of the file as the launches take them.
    pub fn recoded<'a>(&self, blocks: &'a [u8]) -> Cow<'a, [u8]> {
        (self.recode)(blocks)
    }

    /// Bytes of a block as the launches take it.
    pub const fn block_bytes(&self) -> u32 {
        self.block_bits / 8
    }

    /// The launches for `n_blocks` blocks from block `first` of the tensor on, which is a multiple of `run`.
    pub fn calls(
        &self,
        blocks: BufferRange,
        moves: BufferRange,
        y: BufferRange,
        first: u64,
        n_blocks: u32,
    ) -> Vec<Call> {
        let call = |target: &Target| (self.launch)(blocks, moves, y, self.push(target, first, n_blocks));
        self.planes.iter().map(call).collect()
    }

    fn push(&self, target: &Target, first: u64, n_blocks: u32) -> RepackBlocksPush {
        let Target { first_byte, field_bits, moves_at } = *target;
        let words = |bits: u64| u32::try_from(bits / 32).unwrap_or(u32::MAX);
        let bits = u64::from(n_blocks) * u64::from(field_bits);
        RepackBlocksPush {
            words: words(bits.next_multiple_of(32)),
            n_blocks,
            block_bits: self.block_bits,
            field_bits,
            moves_at,
            to: words(first_byte * 8 + first * u64::from(field_bits)),
        }
    }
}

/// The variant that a format needs; its case is a tensor of two runs, of which one is a part.
pub fn variants<F: Format>() -> Vec<Variant> {
    vec![Variant::new("repack", RepackBlocks::<F>::new(), cases::<F>).on(F::NAME, "bits")]
}

/// Each plane from a whole run, and from the part of one behind it.
fn cases<F: Format>() -> Vec<Case> {
    let n_blocks = 45;
    let per_block = F::BLK.max(F::UNIT);
    let repack = Repack::of::<F>(u64::from(n_blocks * per_block));
    let bytes = Random::new(u64::from(F::ID)).bytes((n_blocks * repack.block_bytes()) as usize);
    let planes: Vec<u32> = layout::planes::<F>(&bytes)
        .chunks_exact(4)
        .map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]]))
        .collect();
    let mut cases = Vec::new();
    for (first, n) in [(0, 32), (32, 13)] {
        for (i, target) in repack.planes.iter().enumerate() {
            let p = repack.push(target, u64::from(first), n);
            let run = &bytes
                [(first * repack.block_bytes()) as usize..((first + n) * repack.block_bytes()) as usize];
            let mut padded = run.to_vec();
            padded.resize(run.len().next_multiple_of(4), 0);
            // What lies before and behind the run's words stays as it was.
            let mut old = vec![0x5a5a_5a5a; planes.len()];
            let before = u32_bytes(&old);
            let own = p.to as usize..(p.to + p.words) as usize;
            old[own.clone()].copy_from_slice(&planes[own]);
            cases.push(Case {
                name: format!("plane {i}, blocks {first} to {}", first + n),
                buffers: vec![
                    Buffer::Input(padded),
                    Buffer::Input(u32_bytes(&repack.moves)),
                    Buffer::Changed(before),
                ],
                expected: vec![Expected { binding: 2, content: Content::Words(old) }],
                bind: Box::new(move |r| {
                    let args =
                        RepackBlocksArgs { blocks: r[0].into(), moves: r[1].into(), y: r[2].into(), p };
                    RepackBlocks::<F>::new().bind(&args)
                }),
            });
        }
    }
    cases
}
