//! Blocks of 32 activations as signed bytes with one scale: in one plane, or in two for a 256th of the step.
//!
//! Scale: `d = max |x| / N`, quant: `x · (N / max |x|)` rounded half to even, with N = 127 in one plane and 32512 =
//! 127 · 256 in two, where `quant = 256 · high + low`. Activations must be finite. Where d would be subnormal, which a
//! device may flush, d and all quants are zero.

/// Activations of a block.
pub const ELEMENTS: usize = 32;

/// A block in one plane: `d · q`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OnePlane {
    /// Scale.
    pub d: f32,
    /// Quants, from −127 to 127.
    pub q: [i8; ELEMENTS],
}

/// A block in two planes: `d · (256 · high + low)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwoPlanes {
    /// Scale.
    pub d: f32,
    /// From −127 to 127.
    pub high: [i8; ELEMENTS],
    /// From −128 to 127.
    pub low: [i8; ELEMENTS],
}

impl OnePlane {
    /// The block nearest to `x`.
    pub fn quantize(x: &[f32; ELEMENTS]) -> Self {
        let (d, q) = scaled(x, 127.0);
        Self { d, q: q.map(|q| q as i8) }
    }

    /// The values.
    pub fn dequantize(&self) -> [f32; ELEMENTS] {
        self.q.map(|q| self.d * f32::from(q))
    }
}

impl TwoPlanes {
    /// The block nearest to `x`.
    pub fn quantize(x: &[f32; ELEMENTS]) -> Self {
        let (d, q) = scaled(x, 32512.0);
        // The half makes the low plane signed: 256 · high is the multiple nearest to the quant.
        Self { d, high: q.map(|q| ((q + 128) >> 8) as i8), low: q.map(|q| q as i8) }
    }

    /// The values.
    pub fn dequantize(&self) -> [f32; ELEMENTS] {
        let quant = |i: usize| 256 * i16::from(self.high[i]) + i16::from(self.low[i]);
        std::array::from_fn(|i| self.d * f32::from(quant(i)))
    }
}

/// Scale and quants, these from `-n` to `n`.
fn scaled(x: &[f32; ELEMENTS], n: f32) -> (f32, [i32; ELEMENTS]) {
    let max = x.iter().fold(0.0_f32, |max, x| max.max(x.abs()));
    let d = max / n;
    if !d.is_normal() {
        return (0.0, [0; ELEMENTS]);
    }
    let inverse = n / max;
    (d, x.map(|x| (x * inverse).round_ties_even() as i32))
}
