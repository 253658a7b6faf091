//! Host arithmetic of grids and `#[len]` contracts: in u64, saturating, so that a number that does not fit refuses the
//! launch instead of wrapping.

use kiln_abi::Grid;

/// A count on the host. What cannot be counted (overflow, a negative number, a division by zero) is the largest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count(pub u64);

/// What a contract can count with.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a count",
    label = "grids and `#[len]` contracts compute with integers"
)]
pub trait ToCount {
    /// The count.
    fn to_count(&self) -> Count;
}

macro_rules! to_count {
    ($($t:ty)*) => { $(
        impl ToCount for $t {
            fn to_count(&self) -> Count { Count(u64::try_from(*self).unwrap_or(u64::MAX)) }
        }
    )* };
}
to_count! { u8 u16 u32 u64 usize i32 i64 }

impl ToCount for Count {
    fn to_count(&self) -> Count {
        *self
    }
}

impl<X: ToCount> ToCount for &X {
    fn to_count(&self) -> Count {
        (**self).to_count()
    }
}

macro_rules! count_functions {
    ($($(#[$doc:meta])* $name:ident($a:ident, $b:ident) $body:expr;)*) => {
        impl Count { $(
            $(#[$doc])*
            #[must_use]
            pub fn $name(self, other: Count) -> Count {
                let ($a, $b) = (self.0, other.0);
                let lost = $a == u64::MAX || $b == u64::MAX;
                if lost { Count(u64::MAX) } else { Count($body) }
            }
        )* }
    };
}
count_functions! {
    /// `a + b`.
    plus(a, b) a.saturating_add(b);
    /// `a - b`, at least 0.
    minus(a, b) a.saturating_sub(b);
    /// `a * b`.
    times(a, b) a.saturating_mul(b);
    /// `a / b`, rounded down.
    over(a, b) a.checked_div(b).unwrap_or(u64::MAX);
    /// `a % b`.
    modulo(a, b) a.checked_rem(b).unwrap_or(u64::MAX);
    /// `a / b`, rounded up.
    div_ceil(a, b) if b == 0 { u64::MAX } else { a.div_ceil(b) };
    /// The smallest multiple of `b` that is at least `a`.
    next_multiple_of(a, b) a.checked_next_multiple_of(b).unwrap_or(u64::MAX);
    /// The smaller one.
    min(a, b) a.min(b);
    /// The larger one.
    max(a, b) a.max(b);
}

/// Bytes of that many elements of `bytes` bytes.
pub fn needed_bytes(elements: Count, bytes: u32) -> u64 {
    elements.times(Count(bytes.into())).0
}

/// The grid of counts; a count over a `u32` is the largest one, which no device allows.
pub fn grid(counts: [Count; 3]) -> Grid {
    Grid(counts.map(|c| u32::try_from(c.0).unwrap_or(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_counted_stays_lost() {
        let (big, lost) = (Count(u64::MAX - 1), Count(u64::MAX));
        assert_eq!(big.times(Count(2)), lost);
        assert_eq!(big.times(Count(2)).over(Count(2)), lost, "a product that overflowed is not divided back");
        assert_eq!(Count(1).over(Count(0)), lost);
        assert_eq!((-1i32).to_count(), lost);
        assert_eq!(Count(3).minus(Count(5)), Count(0));
        assert_eq!(grid([Count(1 << 32), Count(7), Count(1)]).0, [u32::MAX, 7, 1]);
        assert_eq!(needed_bytes(Count(5), 34), 170);
    }
}
