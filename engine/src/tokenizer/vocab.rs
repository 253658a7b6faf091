//! The checked vocabulary of a file: the bytes and the kind of every token, and the way back from bytes to an id.

use super::index::Index;
use super::{TokenId, TokenizerError, bytes};
use crate::gguf::Metadata;

/// A file's tokenizer as its metadata says it, unchecked. Texts are borrowed from the file.
#[derive(Clone, Debug, Default)]
pub struct VocabSpec<'a> {
    /// `tokenizer.ggml.model`
    pub model: Option<&'a str>,
    /// `tokenizer.ggml.pre`
    pub pre: Option<&'a str>,
    /// `tokenizer.ggml.tokens`, the texts by id
    pub tokens: Vec<&'a str>,
    /// `tokenizer.ggml.token_type`, one for each token
    pub token_types: Option<Vec<i32>>,
    /// `tokenizer.ggml.scores`, one for each token
    pub scores: Option<Vec<f32>>,
    /// `tokenizer.ggml.merges`, the best first
    pub merges: Vec<&'a str>,
    /// `tokenizer.ggml.bos_token_id`
    pub bos: Option<u32>,
    /// `tokenizer.ggml.eos_token_id`
    pub eos: Option<u32>,
    /// `tokenizer.ggml.eot_token_id`
    pub eot: Option<u32>,
    /// `tokenizer.ggml.eom_token_id`
    pub eom: Option<u32>,
    /// `tokenizer.ggml.add_bos_token`
    pub add_bos: Option<bool>,
    /// `tokenizer.ggml.add_eos_token`
    pub add_eos: Option<bool>,
    /// `tokenizer.ggml.add_space_prefix`
    pub add_space_prefix: Option<bool>,
}

impl<'a> VocabSpec<'a> {
    /// Reads a file's metadata; the lists only when the names alone do not rule the tokenizer out.
    ///
    /// # Errors
    /// What `check` says of the names, or `Metadata` when a key has a wrong type.
    pub(super) fn read(
        metadata: &Metadata<'a>,
        check: impl Fn(&Self) -> Result<(), TokenizerError>,
    ) -> Result<Self, TokenizerError> {
        let names = Self {
            model: metadata.opt_str("tokenizer.ggml.model")?,
            pre: metadata.opt_str("tokenizer.ggml.pre")?,
            ..Self::default()
        };
        check(&names)?;
        Ok(Self {
            tokens: metadata.opt_strings("tokenizer.ggml.tokens")?.unwrap_or_default(),
            token_types: metadata.opt_i32s("tokenizer.ggml.token_type")?,
            scores: metadata.opt_f32s("tokenizer.ggml.scores")?,
            merges: metadata.opt_strings("tokenizer.ggml.merges")?.unwrap_or_default(),
            bos: metadata.opt_u32("tokenizer.ggml.bos_token_id")?,
            eos: metadata.opt_u32("tokenizer.ggml.eos_token_id")?,
            eot: metadata.opt_u32("tokenizer.ggml.eot_token_id")?,
            eom: metadata.opt_u32("tokenizer.ggml.eom_token_id")?,
            add_bos: metadata.opt_bool("tokenizer.ggml.add_bos_token")?,
            add_eos: metadata.opt_bool("tokenizer.ggml.add_eos_token")?,
            add_space_prefix: metadata.opt_bool("tokenizer.ggml.add_space_prefix")?,
            ..names
        })
    }
}

/// GGUF's token types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// No type given, or 0.
    Undefined,
    /// Text, in the byte alphabet.
    Normal,
    /// Stands for what cannot be written.
    Unknown,
    /// Steers the model; its text is literal and is hidden from readers.
    Control,
    /// Literal text that is always one token.
    UserDefined,
    /// Never produced by merging rules of note, but decoded like text.
    Unused,
    /// One byte, written `<0xHH>`.
    Byte,
}

impl TokenKind {
    fn from_file(id: TokenId, found: i32) -> Result<Self, TokenizerError> {
        Ok(match found {
            0 => Self::Undefined,
            1 => Self::Normal,
            2 => Self::Unknown,
            3 => Self::Control,
            4 => Self::UserDefined,
            5 => Self::Unused,
            6 => Self::Byte,
            _ => return Err(TokenizerError::TokenType { id, found }),
        })
    }

    /// Its text is taken literally, not as the byte alphabet.
    pub(super) fn is_literal(self) -> bool {
        matches!(self, Self::Unknown | Self::Control | Self::UserDefined)
    }
}

/// How SentencePiece writes a space.
pub(super) const SPACE: &str = "▁";

/// How the texts of a file's tokens stand for bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alphabet {
    /// Every byte is a character of its own: GPT-2's alphabet.
    ByteLevel,
    /// Texts are UTF-8, a space is written `▁`, and some tokens are single bytes.
    Pieces,
}

/// Ids fit 31 bits, so that one value stays free for "no token".
const MOST_TOKENS: usize = i32::MAX as usize;

/// Every token's bytes and kind.
pub(super) struct Vocab {
    /// The bytes that tokens stand for.
    arena: Vec<u8>,
    ends: Vec<u32>,
    kinds: Vec<TokenKind>,
    /// Texts as they are looked up, where they are not the bytes.
    texts: Option<Texts>,
    index: Index,
}

/// One text after the other.
#[derive(Default)]
struct Texts {
    arena: Vec<u8>,
    ends: Vec<u32>,
}

impl Vocab {
    /// Checks tokens and types and decodes the texts.
    pub(super) fn build(spec: &VocabSpec, alphabet: Alphabet) -> Result<Self, TokenizerError> {
        let n = spec.tokens.len();
        let size: usize = spec.tokens.iter().map(|text| text.len()).sum();
        if n > MOST_TOKENS || u32::try_from(size).is_err() {
            return Err(TokenizerError::TooManyTokens { found: n, limit: MOST_TOKENS });
        }
        if let Some(types) = spec.token_types.as_ref().filter(|types| types.len() != n) {
            return Err(TokenizerError::TypesLength { tokens: n, types: types.len() });
        }
        let mut vocab = Self {
            arena: Vec::with_capacity(size),
            ends: Vec::with_capacity(n),
            kinds: Vec::with_capacity(n),
            texts: (alphabet == Alphabet::Pieces).then(Texts::default),
            index: Index::with_capacity(n),
        };
        for (id, text) in (0..).zip(&spec.tokens) {
            let kind = match &spec.token_types {
                Some(types) => TokenKind::from_file(id, types[id as usize])?,
                None => TokenKind::Normal,
            };
            vocab.push(id, text, kind)?;
        }
        Ok(vocab)
    }

    fn push(&mut self, id: TokenId, text: &str, kind: TokenKind) -> Result<(), TokenizerError> {
        let start = self.arena.len();
        let decoded = if kind == TokenKind::Byte {
            let hex =
                text.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>')).filter(|hex| hex.len() == 2);
            let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
            self.arena.push(byte.ok_or_else(|| TokenizerError::ByteToken { id, text: text.to_owned() })?);
            false
        } else if self.texts.is_some() {
            let plain = if kind.is_literal() { text.to_owned() } else { text.replace(SPACE, " ") };
            self.arena.extend_from_slice(plain.as_bytes());
            false
        } else {
            let decoded = !kind.is_literal() && bytes::decode_into(text, &mut self.arena);
            if !decoded {
                self.arena.extend_from_slice(text.as_bytes());
            }
            decoded
        };
        // The arena is no longer than the texts, whose sum fits.
        self.ends.push(self.arena.len() as u32);
        self.kinds.push(kind);
        // A byte-level word can only be a token whose text is written in the byte alphabet; a literal text is when it
        // is printable ASCII, which stands for itself.
        let reachable = match &mut self.texts {
            // Among pieces every text is looked up as it is written, those of control tokens and bytes too.
            Some(texts) => {
                texts.arena.extend_from_slice(text.as_bytes());
                texts.ends.push(texts.arena.len() as u32);
                !text.is_empty()
            }
            None => {
                let literal = kind.is_literal() && text.bytes().all(|byte| byte.is_ascii_graphic());
                (decoded || literal) && self.arena.len() > start
            }
        };
        if reachable {
            if let Some(first) = self.find(self.text(id)) {
                return Err(TokenizerError::DuplicateToken { first, second: id, text: text.to_owned() });
            }
            let key = match &self.texts {
                Some(texts) => slice(&texts.arena, &texts.ends, id),
                None => slice(&self.arena, &self.ends, id),
            };
            self.index.insert(id, key);
        }
        Ok(())
    }

    /// Number of tokens.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The bytes a token stands for; `id` is in range.
    pub(super) fn bytes(&self, id: TokenId) -> &[u8] {
        slice(&self.arena, &self.ends, id)
    }

    /// What a token is looked up by; `id` is in range.
    pub(super) fn text(&self, id: TokenId) -> &[u8] {
        match &self.texts {
            Some(texts) => slice(&texts.arena, &texts.ends, id),
            None => self.bytes(id),
        }
    }

    /// The kind of a token, if there is such a token.
    pub(super) fn kind(&self, id: TokenId) -> Option<TokenKind> {
        self.kinds.get(id as usize).copied()
    }

    /// Overrides the kind that the file gives; `id` is in range.
    pub(super) fn set_kind(&mut self, id: TokenId, kind: TokenKind) {
        self.kinds[id as usize] = kind;
    }

    /// The token with this text.
    pub(super) fn find(&self, text: &[u8]) -> Option<TokenId> {
        self.index.find(text, |id| self.text(id) == text)
    }
}

fn slice<'a>(arena: &'a [u8], ends: &[u32], id: TokenId) -> &'a [u8] {
    let id = id as usize;
    let start = if id == 0 { 0 } else { ends[id - 1] };
    &arena[start as usize..ends[id] as usize]
}
