//! What a format's host side promises, beside its kernels: its layout on a device.

use super::Random;
use crate::FormatRow;

/// What a device's copy may be larger than the file's bytes by.
const LARGER: f64 = 0.05;
/// Elements of a matrix that are many for any format.
const MANY: u64 = 2048 * 4096;

/// Checks a format's layout: packing is undone, each bit of a block counts, and a device's copy is at most 5 % larger than
/// the file's. What it decodes to, and its offsets, are held against its kernels by the cases of its variants.
///
/// # Errors
/// The first promise that it does not keep, with where.
pub fn check_format(row: &FormatRow) -> Result<(), String> {
    packing_is_undone(row)?;
    if row.recoded {
        changed_values_are_seen(row)?
    } else {
        changed_bits_are_seen(row)?
    }
    size_is_near(row)
}

/// The bits of what blocks decode to.
fn decoded(row: &FormatRow, blocks: &[u8]) -> Result<Vec<u32>, String> {
    Ok(values(row, blocks)?.iter().map(|v| v.to_bits()).collect())
}

fn values(row: &FormatRow, blocks: &[u8]) -> Result<Vec<f32>, String> {
    let n_elems = blocks.len() / row.geometry.bytes() as usize * row.geometry.elements() as usize;
    let mut values = vec![0.0; n_elems];
    row.dequantize(blocks, &mut values).map_err(|e| e.to_string())?;
    Ok(values)
}

/// Elements of the shortest row.
fn least(row: &FormatRow) -> usize {
    row.row_multiple.max(row.geometry.elements()) as usize
}

fn bytes_of(row: &FormatRow, n_elems: usize) -> usize {
    n_elems / row.geometry.elements() as usize * row.geometry.bytes() as usize
}

/// Where two differ first.
fn first_difference<T: PartialEq + std::fmt::Debug>(a: &[T], b: &[T]) -> Option<String> {
    if a.len() != b.len() {
        return Some(format!("{} elements, expected {}", a.len(), b.len()));
    }
    let at = a.iter().zip(b).position(|(a, b)| a != b)?;
    Some(format!("element {at} is {:?}, expected {:?}", a[at], b[at]))
}

fn told(what: &str, difference: Option<String>) -> Result<(), String> {
    difference.map_or(Ok(()), |difference| Err(format!("{what}: {difference}")))
}

/// `unpack` undoes `pack`; of a recoded format, but for what decodes alike.
fn packing_is_undone(row: &FormatRow) -> Result<(), String> {
    let n_elems = 5 * least(row);
    let bytes = Random::new(row.id.into()).bytes(bytes_of(row, n_elems));
    let planes = (row.pack)(&bytes);
    let expected = (row.device_bytes)(n_elems as u64);
    if planes.len() as u64 != expected {
        return Err(format!("planes of {n_elems} elements have {} bytes, expected {expected}", planes.len()));
    }
    let blocks = (row.unpack)(&planes, n_elems / row.geometry.elements() as usize);
    if !row.recoded {
        return told("blocks packed and unpacked", first_difference(&blocks, &bytes));
    }
    let (back, there) = (decoded(row, &blocks)?, decoded(row, &bytes)?);
    told("values of blocks packed and unpacked", first_difference(&back, &there))?;
    told("planes of blocks packed and unpacked", first_difference(&(row.pack)(&blocks), &planes))
}

/// Each bit of a block has one place.
fn changed_bits_are_seen(row: &FormatRow) -> Result<(), String> {
    let mut bytes = vec![0; bytes_of(row, least(row))];
    let zero = (row.pack)(&bytes);
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        let planes = (row.pack)(&bytes);
        let places: u32 = planes.iter().zip(&zero).map(|(a, b)| (a ^ b).count_ones()).sum();
        if places != 1 {
            return Err(format!("bit {bit} of a block has {places} places in its planes, expected 1"));
        }
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
    Ok(())
}

/// The same of blocks coded anew: the bits of a file's block may mask each other, as a scale of zero hides every digit.
fn changed_values_are_seen(row: &FormatRow) -> Result<(), String> {
    let mut seen = vec![false; bytes_of(row, least(row)) * 8];
    for seed in 0..8 {
        let mut bytes = Random::new(seed).bytes(seen.len() / 8);
        let (planes, values) = ((row.pack)(&bytes), decoded(row, &bytes)?);
        for (bit, seen) in seen.iter_mut().enumerate() {
            bytes[bit / 8] ^= 1 << (bit % 8);
            if decoded(row, &bytes)? != values {
                if (row.pack)(&bytes) == planes {
                    return Err(format!("bit {bit} of block {seed} changes a value and no plane"));
                }
                *seen = true;
            }
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
    let (n_seen, n) = (seen.iter().filter(|seen| **seen).count(), seen.len());
    if n_seen > n / 2 { Ok(()) } else { Err(format!("{n_seen} of {n} bits of a block ever change a value")) }
}

fn size_is_near(row: &FormatRow) -> Result<(), String> {
    let file = bytes_of(row, MANY as usize) as u64;
    let device = (row.device_bytes)(MANY);
    let most = (file as f64 * (1.0 + LARGER)) as u64;
    if (file..=most).contains(&device) {
        return Ok(());
    }
    Err(format!("{file} bytes of a file are {device} on a device, expected at most {most}, 5 % more"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Registry;

    #[test]
    fn every_format_keeps_its_promises() {
        for row in Registry::builtin().formats() {
            assert_eq!(check_format(row), Ok(()), "{}", row.name);
        }
    }

    #[test]
    fn broken_promises_are_seen() {
        let registry = Registry::builtin();
        let row = registry.format_named("Q4_K").expect("a format");
        let with = |change: fn(&mut FormatRow)| {
            let mut row = row.clone();
            change(&mut row);
            row
        };
        let broken = [
            (with(|row| row.unpack = |planes, n| vec![planes[0]; 144 * n]), "packed and unpacked"),
            (with(|row| row.pack = |blocks| vec![0; blocks.len()]), "planes of"),
            (with(|row| row.device_bytes = |n| n * 144 / 256 + 16), "planes of"),
        ];
        for (row, message) in broken {
            let why = check_format(&row).expect_err("a broken promise");
            assert!(why.contains(message), "{why}");
        }
    }
}
