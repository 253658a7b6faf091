//! IQ4_NL: 32 weights of sixteen uneven values, one scale, 4.5 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 2 | d, f16 |
//! | 2 | 16 | qs: byte j has weight j in its low nibble and weight j + 16 in its high one |
//!
//! Value: `d · table[q]` (table: `codebook.rs`). Outside reference: gguf 0.19.0 (`gguf.quants.IQ4_NL`).

use kiln_abi::BlockGeometry;
use kiln_dsl::prelude::*;

use super::{
    Arms, Format, HostFormat,
    codebook::{IQ4_VALUES, pair_table, two_pairs},
    f16_at, half_bits,
    layout::{coded_nibble, in_halves},
};

/// The format.
pub struct Iq4Nl;

const QS: usize = 2;
const HALF: usize = 16;
const _: () = assert!(QS + HALF == Iq4Nl::GEOMETRY.bytes() as usize);

impl HostFormat for Iq4Nl {
    const ID: u32 = 20;
    const NAME: &'static str = "IQ4_NL";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(32, 18);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        let d = f16_at(block, 0);
        let value = |nibble: u8| d * f32::from(IQ4_VALUES[usize::from(nibble)]);
        for (j, q) in block[QS..QS + HALF].iter().enumerate() {
            out[j] = value(q & 15);
            out[j + HALF] = value(q >> 4);
        }
    }
}

impl Format for Iq4Nl {
    fn arms() -> Arms {
        Arms::packed::<Self>()
    }

    fn source(plane: usize, _: usize, bit: usize) -> Option<usize> {
        match plane {
            0 => Some(in_halves(QS, coded_nibble(bit))),
            1 => Some(bit),
            _ => None,
        }
    }

    fn table() -> Vec<u32> {
        pair_table(&IQ4_VALUES)
    }
}

#[device]
impl TensorFormat for Iq4Nl {
    const BLK: u32 = 32;
    const UNIT: u32 = 32;
    const PLANES: &'static [Plane] = &[Plane::unit(16), Plane::unit(2), Plane::table(256)];

    fn decode4(u: &Unit, at: u32) -> Vec4<f32> {
        packed_decode4::<Iq4Nl>(&u, at)
    }

    fn decode(u: &Unit, at: u32) -> f32 {
        packed_decode::<Iq4Nl>(&u, at)
    }
}

#[device]
impl PackedFormat for Iq4Nl {
    const GROUP: u32 = 32;
    const OFFSET: bool = false;

    fn scale_offset(u: &Unit, _group: u32) -> (f32, f32) {
        let d = half_bits(u.sixteen(1));
        (d, 0.0)
    }

    fn lanes(u: &Unit, pack: u32) -> u32 {
        two_pairs(&u, 2, u.word(0, pack >> 1), pack & 1)
    }
}
