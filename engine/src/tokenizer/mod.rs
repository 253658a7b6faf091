//! Text to token ids and back, by the tokenizer that a GGUF file carries.

mod bpe;
mod bytes;
mod detokenize;
mod error;
mod index;
mod merge;
mod pieces;
mod pre;
mod special;
mod unicode;
mod unicode_ranges;
mod vocab;

use std::sync::atomic::{AtomicBool, Ordering};

pub use bytes::encode as byte_text;
pub use detokenize::{ControlText, Detokenizer};
pub use error::TokenizerError;
pub use vocab::{TokenKind, VocabSpec};

use bpe::Merges;
use merge::Scratch;
use pieces::Pieces;
use pre::PreTokenizer;
use special::{Fragment, Literals};
use vocab::{Alphabet, Vocab};

use crate::gguf::Gguf;

/// A token's place in the vocabulary.
pub type TokenId = u32;

/// The kinds of tokenizer we have, by `tokenizer.ggml.model`.
const MODELS: &[&str] = &[BYTE_PAIRS, PIECES];
const BYTE_PAIRS: &str = "gpt2";
const PIECES: &str = "llama";

/// Whether control tokens written out in a text, such as `<|im_end|>`, are those tokens or plain characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialText<'a> {
    /// They are the tokens; for texts that a template made.
    Parse,
    /// They are the tokens but where one of these bytes, ascending, is theirs; for texts that a template made of what
    /// strangers wrote.
    ParseBut(&'a [usize]),
    /// They are characters; for texts that a stranger wrote.
    Plain,
}

/// How a text between literal tokens becomes tokens.
enum Method {
    /// Cut into words, whose bytes are merged by rules.
    BytePairs { merges: Merges, pre: &'static PreTokenizer },
    /// Merged as a whole by scores.
    Pieces(Pieces),
}

/// A file's tokenizer: byte-level BPE or SentencePiece.
pub struct Tokenizer {
    vocab: Vocab,
    method: Method,
    literals: Literals,
    bos: Option<TokenId>,
    eos: Option<TokenId>,
    add_bos: bool,
    add_eos: bool,
    ends: Vec<TokenId>,
    warned: AtomicBool,
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer")
            .field("method", &self.method_name())
            .field("n_tokens", &self.vocab.len())
            .finish()
    }
}

impl Tokenizer {
    /// The tokenizer of a file.
    ///
    /// # Errors
    /// As `new`; a file without a tokenizer is `Absent`.
    pub fn from_gguf(gguf: &Gguf) -> Result<Self, TokenizerError> {
        Self::new(&VocabSpec::read(&gguf.metadata(), |names| kind(names).map(drop))?)
    }

    /// Checks a tokenizer and makes it ready.
    ///
    /// # Errors
    /// Every kind of `TokenizerError` but `UnknownId`; what is refused is decided before anything is built.
    pub fn new(spec: &VocabSpec) -> Result<Self, TokenizerError> {
        let pre = kind(spec)?;
        if spec.tokens.is_empty() {
            return Err(TokenizerError::MissingList { key: "tokenizer.ggml.tokens" });
        }
        if pre.is_some() && spec.merges.is_empty() {
            return Err(TokenizerError::MissingList { key: "tokenizer.ggml.merges" });
        }
        let n_tokens = spec.tokens.len();
        let named = [
            ("tokenizer.ggml.bos_token_id", spec.bos),
            ("tokenizer.ggml.eos_token_id", spec.eos),
            ("tokenizer.ggml.eot_token_id", spec.eot),
            ("tokenizer.ggml.eom_token_id", spec.eom),
        ];
        for (key, id) in named {
            if let Some(id) = id.filter(|&id| id as usize >= n_tokens) {
                return Err(TokenizerError::SpecialId { key, id, n_tokens });
            }
        }
        let add_bos = spec.add_bos.unwrap_or(pre.is_none_or(|pre| pre.add_bos));
        let add_eos = spec.add_eos.unwrap_or(false);
        for (added, key, id) in [(add_bos, named[0].0, spec.bos), (add_eos, named[1].0, spec.eos)] {
            if added && id.is_none() {
                return Err(TokenizerError::MissingSpecial { key });
            }
        }
        let alphabet = if pre.is_some() { Alphabet::ByteLevel } else { Alphabet::Pieces };
        let mut vocab = Vocab::build(spec, alphabet)?;
        let method = match pre {
            Some(pre) => Method::BytePairs { merges: Merges::build(&spec.merges, &vocab)?, pre },
            None => Method::Pieces(Pieces::build(spec, &vocab)?),
        };
        let mut ends = special::classify(&spec.tokens, &mut vocab);
        ends.extend([spec.eos, spec.eot, spec.eom].into_iter().flatten());
        ends.sort_unstable();
        ends.dedup();
        let literals = Literals::build(&vocab);
        Ok(Self {
            vocab,
            method,
            literals,
            bos: spec.bos,
            eos: spec.eos,
            add_bos,
            add_eos,
            ends,
            warned: AtomicBool::new(false),
        })
    }

    /// The ids of a text alone: nothing is put before or after it.
    pub fn encode(&self, text: &str, special: SpecialText<'_>) -> Vec<TokenId> {
        let mut out = Vec::new();
        let mut scratch = Scratch::default();
        let mut whole = true;
        // A literal token ends a text, and what follows it starts one.
        let mut at_start = true;
        for fragment in self.literals.split(&self.vocab, text, special) {
            match (fragment, &self.method) {
                (Fragment::Token(id), _) => out.push(id),
                (Fragment::Text(_, text), Method::BytePairs { merges, pre }) => {
                    (pre.split)(text, &mut |word| match self
                        .vocab
                        .find(word.as_bytes())
                        .filter(|_| pre.ignore_merges)
                    {
                        Some(id) => out.push(id),
                        None => whole &= merges.encode(word.as_bytes(), &mut scratch, &mut out),
                    });
                }
                (Fragment::Text(_, text), Method::Pieces(pieces)) => {
                    let space = if pieces.space_before && at_start { " " } else { "" };
                    let text = [space, text].concat();
                    whole &= pieces.encode(&self.vocab, &text, &mut scratch, &mut out);
                }
            }
            at_start = matches!(fragment, Fragment::Token(_));
        }
        if !whole && !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "the vocabulary has no token for some bytes of this text, they are left out (it lacks {:02x?})",
                self.missing_bytes()
            );
        }
        out
    }

    /// Where the texts of control tokens start in a text, in bytes, ascending.
    pub fn control_texts(&self, text: &str) -> Vec<usize> {
        self.literals.control_starts(&self.vocab, text)
    }

    /// The ids of a text with BOS before it and EOS after it where the file says so. A text that starts with BOS itself
    /// gets a second one; see [`Self::encode_prompt`].
    pub fn encode_framed(&self, text: &str, special: SpecialText<'_>) -> Vec<TokenId> {
        let mut ids: Vec<TokenId> = self.bos.filter(|_| self.add_bos).into_iter().collect();
        ids.append(&mut self.encode(text, special));
        ids.extend(self.eos.filter(|_| self.add_eos));
        ids
    }

    /// The ids of a prompt to be continued: exactly one BOS where the file asks for one, whatever a template wrote, and
    /// no EOS, after which nothing would follow.
    pub fn encode_prompt(&self, text: &str, special: SpecialText<'_>) -> Vec<TokenId> {
        let mut ids = self.encode(text, special);
        if let Some(bos) = self.bos.filter(|_| self.add_bos) {
            let written = ids.iter().take_while(|&&id| id == bos).count();
            ids.splice(..written, [bos]);
        }
        ids
    }

    /// The text of ids, control tokens hidden or shown; broken characters become U+FFFD.
    ///
    /// # Errors
    /// `UnknownId` for an id outside the vocabulary.
    pub fn decode(&self, ids: &[TokenId], control: ControlText) -> Result<String, TokenizerError> {
        let mut stream = Detokenizer::new(control);
        let mut text = String::new();
        for &id in ids {
            text += &stream.push(self, id)?;
        }
        text += &stream.finish();
        // The space that the encoding puts before a text.
        let put = matches!(&self.method, Method::Pieces(pieces) if pieces.space_before);
        let first = ids.first().and_then(|&id| self.vocab.kind(id));
        if put && first.is_some_and(|kind| !kind.is_literal()) && text.starts_with(' ') {
            text.remove(0);
        }
        Ok(text)
    }

    /// The bytes a token stands for; for a literal token its text.
    ///
    /// # Errors
    /// `UnknownId` for an id outside the vocabulary.
    pub fn bytes(&self, id: TokenId) -> Result<&[u8], TokenizerError> {
        self.kind(id).map(|_| self.vocab.bytes(id))
    }

    /// The kind of a token.
    ///
    /// # Errors
    /// `UnknownId` for an id outside the vocabulary.
    pub fn kind(&self, id: TokenId) -> Result<TokenKind, TokenizerError> {
        self.vocab.kind(id).ok_or(TokenizerError::UnknownId { id, n_tokens: self.vocab.len() })
    }

    /// Number of tokens. A model may have more rows than that; their ids have no text.
    pub fn n_tokens(&self) -> usize {
        self.vocab.len()
    }

    /// The token that starts a text, if the file names one.
    pub fn bos(&self) -> Option<TokenId> {
        self.bos
    }

    /// The token that ends a text, if the file names one.
    pub fn eos(&self) -> Option<TokenId> {
        self.eos
    }

    /// Whether a prompt starts with BOS: what the file says, or else the habit of its pre-tokenizer.
    pub fn add_bos(&self) -> bool {
        self.add_bos
    }

    /// Whether a token ends a generation.
    pub fn is_end(&self, id: TokenId) -> bool {
        self.ends.binary_search(&id).is_ok()
    }

    /// The tokens that end a generation, ascending.
    pub fn ends(&self) -> &[TokenId] {
        &self.ends
    }

    /// Bytes that no token of the vocabulary stands for. They are left out of every encoding.
    pub fn missing_bytes(&self) -> Vec<u8> {
        match &self.method {
            Method::BytePairs { merges, .. } => merges.missing_bytes(),
            Method::Pieces(pieces) => pieces.missing_bytes(),
        }
    }

    /// How it makes tokens: the name of its pre-tokenizer, or `SentencePiece`.
    pub fn method_name(&self) -> &'static str {
        match &self.method {
            Method::BytePairs { pre, .. } => pre.names[0],
            Method::Pieces(_) => "SentencePiece",
        }
    }
}

/// Decides whether we can read this file's text at all, from names alone; no pre-tokenizer means pieces.
fn kind(spec: &VocabSpec) -> Result<Option<&'static PreTokenizer>, TokenizerError> {
    match spec.model {
        None => return Err(TokenizerError::Absent { found: None }),
        Some(model @ ("none" | "no_vocab")) => {
            return Err(TokenizerError::Absent { found: Some(model.to_owned()) });
        }
        Some(PIECES) => return Ok(None),
        Some(BYTE_PAIRS) => {}
        Some(model) => {
            return Err(TokenizerError::UnknownModel { found: model.to_owned(), known: MODELS.to_vec() });
        }
    }
    let name = spec.pre.ok_or_else(|| TokenizerError::MissingPre { known: pre::names() })?;
    let unknown = || TokenizerError::UnknownPre { found: name.to_owned(), known: pre::names() };
    pre::find(name).map(Some).ok_or_else(unknown)
}
