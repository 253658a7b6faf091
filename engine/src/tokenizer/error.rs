//! Why a file's tokenizer cannot be used, or a token cannot be turned into text.

use crate::gguf::{GgufError, quoted};

/// What stands between a file and its text. Only commands that read or write text need a tokenizer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// The file holds no tokenizer.
    #[error(
        "the file has no tokenizer (tokenizer.ggml.model is {}); give token ids instead of text",
        found.as_deref().map_or_else(|| "absent".to_owned(), quoted)
    )]
    Absent {
        /// The value of `tokenizer.ggml.model`, if there is one.
        found: Option<String>,
    },
    /// A tokenizer of another kind.
    #[error("tokenizer model {} is not supported; known: {}", quoted(found), known.join(", "))]
    UnknownModel {
        /// The value of `tokenizer.ggml.model`.
        found: String,
        /// The kinds there are.
        known: Vec<&'static str>,
    },
    /// The file does not name its pre-tokenizer; guessing would give other ids than the model was trained on.
    #[error("the file does not name its pre-tokenizer (tokenizer.ggml.pre); convert the model again. Known: {}", known.join(", "))]
    MissingPre {
        /// The names there are.
        known: Vec<&'static str>,
    },
    /// A pre-tokenizer we do not have.
    #[error("pre-tokenizer {} is not supported; known: {}", quoted(found), known.join(", "))]
    UnknownPre {
        /// The value of `tokenizer.ggml.pre`.
        found: String,
        /// The names there are.
        known: Vec<&'static str>,
    },
    /// A key of the tokenizer has a wrong type.
    #[error(transparent)]
    Metadata(#[from] GgufError),
    /// A list that the tokenizer needs is missing or empty.
    #[error("{key} is missing or empty; the file's tokenizer is incomplete")]
    MissingList {
        /// The metadata key.
        key: &'static str,
    },
    /// More tokens than ids.
    #[error("{found} tokens are too many, expected at most {limit}")]
    TooManyTokens {
        /// Number of tokens.
        found: usize,
        /// The most there can be.
        limit: usize,
    },
    /// The list of token types does not fit the list of tokens.
    #[error("tokenizer.ggml.token_type has {types} entries for {tokens} tokens")]
    TypesLength {
        /// Number of tokens.
        tokens: usize,
        /// Number of types.
        types: usize,
    },
    /// The list of scores does not fit the list of tokens.
    #[error("tokenizer.ggml.scores has {scores} entries for {tokens} tokens")]
    ScoresLength {
        /// Number of tokens.
        tokens: usize,
        /// Number of scores.
        scores: usize,
    },
    /// A score that has no place in an order.
    #[error("the score of token {id} is not a number")]
    Score {
        /// Which token.
        id: u32,
    },
    /// A token type outside GGUF's.
    #[error("token {id} has type {found}, expected 0 to 6")]
    TokenType {
        /// Which token.
        id: u32,
        /// The type in the file.
        found: i32,
    },
    /// A token of type byte whose text is not `<0xHH>`.
    #[error("token {id} is of type byte but its text is {}, expected <0x00> to <0xFF>", quoted(text))]
    ByteToken {
        /// Which token.
        id: u32,
        /// Its text.
        text: String,
    },
    /// Two tokens with one text.
    #[error("tokens {first} and {second} have the same text {}", quoted(text))]
    DuplicateToken {
        /// The lower id.
        first: u32,
        /// The higher id.
        second: u32,
        /// Their text.
        text: String,
    },
    /// A merge rule that is not two known tokens which together make a third.
    #[error(
        "merge {index} {} is not two tokens of this file that join to a third: {} is none",
        quoted(merge),
        quoted(part)
    )]
    Merge {
        /// Place in `tokenizer.ggml.merges`.
        index: usize,
        /// The rule.
        merge: String,
        /// The text that is not a token.
        part: String,
    },
    /// A special token's id is outside the vocabulary.
    #[error("{key} is {id}, but the file has {n_tokens} tokens")]
    SpecialId {
        /// The metadata key.
        key: &'static str,
        /// Its value.
        id: u32,
        /// Number of tokens.
        n_tokens: usize,
    },
    /// A token must be added that the file does not name.
    #[error("the file asks for {key} to be added to every prompt but does not say which token that is")]
    MissingSpecial {
        /// The metadata key that is missing.
        key: &'static str,
    },
    /// An id without a token, on the way back to text.
    #[error("token id {id} is out of range, the file has {n_tokens} tokens")]
    UnknownId {
        /// The id.
        id: u32,
        /// Number of tokens.
        n_tokens: usize,
    },
}
