//! The writer: its files are those of the tests' own builder byte for byte, and the reader gives back what went in.

use std::path::Path;

use kiln_engine::gguf::{Gguf, GgufError, GgufWriter, Scalar, Tensor, WriteError};
use kiln_kernels::{FormatRow, Registry};
use proptest::prelude::*;
use serde::Deserialize;

use crate::file::{Spec, Ten, Val, specimen};
use crate::read;

fn format(registry: &Registry, id: u32) -> &FormatRow {
    registry.format(id).unwrap()
}

fn put(w: &mut GgufWriter, key: &str, value: &Val) -> Result<(), WriteError> {
    fn array<T: Scalar>(
        w: &mut GgufWriter,
        key: &str,
        all: &[Val],
        one: impl Fn(&Val) -> Option<T>,
    ) -> Result<(), WriteError> {
        w.array(key, &all.iter().map(|v| one(v).unwrap()).collect::<Vec<T>>())
    }
    match value {
        Val::U8(v) => w.key(key, *v),
        Val::I8(v) => w.key(key, *v),
        Val::U16(v) => w.key(key, *v),
        Val::I16(v) => w.key(key, *v),
        Val::U32(v) => w.key(key, *v),
        Val::I32(v) => w.key(key, *v),
        Val::F32(v) => w.key(key, *v),
        Val::Bool(v) => w.key(key, *v),
        Val::Str(v) => w.key(key, v.as_str()),
        Val::U64(v) => w.key(key, *v),
        Val::I64(v) => w.key(key, *v),
        Val::F64(v) => w.key(key, *v),
        Val::Array(4, all) => array(w, key, all, |v| if let Val::U32(v) = v { Some(*v) } else { None }),
        Val::Array(5, all) => array(w, key, all, |v| if let Val::I32(v) = v { Some(*v) } else { None }),
        Val::Array(6, all) => array(w, key, all, |v| if let Val::F32(v) = v { Some(*v) } else { None }),
        Val::Array(7, all) => array(w, key, all, |v| if let Val::Bool(v) = v { Some(*v) } else { None }),
        Val::Array(8, all) => {
            array(w, key, all, |v| if let Val::Str(v) = v { Some(v.clone()) } else { None })
        }
        Val::Array(elem, _) => unreachable!("no test writes arrays of type {elem}"),
    }
}

fn written(spec: &Spec) -> Vec<u8> {
    let registry = Registry::builtin();
    let mut w = GgufWriter::new();
    spec.keys.iter().try_for_each(|(key, value)| put(&mut w, key, value)).unwrap();
    finish(w, &spec.tensors, &registry)
}

fn finish(mut w: GgufWriter, tensors: &[Ten], registry: &Registry) -> Vec<u8> {
    for t in tensors {
        w.tensor(&t.name, &t.shape, format(registry, t.type_id)).unwrap();
    }
    let mut data = w.start(Vec::new()).unwrap();
    tensors.iter().for_each(|t| data.data(&t.data).unwrap());
    data.finish().unwrap()
}

/// The builder's file, with the last tensor's data padded as that of the others.
fn built(spec: &Spec) -> Vec<u8> {
    let mut bytes = spec.bytes();
    bytes.resize(bytes.len().next_multiple_of(spec.alignment), 0);
    bytes
}

#[test]
fn the_writer_and_the_builder_agree() {
    assert_eq!(written(&specimen()), built(&specimen()));
    for alignment in [1, 8, 4096] {
        let mut spec = Spec { alignment, ..specimen() };
        spec.keys.last_mut().unwrap().1 = Val::U32(alignment as u32);
        assert_eq!(written(&spec), built(&spec), "alignment {alignment}");
    }
    assert_eq!(written(&Spec::new()), built(&Spec::new()));
    // The comparison sees a difference: of one value, and of one byte of data.
    let mut other = specimen();
    other.keys[5].1 = Val::U32(1);
    assert_ne!(written(&other), built(&specimen()));
    other = specimen();
    other.tensors[1].data[67] ^= 1;
    assert_ne!(written(&other), built(&specimen()));
}

#[test]
fn a_copy_has_the_chosen_keys_as_they_are() {
    let registry = Registry::builtin();
    let file = read(specimen().bytes()).unwrap();
    let mut w = GgufWriter::new();
    w.copy(file.metadata(), |_| true).unwrap();
    assert_eq!(finish(w, &specimen().tensors, &registry), built(&specimen()));

    let mut w = GgufWriter::new();
    w.copy(file.metadata(), |key| key.starts_with("b.")).unwrap();
    w.key("b.more", -5i8).unwrap();
    let some = read(finish(w, &[], &registry)).unwrap();
    let keys: Vec<&str> = some.metadata().iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["b.texts", "b.flags", "b.i32s", "b.f32s", "b.none", "b.more"]);
    assert_eq!(some.metadata().i32("b.more").unwrap(), -5);
}

/// What `tests/vectors/gguf/make_file.py` wrote.
#[derive(Deserialize)]
struct Outside {
    /// In hex, cut into lines.
    file: Vec<String>,
    tensors: Vec<OutsideTensor>,
}

#[derive(Deserialize)]
struct OutsideTensor {
    name: String,
    shape: Vec<u64>,
    type_id: u32,
    data: String,
}

fn from_hex(hex: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(byte).collect()
}

/// Another implementation's file: its tensors are what that implementation says, and our copy of it is the same file.
#[test]
fn a_file_of_gguf_py_is_read_and_written_alike() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/gguf/gguf_py.json");
    let outside: Outside = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let bytes = from_hex(&outside.file.concat());
    let file = read(bytes.clone()).unwrap();
    assert_eq!(file.metadata().len(), 18);
    assert_eq!(file.metadata().str("a.text").unwrap(), "naïve 火");
    assert_eq!(file.tensors().count(), outside.tensors.len());
    for t in &outside.tensors {
        let found = file.tensor(&t.name).unwrap();
        assert_eq!((found.shape, found.type_id), (&t.shape[..], t.type_id), "{}", t.name);
        assert_eq!(found.data, from_hex(&t.data), "{}", t.name);
    }

    let registry = Registry::builtin();
    let mut w = GgufWriter::new();
    w.copy(file.metadata(), |_| true).unwrap();
    let owned = |t: Tensor<'_>| {
        let (name, shape) = (t.name.to_owned(), t.shape.to_vec());
        Ten { name, shape, type_id: t.type_id, data: t.data.to_vec() }
    };
    let tensors: Vec<Ten> = file.tensors().map(owned).collect();
    assert_eq!(finish(w, &tensors, &registry), bytes);
}

#[test]
fn what_no_reader_would_take_is_refused() {
    let registry = Registry::builtin();
    let (f32s, q8_0) = (format(&registry, 0), format(&registry, 8));
    let mut w = GgufWriter::new();
    w.key("a", 1u8).unwrap();
    w.tensor("t", &[1], f32s).unwrap();
    let check = |result: Result<(), WriteError>, message: &str| {
        assert_eq!(result.unwrap_err().to_string(), message);
    };
    check(w.key("", 1u8), "a metadata key is empty, expected at least one character");
    check(w.key("a", 1u8), "metadata key \"a\" appears twice");
    check(w.array("a", &[1u8]), "metadata key \"a\" appears twice");
    check(w.key("general.alignment", 3u32), "general.alignment is 3, expected a power of two");
    check(w.key("general.alignment", "x"), "metadata key \"general.alignment\" is a string, expected a u32");
    check(w.tensor("", &[1], f32s), "a tensor name is empty, expected at least one character");
    check(w.tensor("t", &[1], f32s), "tensor \"t\" appears twice");
    check(w.tensor("u", &[], f32s), "tensor \"u\" has 0 dimensions, expected 1 to 4");
    check(w.tensor("u", &[1; 5], f32s), "tensor \"u\" has 5 dimensions, expected 1 to 4");
    check(
        w.tensor("u", &[2, 0], f32s),
        "tensor \"u\" has the shape [2, 0], expected every dimension to be at least 1",
    );
    check(
        w.tensor("u", &[1, 33], q8_0),
        "tensor \"u\" has rows of 33 elements, expected a multiple of its block of 32",
    );
    check(
        w.tensor("u", &[1 << 62], f32s),
        "tensor \"u\" of shape [4611686018427387904] has more than 2^63 elements or bytes",
    );

    // A refusal leaves the writer as it was.
    let mut data = w.start(Vec::new()).unwrap();
    check(data.data(&[0; 3]), "tensor \"t\" was given 3 bytes of data, expected 4");
    data.data(&[1, 2, 3, 4]).unwrap();
    check(data.data(&[0; 4]), "data was given for 2 tensors, expected 1");
    let file = read(data.finish().unwrap()).unwrap();
    assert_eq!((file.metadata().len(), file.tensors().count()), (1, 1));
    assert_eq!(file.tensor("t").unwrap().data, [1, 2, 3, 4]);
}

#[test]
fn unfinished_and_vast_files_are_refused() {
    let registry = Registry::builtin();
    let mut w = GgufWriter::new();
    w.tensor("t", &[1], format(&registry, 0)).unwrap();
    let unfinished = w.start(Vec::new()).unwrap().finish().unwrap_err();
    assert!(matches!(unfinished, WriteError::DataCount { found: 0, expected: 1 }), "{unfinished:?}");

    let mut w = GgufWriter::new();
    for name in ["a", "b", "c"] {
        w.tensor(name, &[1 << 60], format(&registry, 0)).unwrap();
    }
    w.tensor("d", &[1 << 60], format(&registry, 0)).unwrap();
    let vast = w.start(Vec::new()).unwrap_err();
    assert!(
        matches!(&vast, WriteError::Unreadable(GgufError::SizeOverflow { tensor, .. }) if tensor == "\"d\""),
        "{vast:?}"
    );
}

#[test]
fn a_full_disk_is_an_error() {
    let registry = Registry::builtin();
    let write = |room: usize| {
        let mut w = GgufWriter::new();
        w.key("key", "value").unwrap();
        w.tensor("t", &[8], format(&registry, 0)).unwrap();
        let mut disk = [0; 128];
        let mut data = w.start(&mut disk[..room])?;
        data.data(&[7; 32])?;
        data.finish().map(drop)
    };
    write(128).unwrap();
    // Inside the head, its padding, and the data.
    for room in [0, 50, 90, 96, 127] {
        let written = write(room);
        assert!(matches!(written, Err(WriteError::Io(_))), "{room}: {written:?}");
    }
}

/// Any value with a type of its own, or an array.
fn value() -> impl Strategy<Value = Val> {
    let text = || any::<String>().prop_map(Val::Str);
    fn array<T: Strategy<Value = Val>>(elem: u32, element: T) -> impl Strategy<Value = Val> {
        prop::collection::vec(element, 0..5).prop_map(move |all| Val::Array(elem, all))
    }
    prop_oneof![
        any::<u8>().prop_map(Val::U8),
        any::<i8>().prop_map(Val::I8),
        any::<u16>().prop_map(Val::U16),
        any::<i16>().prop_map(Val::I16),
        any::<i32>().prop_map(Val::I32),
        any::<u64>().prop_map(Val::U64),
        any::<i64>().prop_map(Val::I64),
        any::<f32>().prop_map(Val::F32),
        any::<f64>().prop_map(Val::F64),
        any::<bool>().prop_map(Val::Bool),
        text(),
        array(4, any::<u32>().prop_map(Val::U32)),
        array(7, any::<bool>().prop_map(Val::Bool)),
        array(8, text()),
    ]
}

/// Shape, type and data of a tensor of whole blocks.
fn tensor() -> impl Strategy<Value = (Vec<u64>, u32, Vec<u8>)> {
    let format = prop::sample::select(vec![(0, 1, 4), (1, 1, 2), (2, 32, 18), (8, 32, 34), (14, 256, 210)]);
    (prop::collection::vec(1u64..4, 1..5), format).prop_flat_map(|(mut shape, (id, elements, bytes))| {
        let n_blocks: u64 = shape.iter().product();
        *shape.last_mut().unwrap() *= elements;
        let n_bytes = n_blocks as usize * bytes;
        prop::collection::vec(any::<u8>(), n_bytes).prop_map(move |data| (shape.clone(), id, data))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn anything_written_is_read_back(
        values in prop::collection::btree_map("[^\0]{1,12}", value(), 0..8),
        tensors in prop::collection::btree_map("[a-z.0-9]{1,12}", tensor(), 0..5),
        alignment in prop::option::of(0u32..10),
    ) {
        let mut spec = Spec::new();
        spec.keys = values.into_iter().collect();
        if let Some(shift) = alignment {
            spec = Spec { alignment: 1 << shift, ..spec.key("general.alignment", Val::U32(1 << shift)) };
        }
        for (name, (shape, type_id, data)) in &tensors {
            spec = spec.tensor(name, shape, *type_id, data.clone());
        }
        let bytes = written(&spec);
        prop_assert_eq!(&bytes, &built(&spec));
        let file: Gguf = read(bytes).unwrap();
        prop_assert_eq!(file.metadata().len(), spec.keys.len());
        prop_assert!(file.metadata().iter().map(|(key, _)| key).eq(spec.keys.iter().map(|(key, _)| key.as_str())));
        for t in &spec.tensors {
            let found = file.tensor(&t.name).unwrap();
            prop_assert_eq!((found.shape, found.type_id, found.data), (&t.shape[..], t.type_id, &t.data[..]));
        }
    }
}
