//! How far a float result may be from the exact one: counted roundings, not chosen tolerances.
//!
//! Source: N. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.1.

/// Half the distance from 1 to the next f32: what one rounding can change, relative.
pub const F32_ROUNDOFF: f64 = 1.0 / 16_777_216.0;
/// The same for f16.
pub const F16_ROUNDOFF: f64 = 1.0 / 2048.0;

/// How many roundings: a count, or a number that a formula gives, such as the 3 + 2·|x| of `exp(x)`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not count roundings",
    label = "roundings are counted by a u32, an i32, a usize or an f64"
)]
pub trait Roundings {
    /// The number.
    fn count(self) -> f64;
}

impl Roundings for u32 {
    fn count(self) -> f64 {
        self.into()
    }
}

/// What a literal without a suffix is.
impl Roundings for i32 {
    fn count(self) -> f64 {
        self.into()
    }
}

/// The length of a slice.
impl Roundings for usize {
    fn count(self) -> f64 {
        self as f64
    }
}

impl Roundings for f64 {
    fn count(self) -> f64 {
        self
    }
}

/// γₙ = n·u / (1 − n·u): the relative change that `n` roundings with unit roundoff `u` can add up to.
pub fn gamma(roundings: impl Roundings, roundoff: f64) -> f64 {
    let nu = roundings.count() * roundoff;
    nu / (1.0 - nu)
}

#[cfg(test)]
mod tests {
    use super::{F32_ROUNDOFF, gamma};

    #[test]
    fn roundings_are_counted_by_what_an_author_has_at_hand() {
        let bound = gamma(2, F32_ROUNDOFF);
        assert_eq!(gamma(2u32, F32_ROUNDOFF), bound);
        assert_eq!(gamma([1, 2].len(), F32_ROUNDOFF), bound);
        assert_eq!(gamma(2.0, F32_ROUNDOFF), bound);
        assert!(gamma(2.5, F32_ROUNDOFF) > bound);
    }
}
