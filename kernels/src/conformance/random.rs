//! Seeded numbers for test inputs: the same on every machine.

/// A SplitMix64 generator.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator that gives the same numbers for the same seed.
    pub const fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// An index below `n` (which is more than 0).
    pub fn below(&mut self, n: u32) -> u32 {
        let high = ((self.bits() >> 32) * u64::from(n.max(1))) >> 32;
        u32::try_from(high).unwrap_or(0)
    }

    /// A float in -1..1 with 24 random bits.
    pub fn unit(&mut self) -> f32 {
        let bits = u32::try_from(self.bits() >> 40).unwrap_or(0);
        bits as f32 / 8_388_608.0 - 1.0
    }

    /// `n` floats in -1..1.
    pub fn units(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.unit()).collect()
    }

    /// The numbers below `n`, each once, in any order.
    pub fn order(&mut self, n: u16) -> Vec<u16> {
        let mut all: Vec<u16> = (0..n).collect();
        for i in 1..all.len() {
            all.swap(i, self.below(i as u32 + 1) as usize);
        }
        all
    }

    /// `n` random bytes.
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.bits().to_le_bytes()[0]).collect()
    }
}
