//! Planes: every bit of a block has one place, packing is undone, and a device's copy is hardly larger than the file's.
//! Where blocks are coded anew, what they decode to is kept.

use kiln_kernels::conformance::Random;
use kiln_kernels::{FormatRow, Registry};

/// The bits of what blocks decode to.
fn decoded(row: &FormatRow, blocks: &[u8]) -> Vec<u32> {
    let n_elems = blocks.len() / row.geometry.bytes() as usize * row.geometry.elements() as usize;
    let mut values = vec![0.0; n_elems];
    row.dequantize(blocks, &mut values).expect("whole blocks");
    values.iter().map(|v: &f32| v.to_bits()).collect()
}

fn bytes_of_a_row(row: &FormatRow) -> usize {
    let n_elems = row.row_multiple.max(row.geometry.elements());
    (n_elems / row.geometry.elements() * row.geometry.bytes()) as usize
}

#[test]
fn packing_is_undone_bit_for_bit() {
    for row in Registry::builtin().formats() {
        let n_elems = row.row_multiple.max(row.geometry.elements()) as usize * 5;
        let bytes = Random::new(row.id.into())
            .bytes(n_elems / row.geometry.elements() as usize * row.geometry.bytes() as usize);
        let planes = (row.pack)(&bytes);
        assert_eq!(planes.len() as u64, (row.device_bytes)(n_elems as u64), "{}", row.name);
        let blocks = (row.unpack)(&planes, n_elems / row.geometry.elements() as usize);
        if row.recoded {
            assert_eq!(decoded(row, &blocks), decoded(row, &bytes), "{}", row.name);
            assert_eq!((row.pack)(&blocks), planes, "{}", row.name);
        } else {
            assert_eq!(blocks, bytes, "{}", row.name);
        }
    }
}

#[test]
fn a_changed_bit_is_seen() {
    for row in Registry::builtin().formats().filter(|row| !row.recoded) {
        let mut bytes = vec![0; bytes_of_a_row(row)];
        let zero = (row.pack)(&bytes);
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let planes = (row.pack)(&bytes);
            let differing: u32 = planes.iter().zip(&zero).map(|(a, b)| (a ^ b).count_ones()).sum();
            assert_eq!(differing, 1, "{}: bit {bit}", row.name);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

/// Of blocks coded anew, for the bits of a file's block may mask each other: a scale of zero hides every digit.
#[test]
fn a_changed_value_is_seen() {
    for row in Registry::builtin().formats().filter(|row| row.recoded) {
        let mut seen = vec![false; bytes_of_a_row(row) * 8];
        for seed in 0..8 {
            let mut bytes = Random::new(seed).bytes(bytes_of_a_row(row));
            let (planes, values) = ((row.pack)(&bytes), decoded(row, &bytes));
            for (bit, seen) in seen.iter_mut().enumerate() {
                bytes[bit / 8] ^= 1 << (bit % 8);
                if decoded(row, &bytes) != values {
                    assert_ne!((row.pack)(&bytes), planes, "{}: bit {bit} of block {seed}", row.name);
                    *seen = true;
                }
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
        let (n_seen, n) = (seen.iter().filter(|seen| **seen).count(), seen.len());
        assert!(n_seen > n / 2, "{}: {n_seen} of {n} bits ever changed a value", row.name);
    }
}

#[test]
fn a_device_copy_is_at_most_a_twentieth_larger() {
    for row in Registry::builtin().formats() {
        // A matrix of 2048 x 4096.
        let n_elems = 2048 * 4096u64;
        let file = n_elems / u64::from(row.geometry.elements()) * u64::from(row.geometry.bytes());
        let device = (row.device_bytes)(n_elems);
        assert!(
            device >= file && device as f64 <= file as f64 * 1.05,
            "{}: {file} becomes {device}",
            row.name
        );
    }
}
