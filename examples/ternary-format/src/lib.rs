//! A format of one's own: 32 weights of -1, 0 or 1 under one scale, 2.5 bits per weight.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 2 | d, f16 |
//! | 2 | 8 | qs: weight 16 i + 4 j + b has the bits 2 j and 2 j + 1 of byte 4 i + b |
//!
//! Value: `d · (q − 1)`; q = 3 is not used. The order is the one in which a kernel wants it, so planes are plain copies.
#![forbid(unsafe_code)]

use kiln_abi::BlockGeometry;
use kiln_dsl::prelude::*;
use kiln_kernels::{Format, HostFormat, gemv::Arms};

/// The format.
pub struct Ternary;

const QS: usize = 2;

/// d of a block.
fn scale(block: &[u8]) -> f32 {
    f16::from_le_bytes([block[0], block[1]]).to_f32()
}

impl HostFormat for Ternary {
    // Far from ggml's, which count from 0. Those to 0x7e57_00ff are for examples and their tests; a format of one's own has
    // one from 0x7e57_0100 to 0x7e57_ffff, so that a registry with both takes it.
    const ID: u32 = 0x7e57_0003;
    const NAME: &'static str = "TERNARY";
    const GEOMETRY: BlockGeometry = BlockGeometry::new(32, 10);

    fn dequantize(block: &[u8], out: &mut [f32]) {
        for (i, out) in out.iter_mut().enumerate() {
            let q = block[QS + i / 16 * 4 + i % 4] >> (i % 16 / 4 * 2) & 3;
            *out = scale(block) * (f32::from(q) - 1.0);
        }
    }
}

impl Format for Ternary {
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

    fn offset(block: &[u8], _: usize) -> f32 {
        -scale(block)
    }
}

#[device]
impl TensorFormat for Ternary {
    const BLK: u32 = 32;
    const UNIT: u32 = 32;
    const PLANES: &'static [Plane] = &[Plane::unit(8), Plane::unit(2)];

    fn decode4(u: &Unit, at: u32) -> Vec4<f32> {
        packed_decode4::<Ternary>(&u, at)
    }
}

#[device]
impl PackedFormat for Ternary {
    const GROUP: u32 = 32;
    const OFFSET: bool = true;

    fn scale_offset(u: &Unit, _group: u32) -> (f32, f32) {
        let d = unpack_half(u.sixteen(1)).x();
        (d, -d)
    }

    fn lanes(u: &Unit, pack: u32) -> u32 {
        (u.word(0, pack >> 2) >> ((pack & 3) * 2)) & 0x0303_0303
    }
}
