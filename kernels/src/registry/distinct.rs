//! Formats of one type id or name, found while the crate is built, with a sentence that names both.

/// A sentence of bytes, as long as there is room.
pub(super) struct Text {
    bytes: [u8; ROOM],
    len: usize,
}

const ROOM: usize = 200;

impl Text {
    const fn and(mut self, part: &str) -> Self {
        let (part, mut at) = (part.as_bytes(), 0);
        while at < part.len() && self.len < ROOM {
            self.bytes[self.len] = part[at];
            (self.len, at) = (self.len + 1, at + 1);
        }
        self
    }

    const fn and_number(self, n: u32) -> Self {
        let text = if n >= 10 { self.and_number(n / 10) } else { self };
        text.and(DIGITS.split_at((n % 10) as usize).1.split_at(1).0)
    }
}

const DIGITS: &str = "0123456789";

/// What is told of the first two formats, of type ids and names, that have one of these in common.
pub(super) const fn taken(formats: &[(u32, &str)]) -> Option<Text> {
    let mut second = 0;
    while second < formats.len() {
        let mut first = 0;
        while first < second {
            let ((id, name), (other_id, other)) = (formats[second], formats[first]);
            let text = Text { bytes: [0; ROOM], len: 0 }.and("formats ").and(other).and(" and ").and(name);
            if id == other_id {
                return Some(
                    text.and(" have the type id ")
                        .and_number(id)
                        .and("; one of them takes another `HostFormat::ID`"),
                );
            }
            if same(name, other) {
                return Some(
                    text.and(" have the type ids ")
                        .and_number(other_id)
                        .and(" and ")
                        .and_number(id)
                        .and(" and one name; one of them takes another `HostFormat::NAME`"),
                );
            }
            first += 1;
        }
        second += 1;
    }
    None
}

/// The sentence, if there is one.
pub(super) const fn text(taken: &Option<Text>) -> &str {
    let Some(text) = taken else { return "" };
    match str::from_utf8(text.bytes.split_at(text.len).0) {
        Ok(text) => text,
        Err(_) => "two formats have one type id or name",
    }
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b, mut at) = (a.as_bytes(), b.as_bytes(), 0);
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_formats_of_one_id_or_name_are_both_named() {
        let said = |formats: &[(u32, &str)]| text(&taken(formats)).to_owned();
        assert_eq!(said(&[(0, "F32"), (133, "Q6_0"), (2, "Q6_00")]), "");
        assert_eq!(
            said(&[(0, "F32"), (133, "Q6_0"), (133, "Q7_X")]),
            "formats Q6_0 and Q7_X have the type id 133; one of them takes another `HostFormat::ID`"
        );
        assert_eq!(
            said(&[(0, "F32"), (u32::MAX, "F32")]),
            "formats F32 and F32 have the type ids 0 and 4294967295 and one name; one of them takes another \
             `HostFormat::NAME`"
        );
    }
}
