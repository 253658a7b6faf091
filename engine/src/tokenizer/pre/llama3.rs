//! The Llama 3 words and their variants:
//! `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`.

use super::super::unicode::{Class, class};
use super::gpt2::space_run;

/// What the variants differ in.
#[derive(Clone, Copy)]
struct Rules {
    /// Longest number word, in characters.
    digits: usize,
    /// Combining marks belong to words of letters.
    marks: bool,
}

/// Numbers of up to three characters.
pub(super) fn split(text: &str, word: &mut dyn FnMut(&str)) {
    each(text, Rules { digits: 3, marks: false }, word);
}

/// Numbers one character at a time.
pub(super) fn split_single_digits(text: &str, word: &mut dyn FnMut(&str)) {
    each(text, Rules { digits: 1, marks: false }, word);
}

/// Numbers one character at a time, and `[\p{L}\p{M}]` wherever the pattern says `\p{L}`.
pub(super) fn split_with_marks(text: &str, word: &mut dyn FnMut(&str)) {
    each(text, Rules { digits: 1, marks: true }, word);
}

fn each(mut text: &str, rules: Rules, word: &mut dyn FnMut(&str)) {
    while !text.is_empty() {
        let (head, rest) = text.split_at(next(text, rules));
        word(head);
        text = rest;
    }
}

impl Rules {
    fn kind(self, c: char) -> Class {
        match class(c) {
            Class::Mark if self.marks => Class::Letter,
            Class::Mark => Class::Other,
            other => other,
        }
    }
}

/// Length in bytes of the first word; `text` is not empty.
fn next(text: &str, rules: Rules) -> usize {
    if let Some(length) = contraction(text) {
        return length;
    }
    let mut chars = text.chars();
    let Some(first) = chars.next() else { return 0 };
    let kind = rules.kind(first);

    // One character of any kind but a line end or a number may lead a word of letters.
    let led = chars.next().is_some_and(|c| rules.kind(c) == Class::Letter);
    if kind == Class::Letter || (led && kind != Class::Number && !line_end(first)) {
        let lead = first.len_utf8();
        return lead + run(&text[lead..], |c| rules.kind(c) == Class::Letter);
    }
    if kind == Class::Number {
        return text
            .char_indices()
            .take(rules.digits)
            .take_while(|&(_, c)| rules.kind(c) == Class::Number)
            .map(|(at, c)| at + c.len_utf8())
            .last()
            .unwrap_or(0);
    }
    let body = text.strip_prefix(' ').unwrap_or(text);
    let other = run(body, |c| rules.kind(c) == Class::Other);
    if other > 0 {
        return text.len() - body.len() + other + run(&body[other..], line_end);
    }
    let spaces = run(text, |c| class(c) == Class::Space);
    match text[..spaces].rfind(line_end) {
        Some(last) => last + 1,
        None => space_run(text),
    }
}

/// Length in bytes of the longest start whose characters all pass.
fn run(text: &str, mut pass: impl FnMut(char) -> bool) -> usize {
    text.find(|c| !pass(c)).unwrap_or(text.len())
}

fn line_end(c: char) -> bool {
    matches!(c, '\r' | '\n')
}

/// `'s 't 're 've 'm 'll 'd` at the start of a text, in either case.
fn contraction(text: &str) -> Option<usize> {
    let rest = text.strip_prefix('\'')?.as_bytes();
    let lower = |at: usize| rest.get(at).map(u8::to_ascii_lowercase);
    match (lower(0)?, lower(1)) {
        (b's' | b't' | b'm' | b'd', _) => Some(2),
        (b'r' | b'v', Some(b'e')) | (b'l', Some(b'l')) => Some(3),
        _ => None,
    }
}
