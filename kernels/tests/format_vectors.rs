//! Host decoding of every registered format against gguf-py, or who else knows it, bit for bit; and proof that one wrong bit is seen.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kiln_kernels::formats::{Q4_0, Q8_0};
use kiln_kernels::{FormatRow, Quantize, Registry, conformance::check_vectors};
use serde::Deserialize;

/// What `tests/vectors/formats/make_blocks.py` wrote.
#[derive(Deserialize)]
struct Vectors {
    name: String,
    type_id: u32,
    elements: u32,
    bytes: u32,
    /// Where a block has f16 fields.
    halves: Vec<usize>,
    rows: Vec<Row>,
    /// Eight in a string.
    hashes: Vec<String>,
    quantized: Option<Quantized>,
}

/// Values and the blocks made of them.
#[derive(Deserialize)]
struct Quantized {
    rows: Vec<Row>,
    hashes: Vec<String>,
}

/// Whole blocks and what they decode to.
#[derive(Deserialize)]
struct Row {
    blocks: String,
    values: String,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/formats")
}

fn vectors(format: &FormatRow) -> Vectors {
    let path = folder().join(format!("{}.json", format.name.to_lowercase()));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| {
        let (folder, name) = (path.parent().unwrap().display(), format.name);
        panic!("{}: {e}; make_blocks.py in {folder} makes it, as step 2 of \"Add a quantization format\" in CONTRIBUTING.md says for {name}", path.display())
    });
    serde_json::from_str(&text).unwrap()
}

fn from_hex(hex: &str) -> Vec<u8> {
    let digit = |c: u8| char::from(c).to_digit(16).unwrap() as u8;
    hex.as_bytes().chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// The values of whole blocks as bits, with one NaN for all: which one a product keeps is the processor's choice.
fn decoded(format: &FormatRow, blocks: &[u8]) -> Vec<u32> {
    let n_blocks = blocks.len() / format.geometry.bytes() as usize;
    let mut values = vec![0.0_f32; n_blocks * format.geometry.elements() as usize];
    format.dequantize(blocks, &mut values).unwrap();
    values.iter().map(|v| if v.is_nan() { NAN } else { v.to_bits() }).collect()
}

const NAN: u32 = 0x7fc0_0000;

fn stored(row: &Row) -> Vec<u32> {
    let bytes = from_hex(&row.values);
    bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// Word `at` of random row `number`, as the script makes it.
fn random_word(type_id: u32, number: u64, at: u64) -> u64 {
    let counter = u64::from(type_id) << 48 | number << 16 | at;
    let z = (counter + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

fn random_row(v: &Vectors, number: u64) -> Vec<u8> {
    let n_bytes = v.bytes as usize * if v.elements == 1 { 16 } else { 1 };
    let words = (0..).flat_map(|at| random_word(v.type_id, number, at).to_le_bytes());
    let mut row: Vec<u8> = words.take(n_bytes).collect();
    for &at in v.halves.iter().filter(|_| number % 2 == 1) {
        row[at + 1] = row[at + 1] & 0x9f | 0x20;
    }
    row
}

fn random_values(type_id: u32, number: u64) -> Vec<f32> {
    let words = (0..16).map(|at| random_word(0x4000 | type_id, number, at));
    let halves = words.flat_map(|word| [word as u32, (word >> 32) as u32]);
    halves.map(|bits| f32::from_bits(bits & 0x83ff_ffff | 0x3c00_0000)).collect()
}

/// FNV-1a of 64 bits, a value at a time: bijective in each, so that one changed value always shows.
fn hash(values: impl IntoIterator<Item = u32>) -> u64 {
    values.into_iter().fold(0xcbf2_9ce4_8422_2325, |h, v| (h ^ u64::from(v)).wrapping_mul(0x100_0000_01b3))
}

fn hashes(strings: &[String]) -> Vec<u64> {
    let digits = strings.concat();
    (0..digits.len() / 16).map(|at| u64::from_str_radix(&digits[16 * at..][..16], 16).unwrap()).collect()
}

/// What to look at where a random row decodes to something else.
fn other_values(format: &FormatRow, number: u64, [own, theirs]: [u64; 2], values: &[u32]) -> String {
    let (name, first) = (format.name, f32::from_bits(values[0]));
    let bits: Vec<String> = values.iter().map(|v| format!("{v:08x}")).collect();
    format!(
        "{name}, random row {number}: `dequantize` gives other values than the outside program reads. The hash of ours is \
         {own:016x}, of theirs {theirs:016x}, stored in tests/vectors/formats/{}.json; neither is a value. Where hard \
         blocks pass, look first at the order in which `dequantize` rounds. \
         `target/vectors/bin/python tests/vectors/formats/make_blocks.py --row {name} {number}` prints theirs; ours \
         begin with {first:?} and have the bits\n{}",
        name.to_lowercase(),
        bits.join("\n")
    )
}

/// By the numbers of one row, whose kind and place are named.
#[test]
fn hashes_that_differ_are_told_as_hashes() {
    let registry = Registry::builtin();
    let told = other_values(registry.format_named("Q8_0").unwrap(), 8, [1, 0xabc], &[0x3f80_0000, NAN]);
    let parts = [
        "Q8_0, random row 8: ",
        "The hash of ours is 0000000000000001, of theirs 0000000000000abc, stored in tests/vectors/formats/q8_0.json",
        "make_blocks.py --row Q8_0 8` prints theirs; ours begin with 1.0 and have the bits\n3f800000\n7fc00000",
    ];
    for part in parts {
        assert!(told.contains(part), "{part}: {told}");
    }
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
    let without: Vec<_> = formats.difference(&files).collect();
    let unknown: Vec<_> = files.difference(&formats).collect();
    assert!(without.is_empty(), "formats without vectors, which make_blocks.py writes: {without:?}");
    assert!(unknown.is_empty(), "vectors without a format: {unknown:?}");
}

#[test]
fn names_ids_and_blocks_are_ggmls() {
    for format in Registry::builtin().formats() {
        let v = vectors(format);
        let geometry = (format.geometry.elements(), format.geometry.bytes());
        assert_eq!((format.name, format.id, geometry), (v.name.as_str(), v.type_id, (v.elements, v.bytes)));
        assert!(v.rows.len() >= 20 && hashes(&v.hashes).len() == 2000, "{}", v.name);
    }
}

#[test]
fn every_format_decodes_hard_blocks_as_others_do() {
    for format in Registry::builtin().formats() {
        let rows = vectors(format).rows;
        let blocks: Vec<u8> = rows.iter().flat_map(|row| from_hex(&row.blocks)).collect();
        let values: Vec<f32> = rows.iter().flat_map(stored).map(f32::from_bits).collect();
        assert_eq!(check_vectors(format, &blocks, &values), Ok(()), "{}", format.name);
    }
}

/// And the comparison can fail: one bit of any one element shows.
#[test]
fn every_format_decodes_random_blocks_as_others_do() {
    for format in Registry::builtin().formats() {
        let v = vectors(format);
        for (number, expected) in (0..).zip(hashes(&v.hashes)) {
            let mut found = decoded(format, &random_row(&v, number));
            let own = hash(found.iter().copied());
            assert!(own == expected, "{}", other_values(format, number, [own, expected], &found));
            let element = number as usize * 37 % found.len();
            found[element] ^= 1;
            assert_ne!(
                hash(found.iter().copied()),
                expected,
                "{} random row {number}, element {element}",
                format.name
            );
        }
    }
}

fn quantizes_as_gguf_py_does<F: Quantize>() {
    let v = vectors(Registry::builtin().format(F::ID).unwrap());
    let quantized = v.quantized.unwrap();
    let mut block = vec![0; F::GEOMETRY.bytes() as usize];
    for (at, row) in quantized.rows.iter().enumerate() {
        let values: Vec<f32> = stored(row).into_iter().map(f32::from_bits).collect();
        F::quantize(&values, &mut block);
        assert_eq!(block, from_hex(&row.blocks), "{} row {at}: {values:?}", F::NAME);
    }
    let expected = hashes(&quantized.hashes);
    assert!(quantized.rows.len() >= 20 && expected.len() == 2000);
    for (number, expected) in (0..).zip(expected) {
        F::quantize(&random_values(F::ID, number), &mut block);
        let found = |block: &[u8]| hash(block.iter().copied().map(u32::from));
        let own = found(&block);
        assert!(
            own == expected,
            "{} random values {number}: the hash of the block that `quantize` makes is {own:016x}, of gguf-py's {expected:016x}",
            F::NAME
        );
        let at = number as usize % block.len();
        block[at] ^= 1;
        assert_ne!(found(&block), expected, "{} random row {number}, byte {at}", F::NAME);
    }
    // The inverse of such a scale has no f32: gguf-py's quants are then whatever a cast of NaN gives.
    F::quantize(&vec![1e-38; F::GEOMETRY.elements() as usize], &mut block);
    let mut values = vec![1.0; F::GEOMETRY.elements() as usize];
    F::dequantize(&block, &mut values);
    assert!(values.iter().all(|v| *v == 0.0), "{}: {values:?}", F::NAME);
}

#[test]
fn formats_that_the_host_writes_are_written_as_gguf_py_does() {
    quantizes_as_gguf_py_does::<Q8_0>();
    quantizes_as_gguf_py_does::<Q4_0>();
}
