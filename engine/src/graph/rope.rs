//! How positions turn into rotation angles.
//!
//! Source: Su et al., arXiv:2104.09864, section 3.2; YaRN: Peng et al., arXiv:2309.00071, section 3.

use super::TensorId;

/// Which elements of a head rotate together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RopePairs {
    /// Elements `2j` and `2j + 1` (ggml's NORM).
    Adjacent,
    /// Elements `j` and `j + n_rot / 2` (ggml's NEOX).
    Halves,
}

/// How a model reaches past the positions that it was first trained for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RopeScaling {
    /// Every frequency is divided by `factor`; 1 leaves them.
    Linear {
        /// The divisor.
        factor: f64,
    },
    /// Frequencies that turn often within the original context stay, those that turn rarely are divided by `factor`,
    /// and between the two the share of each changes linearly from pair to pair.
    Yarn {
        /// The divisor.
        factor: f64,
        /// Positions of the original training.
        n_ctx_original: usize,
        /// Turns from which on a frequency stays.
        beta_fast: f64,
        /// Turns up to which a frequency is divided.
        beta_slow: f64,
    },
}

/// Angles of one layer's heads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rope {
    /// Which elements rotate together.
    pub pairs: RopePairs,
    /// Leading elements of each head that rotate; the rest pass.
    pub n_rot: usize,
    /// Base of the geometric row of frequencies.
    pub theta: f64,
    /// Reaching past the original context.
    pub scaling: RopeScaling,
    /// Cosine and sine are multiplied by this.
    pub magnitude: f64,
    /// Frequency j is divided by element j of this tensor.
    pub factors: Option<TensorId>,
}

impl Rope {
    /// The angle that each pair turns per position, `[n_rot / 2]`; `factors` are the values of [`Self::factors`].
    pub fn frequencies(&self, factors: Option<&[f32]>) -> Vec<f64> {
        let plain = |j: usize| {
            let divisor = factors.map_or(1.0, |factors| f64::from(factors[j]));
            self.theta.powf(-2.0 * j as f64 / self.n_rot as f64) / divisor
        };
        (0..self.n_rot / 2).map(|j| plain(j) * self.kept(j)).collect()
    }

    /// What the scaling leaves of the frequency of pair `j`.
    fn kept(&self, j: usize) -> f64 {
        match self.scaling {
            RopeScaling::Linear { factor } => 1.0 / factor,
            RopeScaling::Yarn { factor, n_ctx_original, beta_fast, beta_slow } => {
                // The pair, counted from 0, that turns so many times within the original context.
                let pair = |turns: f64| {
                    let positions = n_ctx_original as f64 / (turns * std::f64::consts::TAU);
                    self.n_rot as f64 * positions.ln() / (2.0 * self.theta.ln())
                };
                let first = pair(beta_fast).floor().max(0.0);
                let last = pair(beta_slow).ceil().min(self.n_rot as f64 - 1.0);
                // A ramp of no width is a step.
                let divided = ((j as f64 - first) / (last - first).max(1e-3)).clamp(0.0, 1.0);
                (1.0 - divided) + divided / factor
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Rope = Rope {
        pairs: RopePairs::Halves,
        n_rot: 8,
        theta: 10_000.0,
        scaling: RopeScaling::Linear { factor: 1.0 },
        magnitude: 1.0,
        factors: None,
    };

    fn close(a: &[f64], b: &[f64]) {
        assert!(
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9),
            "{a:?} is not {b:?}"
        );
    }

    #[test]
    fn frequencies_fall_geometrically_and_are_divided() {
        close(&PLAIN.frequencies(None), &[1.0, 0.1, 0.01, 0.001]);
        let half = Rope { scaling: RopeScaling::Linear { factor: 2.0 }, ..PLAIN };
        close(&half.frequencies(Some(&[1.0, 1.0, 2.0, 4.0])), &[0.5, 0.05, 0.0025, 0.000_125]);
    }

    #[test]
    fn yarn_keeps_the_fast_and_divides_the_slow() {
        // Within 6283 positions pair 0 turns 1000 times, pair 1 100 times, pair 2 10 times, pair 3 once.
        let yarn = |beta_fast, beta_slow| Rope {
            scaling: RopeScaling::Yarn { factor: 4.0, n_ctx_original: 6283, beta_fast, beta_slow },
            ..PLAIN
        };
        // The ramp goes from pair 1 to pair 3; the bounds are rounded outward.
        close(&yarn(99.0, 1.01).frequencies(None), &[1.0, 0.1, 0.01 * 0.625, 0.001 / 4.0]);
        close(&yarn(900.0, 500.0).frequencies(None), &[1.0, 0.1 / 4.0, 0.01 / 4.0, 0.001 / 4.0]);
        close(&yarn(1e-9, 1e-9).frequencies(None), &[1.0, 0.1, 0.01, 0.001]);
    }
}
