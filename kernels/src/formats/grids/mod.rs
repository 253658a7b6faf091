//! The codebooks of the IQ formats: numbers only, one table a file.

mod iq1;
mod iq2_s;
mod iq2_xs;
mod iq2_xxs;
mod iq3_s;
mod iq3_xxs;

pub use self::{iq1::IQ1, iq2_s::IQ2_S, iq2_xs::IQ2_XS, iq2_xxs::IQ2_XXS, iq3_s::IQ3_S, iq3_xxs::IQ3_XXS};

/// A codebook of `N` entries, each `E` elements of equally many bits, ascending from bit 0 of the entry's word.
pub struct Grid<const N: usize, const E: usize> {
    /// What an element's bits stand for.
    pub values: &'static [i8],
    /// The entries.
    pub words: &'static [u16; N],
}

impl<const N: usize, const E: usize> Grid<N, E> {
    const BITS: usize = u16::BITS as usize / E;

    /// Every entry's elements as bytes, four a word.
    pub fn bytes(&self) -> Vec<u32> {
        let word = |four: &[f32]| four.iter().rev().fold(0, |w, v| w << 8 | u32::from(*v as u8));
        (0..N).flat_map(|i| self.entry(i).chunks_exact(4).map(word).collect::<Vec<_>>()).collect()
    }

    /// The elements of entry `index`, which is below `N`.
    pub fn entry(&self, index: usize) -> [f32; E] {
        let word = usize::from(self.words[index]);
        std::array::from_fn(|j| f32::from(self.values[word >> (Self::BITS * j) & ((1 << Self::BITS) - 1)]))
    }
}
