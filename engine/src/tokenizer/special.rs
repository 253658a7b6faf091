//! Tokens that are matched as literal text before anything else, and those that end a generation.

use std::cmp::Reverse;

use super::vocab::{TokenKind, Vocab};
use super::{SpecialText, TokenId};

/// Tokens that end a turn or a text whatever the file calls them.
const ENDS: &[&str] = &[
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
];

/// Fill-in-the-middle tokens after which a text would only wander off; they end it too.
const FILL_ENDS: &[&str] = &[
    "<|fim_pad|>",
    "<fim-pad>",
    "<fim_pad>",
    "<PAD>",
    "[PAD]",
    "<|fim_repo|>",
    "<|repo_name|>",
    "<fim-repo>",
    "<REPO>",
    "<reponame>",
    "<|file_sep|>",
];

/// Fill-in-the-middle tokens that steer the model.
const FILL: &[&str] = &[
    "<|fim_prefix|>",
    "<fim-prefix>",
    "<fim_prefix>",
    "<｜fim▁begin｜>",
    "<PRE>",
    "▁<PRE>",
    "<|code_prefix|>",
    "<|prefix|>",
    "<|fim_suffix|>",
    "<fim-suffix>",
    "<fim_suffix>",
    "<｜fim▁hole｜>",
    "<SUF>",
    "▁<SUF>",
    "<|code_suffix|>",
    "<|suffix|>",
    "<|fim_middle|>",
    "<fim-middle>",
    "<fim_middle>",
    "<｜fim▁end｜>",
    "<MID>",
    "▁<MID>",
    "<|code_middle|>",
    "<|middle|>",
];

/// Gives tokens with well-known texts the kind control, which some files forget, and returns those that end a generation.
pub(super) fn classify(texts: &[&str], vocab: &mut Vocab) -> Vec<TokenId> {
    let mut ends = Vec::new();
    for (id, text) in (0..).zip(texts) {
        let end = ENDS.contains(text) || FILL_ENDS.contains(text);
        if end || FILL.contains(text) {
            vocab.set_kind(id, TokenKind::Control);
        }
        if end {
            ends.push(id);
        }
    }
    ends
}

/// A piece of a text after the literal tokens are taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fragment<'a> {
    /// Text still to be tokenized, and the byte that it starts at.
    Text(usize, &'a str),
    /// A literal token.
    Token(TokenId),
}

/// The literal tokens of a vocabulary. Their texts stay there.
pub(super) struct Literals {
    /// The longest first; of equal length the lower id first.
    tokens: Vec<TokenId>,
    /// Places in `tokens`, by text: what a text may hold is found by narrowing a range of these.
    by_text: Vec<usize>,
}

impl Literals {
    /// Collects them by kind.
    pub(super) fn build(vocab: &Vocab) -> Self {
        let ids = (0..).take(vocab.len());
        let mut tokens: Vec<TokenId> = ids
            .filter(|&id| vocab.kind(id).is_some_and(TokenKind::is_literal) && !vocab.bytes(id).is_empty())
            .collect();
        tokens.sort_by_key(|&id| (Reverse(vocab.bytes(id).len()), id));
        let mut by_text: Vec<usize> = (0..tokens.len()).collect();
        by_text.sort_by_key(|&at| vocab.bytes(tokens[at]));
        Self { tokens, by_text }
    }

    /// Cuts a text at its literal tokens. The longest token takes all its places first, from the left, then the next:
    /// the order of length, not of place, decides between tokens that overlap.
    pub(super) fn split<'a>(
        &self,
        vocab: &Vocab,
        text: &'a str,
        special: SpecialText<'_>,
    ) -> Vec<Fragment<'a>> {
        let mut fragments = vec![Fragment::Text(0, text)];
        for at in self.present(vocab, text.as_bytes()) {
            let id = self.tokens[at];
            let plain = match (special, is_control(vocab, id)) {
                (SpecialText::Parse, _) | (_, false) => &[],
                (SpecialText::ParseBut(plain), true) => plain,
                (SpecialText::Plain, true) => continue,
            };
            let Ok(literal) = std::str::from_utf8(vocab.bytes(id)) else { continue };
            fragments = fragments
                .into_iter()
                .flat_map(|fragment| match fragment {
                    Fragment::Text(at, text) if text.contains(literal) => cut(at, text, literal, id, plain),
                    other => vec![other],
                })
                .collect();
        }
        fragments.retain(|fragment| !matches!(fragment, Fragment::Text(_, "")));
        fragments
    }

    /// Where the texts of control tokens start, ascending.
    pub(super) fn control_starts(&self, vocab: &Vocab, text: &str) -> Vec<usize> {
        let present = self.present(vocab, text.as_bytes()).into_iter().map(|at| self.tokens[at]);
        let literals = present.filter(|&id| is_control(vocab, id)).map(|id| vocab.bytes(id));
        let mut starts: Vec<usize> = literals
            .flat_map(|literal| (0..text.len()).filter(move |&at| text.as_bytes()[at..].starts_with(literal)))
            .filter(|&at| text.is_char_boundary(at))
            .collect();
        starts.sort_unstable();
        starts.dedup();
        starts
    }

    /// The tokens that occur somewhere in the text, as ascending places.
    fn present(&self, vocab: &Vocab, text: &[u8]) -> Vec<usize> {
        let literal = |at: usize| vocab.bytes(self.tokens[at]);
        let starting = |range: &[usize], depth: usize, byte: u8| {
            let low = range.partition_point(|&at| literal(at)[depth] < byte);
            let high = range.partition_point(|&at| literal(at)[depth] <= byte);
            (low, high)
        };
        let first: [(usize, usize); 256] = std::array::from_fn(|byte| starting(&self.by_text, 0, byte as u8));
        let mut seen = vec![false; self.tokens.len()];
        for (start, &byte) in text.iter().enumerate() {
            let (low, high) = first[usize::from(byte)];
            let mut range = &self.by_text[low..high];
            let mut depth = 1;
            while let [shortest, longer @ ..] = range {
                if literal(*shortest).len() == depth {
                    seen[*shortest] = true;
                    range = longer;
                    continue;
                }
                let Some(&byte) = text.get(start + depth) else { break };
                let (low, high) = starting(range, depth, byte);
                range = &range[low..high];
                depth += 1;
            }
        }
        (0..seen.len()).filter(|&at| seen[at]).collect()
    }
}

/// Whether a token's text is characters in a text whose control tokens are not parsed: only a user-defined one is not.
fn is_control(vocab: &Vocab, id: TokenId) -> bool {
    vocab.kind(id) != Some(TokenKind::UserDefined)
}

/// A text that starts at byte `at`, cut at a literal token but where that holds one of the bytes `plain`.
fn cut<'a>(at: usize, text: &'a str, literal: &str, id: TokenId, plain: &[usize]) -> Vec<Fragment<'a>> {
    let (mut out, mut done) = (Vec::new(), 0);
    for (found, _) in text.match_indices(literal) {
        let end = found + literal.len();
        let next = plain.partition_point(|&byte| byte < at + found);
        if plain.get(next).is_none_or(|&byte| byte >= at + end) {
            out.extend([Fragment::Text(at + done, &text[done..found]), Fragment::Token(id)]);
            done = end;
        }
    }
    out.push(Fragment::Text(at + done, &text[done..]));
    out
}
