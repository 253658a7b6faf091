//! From timestamp ticks to nanoseconds per recorded command.

/// A queue's timestamp clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimestampClock {
    /// Nanoseconds per tick.
    pub period_ns: f32,
    /// Bits of a timestamp that count; the counter wraps above them.
    pub valid_bits: u32,
}

impl TimestampClock {
    /// Nanoseconds from one stamp to a later one, over at most one wrap of the counter.
    pub fn between_ns(self, earlier: u64, later: u64) -> f64 {
        let mask = if self.valid_bits >= 64 { u64::MAX } else { (1 << self.valid_bits) - 1 };
        (later.wrapping_sub(earlier) & mask) as f64 * f64::from(self.period_ns)
    }
}

/// How long one recorded command took in the last run of its recording.
///
/// A command's time ends when all before it has ended, so the times of a recording sum to its total.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// The label that was set when the command was recorded.
    pub label: String,
    /// The kernel, or `copy` or `fill`.
    pub command: String,
    /// Nanoseconds.
    pub ns: f64,
}

#[cfg(test)]
mod tests {
    use super::TimestampClock;

    #[test]
    fn ticks_scale_by_the_period() {
        let clock = TimestampClock { period_ns: 2.5, valid_bits: 64 };
        assert_eq!(clock.between_ns(100, 300), 500.0);
        assert_eq!(clock.between_ns(u64::MAX, 1), 5.0);
    }

    #[test]
    fn the_counter_wraps_at_its_valid_bits() {
        let clock = TimestampClock { period_ns: 1.0, valid_bits: 36 };
        assert_eq!(clock.between_ns((1 << 36) - 10, 5), 15.0);
        // What lies above the valid bits is noise.
        assert_eq!(clock.between_ns(7 | 1 << 50, 9), 2.0);
    }
}
