//! Host decoding of every registered format against gguf-py, bit for bit; and proof that one wrong bit is seen.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kiln_kernels::{FormatRow, Registry};
use serde::Deserialize;

/// What `tests/vectors/formats/make_blocks.py` wrote.
#[derive(Deserialize)]
struct Vectors {
    name: String,
    type_id: u32,
    elements: u32,
    bytes: u32,
    rows: Vec<Row>,
}

/// Whole blocks and what they decode to.
#[derive(Deserialize)]
struct Row {
    blocks: String,
    crc32: String,
    values: Option<String>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/formats")
}

fn vectors(format: &FormatRow) -> Vectors {
    let path = folder().join(format!("{}.json", format.name.to_lowercase()));
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display())).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn from_hex(hex: &str) -> Vec<u8> {
    let digit = |c: u8| char::from(c).to_digit(16).unwrap() as u8;
    hex.as_bytes().chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// The CRC-32 of zlib: reflected polynomial edb88320.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

/// Little-endian bytes, with one NaN for all: which one a product keeps is the processor's choice.
fn value_bytes(values: &[f32]) -> Vec<u8> {
    let canonical = |v: &f32| if v.is_nan() { 0x7fc0_0000 } else { v.to_bits() };
    values.iter().flat_map(|v| canonical(v).to_le_bytes()).collect()
}

fn decoded(format: &FormatRow, row: &Row) -> Vec<f32> {
    let blocks = from_hex(&row.blocks);
    let n_blocks = blocks.len() / format.geometry.bytes() as usize;
    let mut values = vec![0.0; n_blocks * format.geometry.elements() as usize];
    format.dequantize(&blocks, &mut values).unwrap();
    values
}

fn agrees(row: &Row, values: &[f32]) -> bool {
    let found = value_bytes(values);
    let stored = row.values.as_ref().is_none_or(|expected| from_hex(expected) == found);
    stored && format!("{:08x}", crc32(&found)) == row.crc32
}

#[test]
fn crc32_is_zlibs() {
    assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
}

#[test]
fn each_format_has_vectors_and_each_vector_file_a_format() {
    let json = |path: PathBuf| {
        (path.extension()? == "json").then(|| Some(path.file_stem()?.to_str()?.to_owned()))?
    };
    let files: BTreeSet<String> =
        folder().read_dir().unwrap().filter_map(|entry| json(entry.unwrap().path())).collect();
    let registry = Registry::builtin();
    let formats: BTreeSet<String> = registry.formats().map(|row| row.name.to_lowercase()).collect();
    assert_eq!(files, formats);
}

#[test]
fn names_ids_and_blocks_are_ggmls() {
    for format in Registry::builtin().formats() {
        let v = vectors(format);
        let geometry = (format.geometry.elements(), format.geometry.bytes());
        assert_eq!((format.name, format.id, geometry), (v.name.as_str(), v.type_id, (v.elements, v.bytes)));
        assert!(v.rows.len() >= 200, "{}", v.name);
    }
}

#[test]
fn every_format_decodes_as_gguf_py_does() {
    for format in Registry::builtin().formats() {
        for (at, row) in vectors(format).rows.iter().enumerate() {
            let values = decoded(format, row);
            assert!(agrees(row, &values), "{} row {at}, blocks {}: {values:?}", format.name, row.blocks);
        }
    }
}

/// The comparison above can fail: one bit of any one element is seen in every row.
#[test]
fn one_wrong_bit_is_seen() {
    for format in Registry::builtin().formats() {
        let mut falsified = 0;
        for row in &vectors(format).rows {
            let mut values = decoded(format, row);
            // A prime stride reaches every place in a block over the rows, at a fraction of the time.
            for at in (0..values.len()).step_by(if values.len() > 64 { 37 } else { 1 }) {
                let right = values[at];
                if right.is_nan() {
                    continue;
                }
                values[at] = f32::from_bits(right.to_bits() ^ 1);
                assert!(!agrees(row, &values), "{}: element {at} of {}", format.name, row.blocks);
                values[at] = right;
                falsified += 1;
            }
        }
        assert!(falsified > 1000, "{}: {falsified}", format.name);
    }
}

/// Every byte of a block matters: with one changed, some row no longer agrees.
#[test]
fn every_byte_of_a_block_is_read() {
    for format in Registry::builtin().formats() {
        let rows = vectors(format).rows;
        for byte in 0..format.geometry.bytes() as usize {
            let seen = rows.iter().any(|row| {
                let mut blocks = row.blocks.clone();
                let digit = if &blocks[2 * byte..=2 * byte] == "0" { "1" } else { "0" };
                blocks.replace_range(2 * byte..=2 * byte, digit);
                let changed = Row { blocks, crc32: row.crc32.clone(), values: row.values.clone() };
                !agrees(&changed, &decoded(format, &changed))
            });
            assert!(seen, "{}: byte {byte}", format.name);
        }
    }
}
