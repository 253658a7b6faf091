//! Merging: the best neighbors join, the leftmost of equals first, until no two can. What joins, and how well, is the
//! caller's.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::TokenId;

/// "No token": a part that the vocabulary cannot write.
pub(super) const NONE: TokenId = TokenId::MAX;
/// No neighbor.
const END: u32 = u32::MAX;
/// Positions are 32 bits wide; a longer text is taken in pieces.
pub(super) const LONGEST: usize = END as usize;

/// A run of bytes that is one token so far, in a list linked both ways.
#[derive(Clone, Copy, Debug)]
pub(super) struct Symbol {
    /// The token, or [`NONE`].
    pub token: TokenId,
    /// Its first byte.
    pub start: u32,
    /// Its bytes; none once it is merged into its left neighbor.
    pub len: u32,
    previous: u32,
    next: u32,
}

impl Symbol {
    /// Past its last byte.
    pub(super) fn end(&self) -> usize {
        self.start as usize + self.len as usize
    }
}

/// What two neighbors join to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Join {
    /// The lowest goes first.
    pub rank: u32,
    /// The token of both together.
    pub token: TokenId,
}

/// Two neighbors that can join. Ordered by rank, then from the left.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Pair {
    rank: u32,
    left: u32,
    /// Bytes of both: symbols only grow, so a pair of another size is one that has changed.
    len: u32,
    token: TokenId,
}

/// Memory that texts share.
#[derive(Default)]
pub(super) struct Scratch {
    symbols: Vec<Symbol>,
    queue: BinaryHeap<Reverse<Pair>>,
}

impl Scratch {
    /// Merges the text that `parts` make up, each a token and its number of bytes, at least one; what is left, in order.
    pub(super) fn merge(
        &mut self,
        parts: impl Iterator<Item = (TokenId, usize)>,
        join: impl Fn(&Symbol, &Symbol) -> Option<Join>,
    ) -> impl Iterator<Item = &Symbol> {
        let Self { symbols, queue } = self;
        symbols.clear();
        queue.clear();
        let mut start = 0;
        for (at, (token, len)) in (0u32..).zip(parts) {
            // No text is longer than `LONGEST`.
            let len = len as u32;
            symbols.push(Symbol {
                token,
                start,
                len,
                previous: at.checked_sub(1).unwrap_or(END),
                next: at + 1,
            });
            start += len;
        }
        if let Some(last) = symbols.last_mut() {
            last.next = END;
        }
        let offer = |symbols: &[Symbol], queue: &mut BinaryHeap<Reverse<Pair>>, at: u32| {
            let left = &symbols[at as usize];
            let right = &symbols[left.next as usize];
            if let Some(Join { rank, token }) = join(left, right) {
                queue.push(Reverse(Pair { rank, left: at, len: left.len + right.len, token }));
            }
        };
        for right in 1..symbols.len() as u32 {
            offer(symbols, queue, right - 1);
        }
        while let Some(Reverse(best)) = queue.pop() {
            let left = symbols[best.left as usize];
            // A neighbor that changed since the pair was queued makes it stale.
            if left.len == 0 || left.next == END || left.len + symbols[left.next as usize].len != best.len {
                continue;
            }
            let right = symbols[left.next as usize];
            symbols[left.next as usize].len = 0;
            let joined = &mut symbols[best.left as usize];
            (joined.token, joined.len, joined.next) = (best.token, best.len, right.next);
            if right.next != END {
                symbols[right.next as usize].previous = best.left;
                offer(symbols, queue, best.left);
            }
            if left.previous != END {
                offer(symbols, queue, left.previous);
            }
        }
        symbols.iter().filter(|symbol| symbol.len > 0)
    }
}
