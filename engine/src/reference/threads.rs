//! Work shared among threads in pieces that do not overlap.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Multiply-adds below which starting threads costs more than it saves.
const MIN_SHARED_WORK: usize = 200_000;

/// How many threads the reference uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threads(NonZeroUsize);

impl Threads {
    /// `n` threads, or as many as the machine offers.
    pub fn new(n: Option<NonZeroUsize>) -> Self {
        Self(n.unwrap_or_else(|| thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)))
    }

    /// How many.
    pub fn count(self) -> usize {
        self.0.get()
    }

    /// Cuts `out` into pieces of `piece` values and runs `fill(index, piece)` on each, on any thread.
    ///
    /// `work` is the number of multiply-adds in all; little work stays on the calling thread.
    pub fn fill(self, out: &mut [f32], piece: usize, work: usize, fill: impl Fn(usize, &mut [f32]) + Sync) {
        let pieces = out.chunks_mut(piece.max(1)).enumerate();
        let n_threads = self.count().min(pieces.len());
        if n_threads < 2 || work < MIN_SHARED_WORK {
            return pieces.for_each(|(index, piece)| fill(index, piece));
        }
        let queue = Mutex::new(pieces);
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
        let run = || {
            while let Some((index, piece)) = next() {
                fill(index, piece);
            }
        };
        thread::scope(|scope| {
            for _ in 1..n_threads {
                scope.spawn(run);
            }
            run();
        });
    }
}
