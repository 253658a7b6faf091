//! Lines that a kernel prints.

use super::lanes::{Lanes, bits};
use crate::{number::Number, program::Print};

/// A kernel in a loop prints without end; more lines than anybody reads are dropped.
const MAX_LINES: usize = 1 << 16;

/// One line for each active lane.
pub(super) fn print(l: &Lanes, p: &Print, first: u32, ([x, y, z], lines): ([u32; 3], &mut Vec<String>)) {
    for k in bits(l.active) {
        if lines.len() >= MAX_LINES {
            return;
        }
        let mut line = format!("workgroup ({x}, {y}, {z}), invocation {}: ", first + k as u32);
        for (i, text) in p.texts.iter().enumerate() {
            line += text;
            let Some(&(slot, ty)) = p.values.get(i) else { continue };
            let bits = l.row(slot)[k];
            line += &match ty {
                _ if l.undefined[slot as usize] >> k & 1 != 0 => "(uninitialized)".to_owned(),
                Number::F32 => format!("{:?}", f32::from_bits(bits)),
                Number::I32 => bits.cast_signed().to_string(),
                _ => bits.to_string(),
            };
        }
        lines.push(line);
    }
}
