//! MXFP4: 32 E2M1 weights with one E8M0 scale, 4.25 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 1 | e, E8M0 |
//! | 1 | 16 | qs: byte j has weight j in its low nibble and weight j + 16 in its high one |
//!
//! E8M0 is the exponent of a power of two, biased by 127; it is halved here since the table of E2M1 (`codebook.rs`)
//! is doubled. `e` = 255, NaN in the standard, is 2¹²⁸ as any other.
//! Value: `2^(e − 128) · table[q]`. Outside reference: gguf 0.19.0 (`gguf.quants.MXFP4`).

use kiln_abi::BlockGeometry;
use kiln_dsl::prelude::*;

use super::{
    Arms, Format, HostFormat,
    codebook::{E2M1_DOUBLED, pair_table, two_pairs},
    layout::{coded_nibble, in_halves},
};

/// The format.
pub struct Mxfp4;

const QS: usize = 1;
const HALF: usize = 16;
const _: () = assert!(QS + HALF == Mxfp4::GEOMETRY.bytes() as usize);

/// 2^(e − 128); the two smallest are subnormal.
fn half_power(e: u8) -> f32 {
    f32::from_bits(if e < 2 { 0x0020_0000 << e } else { u32::from(e - 1) << 23 })
}

impl HostFormat for Mxfp4 {
    const ID: u32 = 39;
    const NAME: &'static str = "MXFP4";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(32, 17);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        let d = half_power(block[0]);
        let value = |nibble: u8| d * f32::from(E2M1_DOUBLED[usize::from(nibble)]);
        for (j, q) in block[QS..QS + HALF].iter().enumerate() {
            out[j] = value(q & 15);
            out[j + HALF] = value(q >> 4);
        }
    }
}

impl Format for Mxfp4 {
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
        pair_table(&E2M1_DOUBLED)
    }
}

#[device]
impl TensorFormat for Mxfp4 {
    const BLK: u32 = 32;
    const UNIT: u32 = 32;
    const PLANES: &'static [Plane] = &[Plane::unit(16), Plane::unit(1), Plane::table(256)];

    fn decode4(u: &Unit, at: u32) -> Vec4<f32> {
        packed_decode4::<Mxfp4>(&u, at)
    }

    fn decode(u: &Unit, at: u32) -> f32 {
        packed_decode::<Mxfp4>(&u, at)
    }
}

#[device]
impl PackedFormat for Mxfp4 {
    const GROUP: u32 = 32;
    const OFFSET: bool = false;

    fn scale_offset(u: &Unit, _group: u32) -> (f32, f32) {
        let e = u.small(1);
        let bits = select(e < 2, 0x0020_0000 << (e & 1), (e - 1) << 23);
        (bitcast::<f32, u32>(bits), 0.0)
    }

    fn lanes(u: &Unit, pack: u32) -> u32 {
        two_pairs(&u, 2, u.word(0, pack >> 1), pack & 1)
    }
}
