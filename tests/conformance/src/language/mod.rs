//! Constructs of the kernel language, each in a kernel of its own, compared with the same code on the host.
//!
//! What the registered kernels use today is no measure: a construct works on every device or it is not there.

mod atomics;
mod choice;
mod exchange;
pub mod overlay;
mod rails;
mod views;

use std::fmt::Display;

use kiln_abi::{BufferRange, Device, Kernel, launch};

/// One kernel on one device: `Ok` where it gave what the host gave.
pub struct Case {
    /// The construct.
    pub name: &'static str,
    /// Launches it and compares.
    pub run: fn(&dyn Device) -> Result<(), String>,
}

/// Every construct's cases.
pub fn cases() -> Vec<Case> {
    [atomics::CASES, choice::CASES, exchange::CASES, overlay::CASES, rails::CASES, views::CASES]
        .concat()
        .into_iter()
        .map(|(name, run)| Case { name, run })
        .collect()
}

/// Runs every case on `device`: how many, and what failed.
pub fn run(device: &dyn Device) -> (usize, Vec<String>) {
    let cases = cases();
    let failures = cases.iter().filter_map(|c| Some(format!("{}: {}", c.name, (c.run)(device).err()?)));
    (cases.len(), failures.collect())
}

type Row = (&'static str, fn(&dyn Device) -> Result<(), String>);

/// Launches `kernel` over buffers of words; gives back what the last one holds.
fn words_of<K: Kernel>(
    device: &dyn Device,
    kernel: &K,
    buffers: &[&[u32]],
    args: impl Fn(&[BufferRange]) -> K::Args<'static>,
) -> Result<Vec<u32>, String> {
    let mut ranges = Vec::new();
    for words in buffers {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let buffer = device.allocate(bytes.len() as u64, "language").map_err(text)?;
        device.write(buffer, 0, &bytes).map_err(text)?;
        ranges.push(BufferRange { buffer, offset_bytes: 0, bytes: bytes.len() as u64 });
    }
    let launched = launch(device, kernel, &args(&ranges)).map_err(text);
    let mut out = vec![0; ranges.last().map_or(0, |r| r.bytes as usize)];
    let read = ranges.last().map_or(Ok(()), |r| device.read(r.buffer, 0, &mut out)).map_err(text);
    ranges.iter().for_each(|r| device.free(r.buffer));
    launched.and(read)?;
    Ok(out.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect())
}

fn text(e: impl Display) -> String {
    e.to_string()
}

/// Equal words, or the first that differs.
fn same(found: &[u32], expected: &[u32]) -> Result<(), String> {
    if found.len() != expected.len() {
        return Err(format!("expected {} words, found {}", expected.len(), found.len()));
    }
    match found.iter().zip(expected).position(|(f, e)| f != e) {
        Some(i) => Err(format!("word {i}: expected {:#x}, found {:#x}", expected[i], found[i])),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::same;

    #[test]
    fn one_false_word_is_caught() {
        assert_eq!(same(&[1, 2, 3], &[1, 2, 3]), Ok(()));
        assert_eq!(same(&[1, 2, 3], &[1, 6, 3]), Err("word 1: expected 0x6, found 0x2".to_owned()));
        assert!(same(&[1, 2], &[1, 2, 3]).is_err());
    }
}
