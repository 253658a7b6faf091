//! NVFP4: 64 E2M1 weights in 4 groups, an unsigned E4M3 scale each, 4.5 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 4 | d: byte g is the scale of the 16 weights from 16g on |
//! | 4 | 32 | qs: 8 bytes a group; byte j has weight j in its low nibble and weight j + 8 in its high one |
//!
//! E4M3 has four exponent bits, biased by 7, and three mantissa bits; bit 7 is ignored. It is halved here since the
//! table of E2M1 (`codebook.rs`) is doubled. 0x7f, NaN in the standard, is zero.
//! Value: `d / 2 · table[q]`. Outside reference: gguf 0.19.0 (`gguf.quants.NVFP4`).

use kiln_abi::BlockGeometry;
use kiln_dsl::prelude::*;

use super::{
    Arms, Format, HostFormat,
    codebook::{E2M1_DOUBLED, pair_table, two_pairs},
    half_bits,
    layout::coded_nibble,
};

/// The format.
pub struct Nvfp4;

const QS: usize = 4;
const _: () = assert!(QS + 32 == Nvfp4::GEOMETRY.bytes() as usize);

/// Half the value of an unsigned E4M3.
fn half_scale(d: u8) -> f32 {
    let (exponent, mantissa) = (u32::from(d >> 3 & 15), u32::from(d & 7));
    match (d, exponent) {
        (0x7f, _) => 0.0,
        (_, 0) => mantissa as f32 / 1024.0,
        _ => f32::from_bits((exponent + 119) << 23 | mantissa << 20),
    }
}

impl HostFormat for Nvfp4 {
    const ID: u32 = 40;
    const NAME: &'static str = "NVFP4";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(64, 36);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        let groups = block[..QS].iter().zip(block[QS..].chunks_exact(8));
        for (out, (d, qs)) in out.chunks_exact_mut(16).zip(groups) {
            let d = half_scale(*d);
            for (i, out) in out.iter_mut().enumerate() {
                let q = qs[i % 8] >> (4 * (i / 8)) & 15;
                *out = d * f32::from(E2M1_DOUBLED[usize::from(q)]);
            }
        }
    }
}

impl Format for Nvfp4 {
    fn arms() -> Arms {
        Arms::packed::<Self>()
    }

    fn source(plane: usize, unit: usize, bit: usize) -> Option<usize> {
        match plane {
            0 => {
                let (i, b) = coded_nibble(bit);
                let (group, i) = (2 * unit + i / 16, i % 16);
                Some(8 * (QS + 8 * group + i % 8) + 4 * (i / 8) + b)
            }
            1 => Some(16 * unit + bit),
            _ => None,
        }
    }

    fn table() -> Vec<u32> {
        pair_table(&E2M1_DOUBLED)
    }
}

#[device]
impl TensorFormat for Nvfp4 {
    const BLK: u32 = 64;
    const UNIT: u32 = 32;
    const PLANES: &'static [Plane] = &[Plane::unit(16), Plane::unit(2), Plane::table(256)];

    fn decode4(u: &Unit, at: u32) -> Vec4<f32> {
        packed_decode4::<Nvfp4>(&u, at)
    }

    fn decode(u: &Unit, at: u32) -> f32 {
        packed_decode::<Nvfp4>(&u, at)
    }
}

#[device]
impl PackedFormat for Nvfp4 {
    const GROUP: u32 = 16;
    const OFFSET: bool = false;

    fn scale_offset(u: &Unit, group: u32) -> (f32, f32) {
        let d = (u.sixteen(1) >> (group * 8)) & 0xff;
        // The bits of an f16 whose exponent is biased by 15 where E4M3's is by 7, subnormals among them.
        let value = half_bits((d & 0x7f) << 7) * 128.0;
        (select(d == 0x7f, 0.0, value), 0.0)
    }

    fn lanes(u: &Unit, pack: u32) -> u32 {
        two_pairs(&u, 2, u.word(0, pack >> 1), pack & 1)
    }
}
