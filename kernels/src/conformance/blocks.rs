//! Random blocks of any format.

use super::Random;
use crate::Format;

/// Larger values could overflow a sum of products that is right in f64.
const LARGEST: f32 = 1e12;

/// `n` elements as blocks of format `F`, and their values.
///
/// Blocks are random bytes, so scales of every size come up, subnormal ones too; those with an infinite, NaN or huge
/// value are drawn again. The first block is all zero, the second all ones where that is a number.
pub fn random_blocks<F: Format>(random: &mut Random, n: usize) -> (Vec<u8>, Vec<f32>) {
    let (n_elems, n_bytes) = (F::GEOMETRY.elements() as usize, F::GEOMETRY.bytes() as usize);
    let (mut blocks, mut values) = (Vec::new(), Vec::new());
    let mut tried = false;
    let mut decoded = vec![0.0; n_elems];
    while values.len() < n {
        let block = match values.len() / n_elems {
            0 => vec![0; n_bytes],
            1 if !tried => vec![0xff; n_bytes],
            _ => random.bytes(n_bytes),
        };
        tried |= values.len() / n_elems == 1;
        F::dequantize(&block, &mut decoded);
        if decoded.iter().all(|v| v.abs() <= LARGEST) {
            blocks.extend(block);
            values.extend_from_slice(&decoded);
        }
    }
    (blocks, values)
}
