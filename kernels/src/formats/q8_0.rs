//! Q8_0: 32 weights with one scale, 8.5 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 2 | d, f16 |
//! | 2 | 32 | qs, signed bytes |
//!
//! Value: `d · q`, exact in f32. To quantize: `d = max |x| / 127`, `q = x · (1 / d)` rounded half away from zero.
//! Outside reference: gguf 0.19.0 (`gguf.quants.Q8_0`).

use kiln_abi::BlockGeometry;
use kiln_dsl::prelude::*;

use super::{Arms, Format, HostFormat, Quantize, f16_at, half_bits, inverse, set_f16};

/// The format.
pub struct Q8_0;

const QS: usize = 2;
const _: () = assert!(QS + 32 == Q8_0::GEOMETRY.bytes() as usize);

impl HostFormat for Q8_0 {
    const ID: u32 = 8;
    const NAME: &'static str = "Q8_0";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(32, 34);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        let d = f16_at(block, 0);
        for (out, q) in out.iter_mut().zip(&block[QS..]) {
            *out = d * f32::from(q.cast_signed());
        }
    }
}

impl Quantize for Q8_0 {
    fn quantize(values: &[f32], block: &mut [u8]) {
        let d = values.iter().fold(0.0_f32, |max, &x| max.max(x.abs())) / 127.0;
        let inverse = inverse(d);
        set_f16(block, 0, d);
        for (q, x) in block[QS..].iter_mut().zip(values) {
            *q = ((x * inverse).round() as i8).cast_unsigned();
        }
    }
}

impl Format for Q8_0 {
    fn arms() -> Arms {
        Arms::packed::<Self>()
    }

    fn source(plane: usize, _: usize, bit: usize) -> Option<usize> {
        match plane {
            0 => Some(8 * QS + bit),
            1 => Some(bit),
            _ => None,
        }
    }
}

#[device]
impl TensorFormat for Q8_0 {
    const BLK: u32 = 32;
    const UNIT: u32 = 32;
    const PLANES: &'static [Plane] = &[Plane::unit(32), Plane::unit(2)];

    fn decode4(u: &Unit, at: u32) -> Vec4<f32> {
        packed_decode4::<Q8_0>(&u, at)
    }

    fn decode(u: &Unit, at: u32) -> f32 {
        packed_decode::<Q8_0>(&u, at)
    }
}

#[device]
impl PackedFormat for Q8_0 {
    const GROUP: u32 = 32;
    const OFFSET: bool = false;

    fn scale_offset(u: &Unit, _group: u32) -> (f32, f32) {
        let d = half_bits(u.sixteen(1));
        (d, 0.0)
    }

    fn lanes(u: &Unit, pack: u32) -> u32 {
        u.word(0, pack)
    }
}
