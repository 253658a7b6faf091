//! What a format's host side promises, beside its kernels: its layout on a device.

use std::fmt;

use super::Random;
use crate::FormatRow;

/// What a device's copy may be larger than the file's bytes by.
const LARGER: f64 = 0.05;
/// Elements of a matrix that are many for any format.
const MANY: u64 = 2048 * 4096;

/// Checks a format's layout: each bit of a block has one place, packing is undone, a device's copy is at most 5 % larger
/// than the file's, and no element has an offset where kernels leave it out. What it decodes to, and its offsets, are held
/// against its kernels by the cases of its variants.
///
/// # Errors
/// The first promise that it does not keep, with where.
pub fn check_format(row: &FormatRow) -> Result<(), String> {
    (row.layout)().map_err(|e| e.to_string())?;
    packing_is_undone(row)?;
    if row.recoded {
        changed_values_are_seen(row)?
    }
    size_is_near(row)?;
    offsets_are_told(row)
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
        return same("byte", "packed and unpacked", row.geometry.bytes(), &blocks, &bytes);
    }
    let (back, there) = (decoded(row, &blocks)?, decoded(row, &bytes)?);
    same("the bits of element", "packed and unpacked", row.geometry.elements(), &back, &there)?;
    if (row.pack)(&blocks) == planes {
        return Ok(());
    }
    Err("`code` of what `restore` gives is another block, so that one is not the inverse of the other"
        .to_owned())
}

/// Where parts of blocks differ first, each with so many.
fn same<T: PartialEq + fmt::LowerHex>(
    part: &str,
    how: &str,
    each: u32,
    found: &[T],
    expected: &[T],
) -> Result<(), String> {
    let each = each as usize;
    if found.len() != expected.len() {
        let [found, expected] = [found, expected].map(|all| all.len() / each);
        return Err(format!("{expected} blocks are {found} when {how}"));
    }
    let Some(at) = found.iter().zip(expected).position(|(a, b)| a != b) else { return Ok(()) };
    let (found, expected, of, block) = (&found[at], &expected[at], at % each, at / each);
    Err(format!("{part} {of} of block {block} is {found:#x} when {how}, expected {expected:#x}"))
}

/// Each bit of a block that is coded anew has one place, or hides behind others as every digit does behind a scale of zero.
fn changed_values_are_seen(row: &FormatRow) -> Result<(), String> {
    let mut seen = vec![false; bytes_of(row, least(row)) * 8];
    for seed in 0..8 {
        let mut bytes = Random::new(seed).bytes(seen.len() / 8);
        let (planes, values) = ((row.pack)(&bytes), decoded(row, &bytes)?);
        for (bit, seen) in seen.iter_mut().enumerate() {
            bytes[bit / 8] ^= 1 << (bit % 8);
            if decoded(row, &bytes)? != values {
                if (row.pack)(&bytes) == planes {
                    let (bit, byte) = (bit % 8, bit / 8 % row.geometry.bytes() as usize);
                    return Err(format!(
                        "bit {bit} of byte {byte} of a block changes a value and not what `code` gives"
                    ));
                }
                *seen = true;
            }
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
    let (n_seen, n) = (seen.iter().filter(|seen| **seen).count(), seen.len());
    if n_seen > n / 2 {
        return Ok(());
    }
    Err(format!("of the {n} bits of a block only {n_seen} ever change a value that `dequantize` gives"))
}

fn size_is_near(row: &FormatRow) -> Result<(), String> {
    let file = bytes_of(row, MANY as usize) as u64;
    let device = (row.device_bytes)(MANY);
    let most = (file as f64 * (1.0 + LARGER)) as u64;
    if (file..=most).contains(&device) {
        return Ok(());
    }
    Err(format!("{file} bytes of a file are {device} on a device, expected {file} to {most}, 5 % more"))
}

/// Kernels of a packed format add no offset unless it says that there is one.
fn offsets_are_told(row: &FormatRow) -> Result<(), String> {
    if !row.gemv.is_packed() || row.gemv.has_offsets() {
        return Ok(());
    }
    let blocks = Random::new(row.id.into()).bytes(bytes_of(row, 5 * least(row)));
    let offsets = (row.offsets)(&blocks);
    let Some(at) = offsets.iter().position(|v| v.is_finite() && *v != 0.0) else { return Ok(()) };
    let (of, offset) = (at % row.geometry.elements() as usize, offsets[at]);
    Err(format!(
        "`Format::offset` of element {of} of a block is {offset:?}, and `PackedFormat::OFFSET` is false, so that \
         `gemv_dot4` would leave it out: `OFFSET` is true where any element has an offset"
    ))
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

    fn named(name: &str) -> FormatRow {
        Registry::builtin().format_named(name).expect("a format").clone()
    }

    /// What is said of a format once it is changed.
    fn why(name: &str, change: fn(&mut FormatRow)) -> String {
        let mut row = named(name);
        change(&mut row);
        check_format(&row).expect_err("a broken promise")
    }

    #[test]
    fn broken_promises_are_seen() {
        let packed = why("Q4_K", |row| row.pack = |blocks| vec![0; blocks.len()]);
        assert!(packed.starts_with("planes of 1280 elements have 720 bytes, expected "), "{packed}");
        let larger = why("Q4_K", |row| row.device_bytes = |n| n * 144 / 256 + 16);
        assert!(larger.starts_with("planes of 1280 elements have "), "{larger}");
        let fewer = why("Q4_K", |row| row.unpack = |_, n| vec![0; 144 * (n - 1)]);
        assert_eq!(fewer, "5 blocks are 4 when packed and unpacked");
    }

    /// Of one format whose kernels have no offsets, and one whose have.
    #[test]
    fn an_offset_that_kernels_leave_out_is_seen() {
        let left_out = why("Q4_0", |row| row.gemv = named("Q8_0").gemv);
        assert!(left_out.starts_with("`Format::offset` of element 0 of a block is "), "{left_out}");
        fn last(blocks: &[u8]) -> Vec<f32> {
            (1..=blocks.len() / 34 * 32).map(|i| f32::from(u8::from(i % 32 == 0))).collect()
        }
        let one = why("Q8_0", |row| row.offsets = last);
        assert!(one.starts_with("`Format::offset` of element 31 of a block is 1.0, and "), "{one}");
        let mut told = named("Q8_0");
        (told.gemv, told.offsets) = (named("Q4_0").gemv, last);
        assert_eq!(check_format(&told), Ok(()));
    }

    /// By the block and its byte or element, not by the place among all blocks.
    #[test]
    fn what_packing_changes_is_named_in_its_block() {
        fn changed(name: &str, planes: &[u8], n_blocks: usize) -> Vec<u8> {
            let row = named(name);
            let mut blocks = (row.unpack)(planes, n_blocks);
            blocks[2 * row.geometry.bytes() as usize + 5] ^= 0x80;
            blocks
        }
        let byte = why("Q4_K", |row| row.unpack = |planes, n| changed("Q4_K", planes, n));
        assert!(byte.starts_with("byte 5 of block 2 is 0x") && byte.contains(" when packed and"), "{byte}");
        // Of a block that is coded anew, by what it decodes to: its five digits a byte are elements 5, 37, 69 and so on.
        let element = why("TQ1_0", |row| row.unpack = |planes, n| changed("TQ1_0", planes, n));
        assert!(element.starts_with("the bits of element 5 of block 2 is 0x"), "{element}");
    }
}
