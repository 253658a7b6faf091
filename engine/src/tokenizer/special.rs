//! Tokens that are matched as literal text before anything else, and those that end a generation.

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
    /// Text still to be tokenized.
    Text(&'a str),
    /// A literal token.
    Token(TokenId),
}

/// The literal tokens of a vocabulary.
pub(super) struct Literals {
    /// The longest first; of equal length the lower id first.
    tokens: Vec<Literal>,
    trie: Trie,
}

struct Literal {
    id: TokenId,
    text: Box<str>,
    /// Matched even where control tokens are plain text.
    always: bool,
}

impl Literals {
    /// Collects them from texts and kinds.
    pub(super) fn build(texts: &[&str], vocab: &Vocab) -> Self {
        let mut tokens: Vec<Literal> = (0..)
            .zip(texts)
            .filter(|(_, text)| !text.is_empty())
            .filter_map(|(id, text)| {
                let always = match vocab.kind(id)? {
                    TokenKind::UserDefined => true,
                    TokenKind::Control | TokenKind::Unknown => false,
                    _ => return None,
                };
                Some(Literal { id, text: (*text).into(), always })
            })
            .collect();
        tokens.sort_by_key(|token| (std::cmp::Reverse(token.text.len()), token.id));
        let mut trie = Trie::default();
        for (at, token) in tokens.iter().enumerate() {
            trie.insert(token.text.as_bytes(), at);
        }
        Self { tokens, trie }
    }

    /// Cuts a text at its literal tokens. The longest token takes all its places first, from the left, then the next:
    /// the order of length, not of place, decides between tokens that overlap.
    pub(super) fn split<'a>(&self, text: &'a str, special: SpecialText) -> Vec<Fragment<'a>> {
        let mut fragments = vec![Fragment::Text(text)];
        for at in self.trie.present(text.as_bytes(), self.tokens.len()) {
            let token = &self.tokens[at];
            if !token.always && special == SpecialText::Plain {
                continue;
            }
            fragments = fragments
                .into_iter()
                .flat_map(|fragment| match fragment {
                    Fragment::Text(text) if text.contains(&*token.text) => cut(text, token),
                    other => vec![other],
                })
                .collect();
        }
        fragments.retain(|fragment| *fragment != Fragment::Text(""));
        fragments
    }
}

fn cut<'a>(text: &'a str, token: &Literal) -> Vec<Fragment<'a>> {
    let mut out = Vec::new();
    for (at, part) in text.split(&*token.text).enumerate() {
        if at > 0 {
            out.push(Fragment::Token(token.id));
        }
        out.push(Fragment::Text(part));
    }
    out
}

/// The literal texts as a tree of bytes, to see in one pass which of them a text holds at all.
#[derive(Default)]
struct Trie {
    nodes: Vec<Node>,
}

#[derive(Default)]
struct Node {
    next: Vec<(u8, usize)>,
    token: Option<usize>,
}

impl Trie {
    fn insert(&mut self, text: &[u8], token: usize) {
        if self.nodes.is_empty() {
            self.nodes.push(Node::default());
        }
        let mut node = 0;
        for &byte in text {
            node = match self.nodes[node].next.binary_search_by_key(&byte, |edge| edge.0) {
                Ok(at) => self.nodes[node].next[at].1,
                Err(at) => {
                    self.nodes.push(Node::default());
                    let new = self.nodes.len() - 1;
                    self.nodes[node].next.insert(at, (byte, new));
                    new
                }
            };
        }
        self.nodes[node].token.get_or_insert(token);
    }

    /// The tokens that occur somewhere in the text, in ascending order.
    fn present(&self, text: &[u8], n_tokens: usize) -> Vec<usize> {
        let mut seen = vec![false; n_tokens];
        if !self.nodes.is_empty() {
            for start in 0..text.len() {
                let mut node = 0;
                for byte in &text[start..] {
                    let Ok(at) = self.nodes[node].next.binary_search_by_key(byte, |edge| edge.0) else {
                        break;
                    };
                    node = self.nodes[node].next[at].1;
                    if let Some(token) = self.nodes[node].token {
                        seen[token] = true;
                    }
                }
            }
        }
        (0..n_tokens).filter(|&token| seen[token]).collect()
    }
}
