//! Which characters the pre-tokenizers call letters, numbers, marks and spaces.

use super::unicode_ranges::RUNS;

/// The classes a pre-tokenizer tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// `\p{L}`
    Letter,
    /// `\p{N}`
    Number,
    /// `\p{M}`
    Mark,
    /// `\s`
    Space,
    /// Punctuation, symbols, controls, unassigned and private code points.
    Other,
}

/// The class of one character.
pub(super) fn class(c: char) -> Class {
    if c.is_ascii() {
        return match c {
            'a'..='z' | 'A'..='Z' => Class::Letter,
            '0'..='9' => Class::Number,
            '\t'..='\r' | ' ' => Class::Space,
            _ => Class::Other,
        };
    }
    let code = u32::from(c);
    let after = RUNS.partition_point(|run| run >> 2 <= code);
    match RUNS[after - 1] & 3 {
        1 => Class::Letter,
        2 => Class::Number,
        3 => Class::Mark,
        // The property White_Space, which never changes for assigned characters.
        _ if c.is_whitespace() => Class::Space,
        _ => Class::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_run_starts_at_zero_and_runs_ascend() {
        assert_eq!(RUNS[0] >> 2, 0);
        assert!(RUNS.windows(2).all(|pair| pair[0] >> 2 < pair[1] >> 2));
    }

    #[test]
    fn one_of_each() {
        for (c, want) in [
            ('é', Class::Letter),
            ('ª', Class::Letter),
            ('中', Class::Letter),
            ('Ⅷ', Class::Number),
            ('²', Class::Number),
            ('٣', Class::Number),
            ('\u{301}', Class::Mark),
            ('\u{e31}', Class::Mark),
            ('\u{a0}', Class::Space),
            ('\u{3000}', Class::Space),
            ('\u{85}', Class::Space),
            ('\u{200b}', Class::Other),
            ('\u{e000}', Class::Other),
            ('\u{378}', Class::Other),
            ('\u{10ffff}', Class::Other),
            ('😀', Class::Other),
            // Assigned since 15.1 and 16.0: the table stays at the version the vectors use.
            ('\u{2ebf0}', Class::Letter),
            ('\u{a7da}', Class::Other),
        ] {
            assert_eq!(class(c), want, "{c:?}");
        }
    }
}
