//! Q4_0: 32 weights with one scale, 4.5 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 2 | d, f16 |
//! | 2 | 16 | qs: byte j has weight j in its low nibble and weight j + 16 in its high one |
//!
//! Value: `d · (q − 8)`. To quantize: `d = x / −8` for the x of largest magnitude (of equals the first), `q = x · (1 / d) +
//! 8.5` without its fraction, at most 15. Outside reference: gguf 0.19.0 (`gguf.quants.Q4_0`).

use kiln_abi::BlockGeometry;
use kiln_dsl::prelude::*;

use super::{
    Arms, Format, HostFormat, Quantize, f16_at, half_bits, inverse,
    layout::{in_halves, nibble},
    set_f16,
};

/// The format.
pub struct Q4_0;

const QS: usize = 2;
const HALF: usize = 16;
const _: () = assert!(QS + HALF == Q4_0::GEOMETRY.bytes() as usize);

impl HostFormat for Q4_0 {
    const ID: u32 = 2;
    const NAME: &'static str = "Q4_0";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(32, 18);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        let d = f16_at(block, 0);
        let value = |nibble: u8| d * (f32::from(nibble) - 8.0);
        for (j, q) in block[QS..QS + HALF].iter().enumerate() {
            out[j] = value(q & 15);
            out[j + HALF] = value(q >> 4);
        }
    }
}

impl Quantize for Q4_0 {
    fn quantize(values: &[f32], block: &mut [u8]) {
        let larger = |max: f32, x: f32| if x.abs() > max.abs() { x } else { max };
        let largest = values.iter().copied().reduce(larger).unwrap_or(0.0);
        let d = largest / -8.0;
        let inverse = inverse(d);
        set_f16(block, 0, d);
        let quant = |x: f32| ((x * inverse + 8.5) as u8).min(15);
        for (j, byte) in block[QS..QS + HALF].iter_mut().enumerate() {
            *byte = quant(values[j]) | quant(values[j + HALF]) << 4;
        }
    }
}

impl Format for Q4_0 {
    fn arms() -> Arms {
        Arms::packed::<Self>()
    }

    fn source(plane: usize, _: usize, bit: usize) -> Option<usize> {
        match plane {
            0 => Some(in_halves(QS, nibble(bit))),
            1 => Some(bit),
            _ => None,
        }
    }

    fn offset(block: &[u8], _: usize) -> f32 {
        -8.0 * f16_at(block, 0)
    }
}

#[device]
impl TensorFormat for Q4_0 {
    const BLK: u32 = 32;
    const UNIT: u32 = 32;
    const PLANES: &'static [Plane] = &[Plane::unit(16), Plane::unit(2)];

    fn decode4(u: &Unit, at: u32) -> Vec4<f32> {
        packed_decode4::<Q4_0>(&u, at)
    }

    fn decode(u: &Unit, at: u32) -> f32 {
        packed_decode::<Q4_0>(&u, at)
    }
}

#[device]
impl PackedFormat for Q4_0 {
    const GROUP: u32 = 32;
    const OFFSET: bool = true;

    fn scale_offset(u: &Unit, _group: u32) -> (f32, f32) {
        let d = half_bits(u.sixteen(1));
        (d, -8.0 * d)
    }

    fn lanes(u: &Unit, pack: u32) -> u32 {
        (u.word(0, pack & 3) >> ((pack >> 2) * 4)) & 0x0f0f_0f0f
    }
}
