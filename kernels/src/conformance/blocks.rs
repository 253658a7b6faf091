//! Random blocks of any format, some of them with what rarely comes up.

use super::Random;
use crate::Format;

/// Larger values could overflow a sum of products that is right in f64.
const LARGEST: f32 = 1e12;
/// Scales that random bytes seldom hold, as f16 bits: zero, the largest, and subnormal ones.
const SCALES: [u16; 4] = [0, 0x7bff, 0x0001, 0x83ff];
/// A NaN, as f16 bits.
const NAN: u16 = 0x7e00;

/// `n` elements as blocks of format `F`, and their values.
///
/// Among the first blocks, in an order that `random` turns, are all zeros, all ones, and all ones or random bytes under
/// rare scales; the others are random bytes. Blocks with an infinite, NaN or huge value are drawn again.
pub fn random_blocks<F: Format>(random: &mut Random, n: usize) -> (Vec<u8>, Vec<f32>) {
    random_blocks_within::<F>(random, n, LARGEST)
}

/// The same with no value larger than `largest`.
pub fn random_blocks_within<F: Format>(random: &mut Random, n: usize, largest: f32) -> (Vec<u8>, Vec<f32>) {
    let (n_elems, n_bytes) = (F::GEOMETRY.elements() as usize, F::GEOMETRY.bytes() as usize);
    let (mut blocks, mut values) = (Vec::new(), Vec::new());
    let scales = scales::<F>();
    let rare = rare(random, n_bytes, &scales);
    let turn = random.below(rare.len() as u32) as usize;
    let mut rare = rare.iter().cycle().skip(turn).take(rare.len());
    let mut decoded = vec![0.0; n_elems];
    while values.len() < n {
        let block = rare.next().cloned().unwrap_or_else(|| random.bytes(n_bytes));
        F::dequantize(&block, &mut decoded);
        if decoded.iter().all(|v| v.abs() <= largest) {
            blocks.extend(block);
            values.extend_from_slice(&decoded);
        }
    }
    (blocks, values)
}

/// Blocks of zeros, of ones, and under each rare scale of ones and of random bytes.
fn rare(random: &mut Random, n_bytes: usize, scales: &[usize]) -> Vec<Vec<u8>> {
    let mut blocks = vec![vec![0; n_bytes], vec![0xff; n_bytes]];
    for bits in SCALES {
        for mut block in [vec![0xff; n_bytes], random.bytes(n_bytes)] {
            scales.iter().for_each(|&at| block[at..at + 2].copy_from_slice(&bits.to_le_bytes()));
            blocks.push(block);
        }
    }
    blocks
}

/// Where a block has f16 scales: a NaN there makes values of an otherwise empty block NaN.
fn scales<F: Format>() -> Vec<usize> {
    let (n_elems, n_bytes) = (F::GEOMETRY.elements() as usize, F::GEOMETRY.bytes() as usize);
    let is_scale = |at: &usize| {
        let (mut block, mut values) = (vec![0; n_bytes], vec![0.0; n_elems]);
        block[*at..at + 2].copy_from_slice(&NAN.to_le_bytes());
        F::dequantize(&block, &mut values);
        values.iter().any(|v| v.is_nan())
    };
    (0..n_bytes.saturating_sub(1)).step_by(2).filter(is_scale).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::{F16, Q4K};

    #[test]
    fn scales_are_found_and_rare_ones_come_up() {
        assert_eq!(scales::<Q4K>(), [0, 2], "d and dmin");
        assert_eq!(scales::<F16>(), [0]);
        let (blocks, values) = random_blocks::<Q4K>(&mut Random::new(7), 10 * 256);
        assert_eq!(values.len(), 10 * 256);
        let d = |block: &[u8]| u16::from_le_bytes([block[0], block[1]]);
        let found: Vec<u16> = blocks.chunks_exact(144).map(d).collect();
        assert!(SCALES.iter().all(|bits| found.contains(bits)), "{found:x?}");
    }
}
