//! The byte alphabet of GPT-2: every byte written as one printable character, so that token texts are readable.

/// The character that stands for each byte: itself where it is printable, else the next free one from U+0100 on.
const fn characters() -> [char; 256] {
    let mut table = ['\0'; 256];
    let (mut byte, mut free) = (0u8, 0x100u32);
    loop {
        table[byte as usize] = match byte {
            b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => byte as char,
            _ => {
                free += 1;
                match char::from_u32(free - 1) {
                    Some(c) => c,
                    None => '\0',
                }
            }
        };
        if byte == 255 {
            return table;
        }
        byte += 1;
    }
}

static CHARACTERS: [char; 256] = characters();

/// The byte that a character of a token text stands for.
fn byte_of(c: char) -> Option<u8> {
    match c {
        '!'..='~' | '\u{a1}'..='\u{ac}' | '\u{ae}'..='\u{ff}' => u8::try_from(u32::from(c)).ok(),
        '\u{100}'..='\u{143}' => {
            let at = CHARACTERS.iter().position(|&x| x == c)?;
            u8::try_from(at).ok()
        }
        _ => None,
    }
}

/// Appends the bytes that a token text stands for; false, with `out` unchanged, when a character is outside the alphabet.
pub(super) fn decode_into(text: &str, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    for c in text.chars() {
        let Some(byte) = byte_of(c) else {
            out.truncate(start);
            return false;
        };
        out.push(byte);
    }
    true
}

/// Writes bytes in the alphabet, as a token text holds them.
pub fn encode(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| CHARACTERS[usize::from(byte)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_comes_back() {
        let all: Vec<u8> = (0..=255).collect();
        let text = encode(&all);
        let mut back = Vec::new();
        assert!(decode_into(&text, &mut back));
        assert_eq!(back, all);
        assert_eq!(encode(b" \n\tA"), "ĠĊĉA");
    }

    #[test]
    fn a_character_outside_is_refused_whole() {
        let mut out = vec![7];
        assert!(!decode_into("ab cd", &mut out));
        assert!(!decode_into("ab中", &mut out));
        assert_eq!(out, [7]);
    }
}
