//! Which commands must wait for which: barriers from the byte ranges that recorded commands touch.

use std::{collections::HashMap, ops::BitOr};

use kiln_abi::{Access, BufferId};

/// A set of pipeline stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages(u8);

impl Stages {
    /// No stage.
    pub const NONE: Self = Self(0);
    /// Kernels.
    pub const COMPUTE: Self = Self(1);
    /// Copies and fills.
    pub const TRANSFER: Self = Self(2);
    /// The reader of an indirect dispatch's grid.
    pub const INDIRECT: Self = Self(4);

    /// Whether the sets share a stage.
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for Stages {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// One command's use of the bytes `start..end` of a buffer, at one stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// The buffer.
    pub buffer: BufferId,
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
    /// What it does there.
    pub access: Access,
    /// Where in the pipeline.
    pub stage: Stages,
}

/// Everything recorded so far at the stages `from` happens before everything later at the stages `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Barrier {
    /// Stages that are waited for.
    pub from: Stages,
    /// Stages that wait.
    pub to: Stages,
}

/// An earlier use, as far as a later one may still have to wait for it.
#[derive(Clone, Copy, Debug)]
struct Use {
    start: u64,
    end: u64,
    writes: bool,
    stage: Stages,
    /// Stages that barriers have put after this use.
    ordered: Stages,
}

/// The uses that later commands may have to wait for.
#[derive(Debug, Default)]
pub struct Hazards {
    uses: HashMap<BufferId, Vec<Use>>,
}

impl Hazards {
    /// The barrier that the next command needs, if it needs one; the command then counts as recorded.
    pub fn before(&mut self, touches: &[Touch]) -> Option<Barrier> {
        let mut barrier = Barrier { from: Stages::NONE, to: Stages::NONE };
        for touch in touches {
            for earlier in self.uses.get(&touch.buffer).into_iter().flatten() {
                let conflicts = (earlier.writes || touch.access.writes())
                    && earlier.start < touch.end
                    && touch.start < earlier.end
                    && !earlier.ordered.meets(touch.stage);
                if conflicts {
                    barrier.from = barrier.from | earlier.stage;
                    barrier.to = barrier.to | touch.stage;
                }
            }
        }
        let needed = (barrier.from != Stages::NONE).then_some(barrier);
        if let Some(barrier) = needed {
            self.apply(barrier);
        }
        for touch in touches {
            self.record(touch);
        }
        needed
    }

    fn apply(&mut self, barrier: Barrier) {
        for earlier in self.uses.values_mut().flatten() {
            // Barriers chain: what an earlier one ordered before these stages is ordered before `to` as well.
            if (earlier.stage | earlier.ordered).meets(barrier.from) {
                earlier.ordered = earlier.ordered | barrier.to;
            }
        }
    }

    fn record(&mut self, touch: &Touch) {
        let uses = self.uses.entry(touch.buffer).or_default();
        let writes = touch.access.writes();
        // Whoever waits for this use has waited for what it replaces: a write waited for all it covers, and a read
        // at the same stage is ordered by the same barriers. Without this the list grows with the recording.
        let mut kept = Vec::with_capacity(uses.len() + 1);
        for earlier in uses.drain(..) {
            let replaced = if writes {
                earlier.ordered.meets(touch.stage)
            } else {
                !earlier.writes && earlier.stage == touch.stage
            };
            if !replaced || earlier.end <= touch.start || touch.end <= earlier.start {
                kept.push(earlier);
                continue;
            }
            if earlier.start < touch.start {
                kept.push(Use { end: touch.start, ..earlier });
            }
            if touch.end < earlier.end {
                kept.push(Use { start: touch.end, ..earlier });
            }
        }
        kept.push(Use {
            start: touch.start,
            end: touch.end,
            writes,
            stage: touch.stage,
            ordered: Stages::NONE,
        });
        *uses = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::{Barrier, Hazards, Stages, Touch};
    use kiln_abi::{Access, BufferId};

    const KERNEL: Stages = Stages::COMPUTE;
    const COPY: Stages = Stages::TRANSFER;

    fn touch(buffer: u64, start: u64, end: u64, access: Access, stage: Stages) -> Touch {
        Touch { buffer: BufferId(buffer), start, end, access, stage }
    }

    fn second_needs(first: Touch, second: Touch) -> Option<Barrier> {
        let mut hazards = Hazards::default();
        assert_eq!(hazards.before(&[first]), None, "nothing comes before the first command");
        hazards.before(&[second])
    }

    #[test]
    fn the_three_hazards_need_a_barrier_and_two_reads_do_not() {
        let barrier = Some(Barrier { from: KERNEL, to: KERNEL });
        for (first, second, expected) in [
            (Access::Write, Access::Read, barrier),
            (Access::Write, Access::Write, barrier),
            (Access::Read, Access::Write, barrier),
            (Access::ReadWrite, Access::ReadWrite, barrier),
            (Access::Read, Access::Read, None),
        ] {
            let found = second_needs(touch(1, 0, 64, first, KERNEL), touch(1, 0, 64, second, KERNEL));
            assert_eq!(found, expected, "{first:?} then {second:?}");
        }
    }

    #[test]
    fn only_overlapping_bytes_of_one_buffer_conflict() {
        let write = touch(1, 64, 128, Access::Write, KERNEL);
        for (start, end, conflicts) in [(0, 64, false), (128, 192, false), (0, 65, true), (127, 128, true)] {
            let found = second_needs(write, touch(1, start, end, Access::Read, KERNEL));
            assert_eq!(found.is_some(), conflicts, "{start}..{end}");
        }
        assert_eq!(second_needs(write, touch(2, 64, 128, Access::Read, KERNEL)), None);
    }

    #[test]
    fn a_barrier_serves_everything_before_it() {
        let mut hazards = Hazards::default();
        hazards.before(&[touch(1, 0, 64, Access::Write, KERNEL), touch(2, 0, 64, Access::Write, KERNEL)]);
        assert!(hazards.before(&[touch(1, 0, 64, Access::Read, KERNEL)]).is_some());
        assert_eq!(hazards.before(&[touch(2, 0, 64, Access::Read, KERNEL)]), None, "the first one covers it");
    }

    #[test]
    fn stages_are_kept_apart() {
        let mut hazards = Hazards::default();
        hazards.before(&[touch(1, 0, 64, Access::Write, KERNEL)]);
        assert!(hazards.before(&[touch(1, 0, 64, Access::Read, KERNEL)]).is_some());
        let copied = hazards.before(&[touch(1, 0, 64, Access::Read, COPY)]);
        assert_eq!(
            copied,
            Some(Barrier { from: KERNEL, to: COPY }),
            "a kernel's barrier does not order a copy"
        );
        let grid = hazards.before(&[touch(1, 0, 12, Access::Read, Stages::INDIRECT)]);
        assert_eq!(grid, Some(Barrier { from: KERNEL, to: Stages::INDIRECT }));
    }

    #[test]
    fn one_command_with_several_hazards_gets_one_barrier() {
        let mut hazards = Hazards::default();
        hazards.before(&[touch(1, 0, 64, Access::Write, COPY)]);
        hazards.before(&[touch(2, 0, 64, Access::Write, KERNEL)]);
        let barrier = hazards.before(&[
            touch(1, 0, 64, Access::Read, KERNEL),
            touch(2, 0, 12, Access::Read, Stages::INDIRECT),
        ]);
        assert_eq!(barrier, Some(Barrier { from: KERNEL | COPY, to: KERNEL | Stages::INDIRECT }));
    }

    /// Whether the barriers of a recording order each conflicting pair, by the specification's chaining rule.
    fn ordered(touches: &[Vec<Touch>], barriers: &[Option<Barrier>]) -> Result<(), (usize, usize)> {
        for (j, later) in touches.iter().enumerate() {
            for (i, earlier) in touches[..j].iter().enumerate() {
                for (a, b) in earlier.iter().flat_map(|a| later.iter().map(move |b| (a, b))) {
                    let conflict = a.buffer == b.buffer
                        && (a.access.writes() || b.access.writes())
                        && a.start < b.end
                        && b.start < a.end;
                    let mut reached = Stages::NONE;
                    for barrier in barriers[i + 1..=j].iter().flatten() {
                        if (a.stage | reached).meets(barrier.from) {
                            reached = reached | barrier.to;
                        }
                    }
                    if conflict && !reached.meets(b.stage) {
                        return Err((i, j));
                    }
                }
            }
        }
        Ok(())
    }

    #[test]
    fn random_recordings_are_ordered_and_each_barrier_is_needed() {
        let mut seed = 1u64;
        let mut next = move |below: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % below
        };
        let mut total = 0;
        for _ in 0..400 {
            let recording: Vec<Vec<Touch>> = (0..24)
                .map(|_| {
                    let stage = if next(4) == 0 { COPY } else { KERNEL };
                    (0..1 + next(3))
                        .map(|_| {
                            let start = next(8) * 16;
                            let access = [Access::Read, Access::Read, Access::Write, Access::ReadWrite]
                                [next(4) as usize];
                            touch(next(4), start, start + 16 * (1 + next(4)), access, stage)
                        })
                        .collect()
                })
                .collect();
            let mut hazards = Hazards::default();
            let barriers: Vec<_> = recording.iter().map(|touches| hazards.before(touches)).collect();
            assert_eq!(ordered(&recording, &barriers), Ok(()));
            for drop in (0..barriers.len()).filter(|&i| barriers[i].is_some()) {
                let mut fewer = barriers.clone();
                fewer[drop] = None;
                assert!(ordered(&recording, &fewer).is_err(), "barrier {drop} of {barriers:?} is not needed");
                total += 1;
            }
        }
        assert!(total > 1000, "only {total} barriers were tried");
    }

    #[test]
    fn a_long_recording_keeps_a_short_list() {
        let mut hazards = Hazards::default();
        for _ in 0..1000 {
            hazards.before(&[touch(1, 0, 64, Access::Read, KERNEL), touch(2, 0, 64, Access::Write, KERNEL)]);
            hazards
                .before(&[touch(2, 0, 64, Access::Read, KERNEL), touch(3, 0, 64, Access::ReadWrite, KERNEL)]);
        }
        let longest = hazards.uses.values().map(Vec::len).max();
        assert!(longest <= Some(3), "{longest:?}");
    }
}
