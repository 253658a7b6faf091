//! Byte-pair encoding: bytes are merged by a list of rules, the first rule of the list first.

use super::index::Index;
use super::merge::{Join, LONGEST, NONE, Scratch, Symbol};
use super::vocab::Vocab;
use super::{TokenId, TokenizerError, bytes};

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
        let mut whole = true;
        for piece in word.chunks(LONGEST) {
            let parts = piece.iter().map(|&byte| (self.bytes[usize::from(byte)], 1));
            for symbol in scratch.merge(parts, |left, right| self.join(left, right)) {
                match symbol.token {
                    NONE => whole = false,
                    token => out.push(token),
                }
            }
        }
        whole
    }

    /// The rule for two neighbors; its place is its rank.
    fn join(&self, left: &Symbol, right: &Symbol) -> Option<Join> {
        let tokens = (left.token, right.token);
        let rank = self.index.find(tokens, |at| self.rules[at as usize].tokens == tokens)?;
        Some(Join { rank, token: self.rules[rank as usize].joined })
    }
}
