//! One range bound twice, by elements of two sizes.

use kiln_abi::{BufferRange, Device};
use kiln_dsl::prelude::*;

use super::{Row, same, words_of};

pub(super) const CASES: &[Row] = &[
    ("a range read by 1, 2, 4 and 16 bytes", read_four_ways),
    ("windows of one buffer", windows_of_one_buffer),
];

#[kernel(local_size = 32, grid = 1)]
fn views(w16: &Buf<Vec4<u32>>, w4: &Buf<u32>, w2: &Buf<u16>, w1: &Buf<u8>, y: &BufMut<u32>) {
    let t = local_id();
    let quad = w16[t];
    y[t * 4] = quad[3] - w4[t * 4 + 3];
    y[t * 4 + 1] = w4[t];
    y[t * 4 + 2] = w2[t] as u32;
    y[t * 4 + 3] = w1[t] as u32;
}

fn read_four_ways(device: &dyn Device) -> Result<(), String> {
    let w: Vec<u32> = (0..128u32).map(|i| i.wrapping_mul(0x0102_0305) ^ 0x8091_a2b3).collect();
    let bytes: Vec<u8> = w.iter().flat_map(|w| w.to_le_bytes()).collect();
    let expected: Vec<u32> = (0..32)
        .flat_map(|t| {
            let half = u16::from_le_bytes([bytes[2 * t], bytes[2 * t + 1]]);
            [0, w[t], u32::from(half), u32::from(bytes[t])]
        })
        .collect();
    let found = words_of(device, &Views, &[&w, &[7; 128]], |r| ViewsArgs {
        w16: r[0].into(),
        w4: r[0].into(),
        w2: r[0].into(),
        w1: r[0].into(),
        y: r[1].into(),
    })?;
    same(&found, &expected)
}

/// y[i] = x[i] of whatever window is bound.
#[kernel(local_size = 16, grid = 1)]
fn window(x: &Buf<u32>, y: &BufMut<u32>) {
    y[local_id()] = x[local_id()];
}

/// The base is the launch's, in bytes of 64 bits; the kernel counts from it.
fn windows_of_one_buffer(device: &dyn Device) -> Result<(), String> {
    let x: Vec<u32> = (0..16 * 64).map(|i: u32| i.wrapping_mul(77)).collect();
    for first in [0u64, 1, 7, 15] {
        let offset_bytes = first * 256;
        let args = |r: &[BufferRange]| WindowArgs {
            x: BufferRange { offset_bytes, bytes: 64, ..r[0] }.into(),
            y: r[1].into(),
        };
        let at = first as usize * 64;
        same(&words_of(device, &Window, &[&x, &[0; 16]], args)?, &x[at..at + 16])?;
    }
    Ok(())
}
