//! The GPT-2 words: `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`.

use super::super::unicode::{Class, class};

/// Cuts a text by the pattern.
pub(super) fn split(mut text: &str, word: &mut dyn FnMut(&str)) {
    while !text.is_empty() {
        let (head, rest) = text.split_at(next(text));
        word(head);
        text = rest;
    }
}

/// Every number character is a word of its own; what lies between is cut as if it were a whole text.
pub(super) fn split_single_digits(text: &str, word: &mut dyn FnMut(&str)) {
    let mut from = 0;
    for (at, c) in text.char_indices().filter(|&(_, c)| class(c) == Class::Number) {
        split(&text[from..at], word);
        from = at + c.len_utf8();
        word(&text[at..from]);
    }
    split(&text[from..], word);
}

/// Classes a word can be made of: marks are neither letters nor numbers nor spaces.
fn kind(c: char) -> Class {
    match class(c) {
        Class::Mark => Class::Other,
        other => other,
    }
}

/// Length in bytes of the first word; `text` is not empty.
fn next(text: &str) -> usize {
    if let Some(length) = contraction(text) {
        return length;
    }
    let body = text.strip_prefix(' ').unwrap_or(text);
    if let Some(first) = body.chars().next().map(kind).filter(|&first| first != Class::Space) {
        let end = body.find(|c| kind(c) != first).unwrap_or(body.len());
        return text.len() - body.len() + end;
    }
    space_run(text)
}

/// `'s 't 're 've 'm 'll 'd` at the start of a text, lower case.
fn contraction(text: &str) -> Option<usize> {
    let rest = text.strip_prefix('\'')?;
    ["s", "t", "m", "d", "re", "ve", "ll"]
        .iter()
        .find(|&&tail| rest.starts_with(tail))
        .map(|tail| 1 + tail.len())
}

/// `\s+(?!\S)|\s+`: a run of spaces leaves its last one to the word that follows.
pub(super) fn space_run(text: &str) -> usize {
    match text.find(|c| class(c) != Class::Space) {
        None => text.len(),
        Some(end) => {
            let last = text[..end].chars().next_back().map_or(0, char::len_utf8);
            if end > last { end - last } else { end }
        }
    }
}
