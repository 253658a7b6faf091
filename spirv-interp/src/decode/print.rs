//! Lines to print: `NonSemantic.DebugPrintf` with `%u`, `%d` and `%f`.

use super::{
    error::{DecodeError, Decoded},
    lower::Lower,
    reader::Raw,
};
use crate::{
    number::Number,
    program::{Inst, Kind, Print},
};

impl Lower<'_> {
    pub(super) fn print(&mut self, raw: &Raw) -> Decoded<()> {
        let (word, ops) = (raw.word, self.g.words.operands(raw));
        let wrong = DecodeError::Malformed { word, what: "a line to print has other places than values" };
        let &[_, 1, line, ref ids @ ..] = ops else { return Err(wrong) };
        let missing = DecodeError::WrongId { word, id: line, expected: "a string" };
        let line = self.g.string(line).ok_or(missing)?;
        let Some((texts, forms)) = pieces(line).filter(|p| p.1.len() == ids.len()) else { return Err(wrong) };
        let mut values = Vec::new();
        for (&id, form) in ids.iter().zip(forms) {
            let fits: fn(Number) -> bool = match form {
                'u' => |d| d == Number::U32,
                'd' => |d| d == Number::I32,
                _ => |d| d == Number::F32,
            };
            values.push(self.scalar(word, id, fits)?);
        }
        let a = self.program.prints.len() as u32;
        self.program.prints.push(Print { texts, values });
        self.emit(Inst { kind: Kind::Print, ty: Number::U32, dst: 0, a, b: 0, c: 0, word })
    }
}

/// The texts around the places, and the letter of each place.
fn pieces(line: &str) -> Option<(Vec<String>, Vec<char>)> {
    let (mut texts, mut forms) = (vec![String::new()], Vec::new());
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            texts.last_mut()?.push(c);
            continue;
        }
        match rest.next()? {
            '%' => texts.last_mut()?.push('%'),
            form @ ('u' | 'd' | 'f') => {
                forms.push(form);
                texts.push(String::new());
            }
            _ => return None,
        }
    }
    Some((texts, forms))
}
