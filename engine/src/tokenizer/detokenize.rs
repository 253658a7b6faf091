//! From ids back to text, a token at a time, without ever giving out half a character.

use super::vocab::TokenKind;
use super::{TokenId, Tokenizer, TokenizerError};

/// What a reader sees of control tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ControlText {
    /// Nothing.
    #[default]
    Hidden,
    /// Their literal text, such as `<|im_end|>`.
    Shown,
}

/// Turns a stream of tokens into text. A character may be spread over several tokens, so bytes are held back until it is
/// whole; bytes that can never become a character come out as U+FFFD.
#[derive(Clone, Debug, Default)]
pub struct Detokenizer {
    held: Vec<u8>,
    control: ControlText,
}

impl Detokenizer {
    /// A stream at its start.
    pub fn new(control: ControlText) -> Self {
        Self { held: Vec::new(), control }
    }

    /// Takes one token and returns the characters that are whole now.
    ///
    /// # Errors
    /// `UnknownId` when the vocabulary has no such token; the stream is as before.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: TokenId) -> Result<String, TokenizerError> {
        let hidden = match tokenizer.kind(id)? {
            TokenKind::Control | TokenKind::Unknown => self.control == ControlText::Hidden,
            _ => false,
        };
        if !hidden {
            self.held.extend_from_slice(tokenizer.bytes(id)?);
        }
        let whole = self.held.len() - unfinished(&self.held);
        let text = String::from_utf8_lossy(&self.held[..whole]).into_owned();
        self.held.drain(..whole);
        Ok(text)
    }

    /// Ends the stream: what is still held back was no character.
    pub fn finish(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.held).into_owned();
        self.held.clear();
        text
    }
}

/// Number of bytes at the end that start a character and could still become one.
fn unfinished(bytes: &[u8]) -> usize {
    let longest = bytes.len().min(3);
    (1..=longest)
        .find(|&n| {
            let tail = &bytes[bytes.len() - n..];
            // An error without a length means that the bytes end too early, not that they are wrong.
            matches!(std::str::from_utf8(tail), Err(error) if error.valid_up_to() == 0 && error.error_len().is_none())
        })
        .unwrap_or(0)
}
