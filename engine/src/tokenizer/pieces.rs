//! SentencePiece's encoding: a whole text, its spaces written `▁`, is merged from characters to the pieces of the
//! vocabulary, the piece of the highest score first; a character that is no piece is written byte by byte.
//!
//! Source: Kudo and Richardson, arXiv:1808.06226, section 3; the merging order is that of the peer engine.

use super::merge::{Join, LONGEST, NONE, Scratch, Symbol};
use super::vocab::{SPACE, TokenKind, Vocab, VocabSpec};
use super::{TokenId, TokenizerError};

/// Scores as ranks, and the tokens of single bytes.
pub(super) struct Pieces {
    /// By id; the lowest is the best.
    ranks: Vec<u32>,
    /// The token of each byte, or `NONE`.
    bytes: [TokenId; 256],
    /// Bytes of the longest piece.
    longest: usize,
    /// A text starts with a space that is not written.
    pub space_before: bool,
}

impl Pieces {
    /// Checks the scores.
    pub(super) fn build(spec: &VocabSpec, vocab: &Vocab) -> Result<Self, TokenizerError> {
        let scores = spec.scores.as_deref().filter(|scores| !scores.is_empty());
        let scores = scores.ok_or(TokenizerError::MissingList { key: "tokenizer.ggml.scores" })?;
        if scores.len() != vocab.len() {
            return Err(TokenizerError::ScoresLength { tokens: vocab.len(), scores: scores.len() });
        }
        if let Some(id) = scores.iter().position(|score| score.is_nan()) {
            // Ids fit 31 bits.
            return Err(TokenizerError::Score { id: id as TokenId });
        }
        let mut bytes = [NONE; 256];
        for id in (0..).take(vocab.len()).filter(|&id| vocab.kind(id) == Some(TokenKind::Byte)) {
            if let [byte] = *vocab.bytes(id) {
                bytes[usize::from(byte)] = id;
            }
        }
        for (byte, token) in (0..=255u8).zip(&mut bytes) {
            if *token == NONE {
                *token = vocab.find(&[byte]).unwrap_or(NONE);
            }
        }
        let longest = (0..).take(vocab.len()).map(|id| vocab.text(id).len()).max().unwrap_or(0);
        let ranks = scores.iter().map(|score| rank(*score)).collect();
        Ok(Self { ranks, bytes, longest, space_before: spec.add_space_prefix.unwrap_or(true) })
    }

    /// Bytes that no token stands for; characters with one of them that are no piece lose it in encoding.
    pub(super) fn missing_bytes(&self) -> Vec<u8> {
        (0..=255u8).filter(|&byte| self.bytes[usize::from(byte)] == NONE).collect()
    }

    /// Appends the tokens of a text; false when a byte had no token and was left out.
    pub(super) fn encode(
        &self,
        vocab: &Vocab,
        text: &str,
        scratch: &mut Scratch,
        out: &mut Vec<TokenId>,
    ) -> bool {
        let written = text.replace(' ', SPACE);
        let mut rest = written.as_str();
        let mut whole = true;
        while !rest.is_empty() {
            let (piece, later) = rest.split_at(rest.floor_char_boundary(LONGEST));
            rest = later;
            let character = |(at, c): (usize, char)| {
                let len = c.len_utf8();
                (vocab.find(&piece.as_bytes()[at..at + len]).unwrap_or(NONE), len)
            };
            let join = |left: &Symbol, right: &Symbol| {
                let text = &piece.as_bytes()[left.start as usize..right.end()];
                let token = if text.len() > self.longest { None } else { vocab.find(text) }?;
                Some(Join { rank: self.ranks[token as usize], token })
            };
            for symbol in scratch.merge(piece.char_indices().map(character), join) {
                if symbol.token != NONE {
                    out.push(symbol.token);
                    continue;
                }
                for byte in &piece.as_bytes()[symbol.start as usize..symbol.end()] {
                    match self.bytes[usize::from(*byte)] {
                        NONE => whole = false,
                        token => out.push(token),
                    }
                }
            }
        }
        whole
    }
}

/// A score's place in the order from the highest to the lowest; both zeros have the same.
fn rank(score: f32) -> u32 {
    let bits = (score + 0.0).to_bits();
    let ascending = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    !ascending
}

#[cfg(test)]
mod tests {
    use super::rank;

    #[test]
    fn ranks_fall_from_the_highest_score() {
        let scores = [f32::INFINITY, 3.5, 1e-30, 0.0, -1e-30, -2.0, -31_739.0, f32::NEG_INFINITY];
        assert!(scores.windows(2).all(|pair| rank(pair[0]) < rank(pair[1])));
        assert_eq!(rank(0.0), rank(-0.0));
    }
}
