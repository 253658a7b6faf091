//! Philox 4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011).
//!
//! A counter-based generator: a draw depends on its key and counter alone, so the host, a device and any
//! order of a batch draw alike.

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// The golden ratio and the square root of three, less one, as fractions of 2³².
const KEY_STEPS: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const N_ROUNDS: usize = 10;

/// The four words at `counter` of the stream `key`.
pub fn philox4x32(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..N_ROUNDS {
        let [hi0, lo0] = wide_product(MULTIPLIERS[0], counter[0]);
        let [hi1, lo1] = wide_product(MULTIPLIERS[1], counter[2]);
        counter = [hi1 ^ counter[1] ^ key[0], lo1, hi0 ^ counter[3] ^ key[1], lo0];
        key = [key[0].wrapping_add(KEY_STEPS[0]), key[1].wrapping_add(KEY_STEPS[1])];
    }
    counter
}

/// A draw of 32 bits: key = seed, counter = (position, sequence), first word.
pub fn draw(seed: u64, sequence: u64, position: u64) -> u32 {
    let [position, position_hi] = words(position);
    let [sequence, sequence_hi] = words(sequence);
    let [word, ..] = philox4x32([position, position_hi, sequence, sequence_hi], words(seed));
    word
}

/// The draw's upper 24 bits as a number of `[0, 1)`, exact in f32.
pub fn uniform(seed: u64, sequence: u64, position: u64) -> f32 {
    (draw(seed, sequence, position) >> 8) as f32 * (1.0 / (1 << 24) as f32)
}

/// High and low half of the 64-bit product.
fn wide_product(a: u32, b: u32) -> [u32; 2] {
    let product = u64::from(a) * u64::from(b);
    [(product >> 32) as u32, product as u32]
}

/// Low and high word.
fn words(x: u64) -> [u32; 2] {
    [x as u32, (x >> 32) as u32]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers that the paper's library publishes for `philox4x32` with ten rounds.
    #[test]
    fn philox_known_answers() {
        let cases: [([u32; 4], [u32; 2], [u32; 4]); 3] = [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([u32::MAX; 4], [u32::MAX; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (counter, key, expected) in cases {
            assert_eq!(philox4x32(counter, key), expected);
        }
    }

    #[test]
    fn uniform_reads_every_word_of_its_counter_and_key() {
        let draw = uniform(1, 2, 3);
        assert!((0.0..1.0).contains(&draw));
        let hi = 1 << 32;
        for other in [(2, 2, 3), (1, 3, 3), (1, 2, 4), (1 + hi, 2, 3), (1, 2 + hi, 3), (1, 2, 3 + hi)] {
            assert_ne!(uniform(other.0, other.1, other.2), draw, "{other:?}");
        }
    }
}
