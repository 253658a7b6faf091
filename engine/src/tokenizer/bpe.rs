//! Byte-pair merging: the best-ranked neighbors join, the leftmost first, until no rule applies.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::index::Index;
use super::vocab::Vocab;
use super::{TokenId, TokenizerError, bytes};

/// "No token": a byte that the vocabulary cannot write, or a symbol that was merged into its left neighbor.
const NONE: TokenId = TokenId::MAX;
/// No neighbor.
const END: u32 = u32::MAX;

/// The merge rules of a vocabulary, by id.
pub(super) struct Merges {
    /// The token of each single byte, or `NONE`.
    bytes: [TokenId; 256],
    /// The best first: a rule's place is its rank.
    rules: Vec<Rule>,
    /// Places in `rules`, by tokens.
    index: Index,
}

/// Two tokens that join to a third.
#[derive(Clone, Copy)]
struct Rule {
    tokens: (TokenId, TokenId),
    joined: TokenId,
}

/// Two tokens of one byte and a space.
const SHORTEST_MERGE: usize = 3;

impl Merges {
    /// Checks every rule against the vocabulary.
    pub(super) fn build(merges: &[&str], vocab: &Vocab) -> Result<Self, TokenizerError> {
        // Texts too short to be a rule reserve nothing.
        let size: usize = merges.iter().map(|merge| merge.len()).sum();
        let n = merges.len().min(size / SHORTEST_MERGE);
        let (mut rules, mut by_tokens): (Vec<Rule>, _) = (Vec::with_capacity(n), Index::with_capacity(n));
        for (index, merge) in merges.iter().enumerate() {
            let unknown = |part: &str| TokenizerError::Merge {
                index,
                merge: (*merge).to_owned(),
                part: part.to_owned(),
            };
            let find = |part: &str| {
                let mut text = Vec::with_capacity(part.len());
                let token = if bytes::decode_into(part, &mut text) { vocab.find(&text) } else { None };
                token.ok_or_else(|| unknown(part))
            };
            // The first half may not be empty, so a space in first place would be part of it.
            let space =
                merge.bytes().skip(1).position(|byte| byte == b' ').ok_or_else(|| unknown(merge))? + 1;
            let (left, right) = (&merge[..space], &merge[space + 1..]);
            let tokens = (find(left)?, find(right)?);
            let joined = find(&format!("{left}{right}"))?;
            // Of equal rules the best holds.
            if by_tokens.find(tokens, |at| rules[at as usize].tokens == tokens).is_none() {
                // The reader keeps a list's length within 32 bits.
                by_tokens.insert(rules.len() as u32, tokens);
                rules.push(Rule { tokens, joined });
            }
        }
        let bytes = std::array::from_fn(|byte| vocab.find(&[byte as u8]).unwrap_or(NONE));
        Ok(Self { bytes, rules, index: by_tokens })
    }

    /// Bytes that no token stands for; they are lost in encoding.
    pub(super) fn missing_bytes(&self) -> Vec<u8> {
        (0..=255u8).filter(|&byte| self.bytes[usize::from(byte)] == NONE).collect()
    }

    /// Appends the tokens of one word; false when a byte had no token and was left out.
    pub(super) fn encode(&self, word: &[u8], scratch: &mut Scratch, out: &mut Vec<TokenId>) -> bool {
        // Positions are 32 bits wide; a longer word is taken in pieces.
        let mut whole = true;
        for piece in word.chunks(END as usize) {
            whole &= self.encode_piece(piece, scratch, out);
        }
        whole
    }

    fn encode_piece(&self, word: &[u8], scratch: &mut Scratch, out: &mut Vec<TokenId>) -> bool {
        let Scratch { symbols, queue } = scratch;
        symbols.clear();
        queue.clear();
        symbols.extend((0..).zip(word).map(|(at, &byte)| Symbol {
            token: self.bytes[usize::from(byte)],
            previous: if at == 0 { END } else { at - 1 },
            next: if at as usize + 1 == word.len() { END } else { at + 1 },
        }));
        let whole = symbols.iter().all(|symbol| symbol.token != NONE);
        for left in 1..symbols.len() as u32 {
            self.offer(symbols, queue, left - 1);
        }
        while let Some(Reverse(best)) = queue.pop() {
            let left = symbols[best.left as usize];
            // A neighbor that changed since the pair was queued makes it stale.
            if left.token != best.tokens.0
                || left.next == END
                || symbols[left.next as usize].token != best.tokens.1
            {
                continue;
            }
            let right = symbols[left.next as usize];
            symbols[left.next as usize].token = NONE;
            symbols[best.left as usize].token = best.joined;
            symbols[best.left as usize].next = right.next;
            if right.next != END {
                symbols[right.next as usize].previous = best.left;
                self.offer(symbols, queue, best.left);
            }
            if left.previous != END {
                self.offer(symbols, queue, left.previous);
            }
        }
        out.extend(symbols.iter().map(|symbol| symbol.token).filter(|&token| token != NONE));
        whole
    }

    /// Queues the pair that starts at `left`, which has a right neighbor, if there is a rule for it.
    fn offer(&self, symbols: &[Symbol], queue: &mut BinaryHeap<Reverse<Pair>>, left: u32) {
        let symbol = symbols[left as usize];
        let tokens = (symbol.token, symbols[symbol.next as usize].token);
        if let Some(rank) = self.index.find(tokens, |at| self.rules[at as usize].tokens == tokens) {
            let joined = self.rules[rank as usize].joined;
            queue.push(Reverse(Pair { rank, left, tokens, joined }));
        }
    }
}

/// Memory that words share.
#[derive(Default)]
pub(super) struct Scratch {
    symbols: Vec<Symbol>,
    queue: BinaryHeap<Reverse<Pair>>,
}

/// A run of bytes that is one token so far, in a list linked both ways.
#[derive(Clone, Copy)]
struct Symbol {
    token: TokenId,
    previous: u32,
    next: u32,
}

/// Two neighbors with a rule. Ordered by rank, then from the left.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Pair {
    rank: u32,
    left: u32,
    tokens: (TokenId, TokenId),
    joined: TokenId,
}
