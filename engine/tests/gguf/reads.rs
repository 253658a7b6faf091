//! What a good file says is what the reader hands out.

use kiln_engine::gguf::{Gguf, GgufError, Value, ValueType};
use kiln_kernels::Registry;

use crate::file::{Spec, Val, specimen, text, texts};
use crate::{TempFolder, read};

fn int(value: i128, ty: ValueType) -> Value<'static> {
    Value::Int { value, ty }
}

#[test]
fn every_type_reads_back() {
    for version in [2, 3] {
        let bytes = Spec { version, ..specimen() }.bytes();
        let file = read(bytes).unwrap();
        assert_eq!(file.version(), version);
        let m = file.metadata();
        let expected = [
            ("general.architecture", Value::String("llama")),
            ("a.u8", int(200, ValueType::U8)),
            ("a.i8", int(-2, ValueType::I8)),
            ("a.u16", int(60_000, ValueType::U16)),
            ("a.i16", int(-300, ValueType::I16)),
            ("a.u32", int(4_000_000_000, ValueType::U32)),
            ("a.i32", int(-70_000, ValueType::I32)),
            ("a.f32", Value::Float { value: 0.25, ty: ValueType::F32 }),
            ("a.bool", Value::Bool(true)),
            ("a.text", Value::String("naïve")),
            ("a.u64", int(1 << 40, ValueType::U64)),
            ("a.i64", int(-(1 << 40), ValueType::I64)),
            ("a.f64", Value::Float { value: 1e-5, ty: ValueType::F64 }),
        ];
        let found: Vec<(&str, Value<'_>)> = m.iter().take(expected.len()).collect();
        assert_eq!(found, expected, "in the file's order");
        assert_eq!(m.len(), specimen().keys.len());
        assert_eq!(m.strings("b.texts").unwrap(), ["a", "", "ç"]);
        assert_eq!(m.i32s("b.i32s").unwrap(), [-1, 7]);
        assert_eq!(m.f32s("b.f32s").unwrap(), [1.5, -2.0]);
        let flags: Vec<Value<'_>> = m.array("b.flags").unwrap().iter().collect();
        assert_eq!(flags, [Value::Bool(true), Value::Bool(false)]);
        let none = m.array("b.none").unwrap();
        assert!(none.is_empty() && none.iter().next().is_none() && none.elem() == ValueType::U32);
    }
}

#[test]
fn tensors_have_their_bytes_and_shapes_slowest_first() {
    let file = read(specimen().bytes()).unwrap();
    let names: Vec<&str> = file.tensors().map(|t| t.name).collect();
    assert_eq!(names, ["one", "two", "three"]);
    for tensor in specimen().tensors {
        let found = file.tensor(&tensor.name).unwrap();
        assert_eq!(found.shape, tensor.shape);
        assert_eq!(found.data, tensor.data);
        assert_eq!((found.type_id, found.n_elems()), (tensor.type_id, tensor.shape.iter().product()));
    }
    assert!(file.tensor("four").is_none());
}

/// Scalars convert where nothing is lost; anything else is an error that names key and types.
#[test]
fn accessors_convert_what_fits_and_name_what_does_not() {
    let file = read(specimen().bytes()).unwrap();
    let m = file.metadata();
    assert_eq!(m.u32("a.u8").unwrap(), 200);
    assert_eq!(m.u32("a.u16").unwrap(), 60_000);
    assert_eq!(m.i32("a.i8").unwrap(), -2);
    assert_eq!(m.u64("a.u32").unwrap(), 4_000_000_000);
    assert_eq!(m.f32("a.f64").unwrap(), 1e-5);
    assert_eq!(m.opt_u32("absent").unwrap(), None);
    let errors = [
        (m.u32("absent").unwrap_err(), "metadata key \"absent\" (a u32) is missing"),
        (m.u32("a.i8").unwrap_err(), "metadata key \"a.i8\" is -2, expected a number that fits a u32"),
        (
            m.u32("a.u64").unwrap_err(),
            "metadata key \"a.u64\" is 1099511627776, expected a number that fits a u32",
        ),
        (m.opt_u32("a.text").unwrap_err(), "metadata key \"a.text\" is a string, expected a u32"),
        (m.str("a.u8").unwrap_err(), "metadata key \"a.u8\" is a u8, expected a string"),
        (m.f32("a.i32").unwrap_err(), "metadata key \"a.i32\" is an i32, expected an f32"),
        (m.bool("a.u8").unwrap_err(), "metadata key \"a.u8\" is a u8, expected a bool"),
        (m.array("a.f32").unwrap_err(), "metadata key \"a.f32\" is an f32, expected an array"),
        (
            m.strings("a.text").unwrap_err(),
            "metadata key \"a.text\" is a string, expected an array of strings",
        ),
    ];
    for (error, message) in errors {
        assert_eq!(error.to_string(), message);
    }
    assert!(matches!(m.strings("b.i32s"), Err(GgufError::WrongElement { .. })));
    assert!(matches!(m.u32s("b.i32s"), Err(GgufError::WrongElement { .. })));
}

#[test]
fn another_alignment_moves_the_data() {
    for alignment in [1, 8, 256] {
        let spec = Spec::new()
            .key("general.alignment", Val::U32(alignment))
            .tensor("a", &[1], 0, vec![1, 2, 3, 4])
            .tensor("b", &[1], 0, vec![5, 6, 7, 8]);
        let bytes = Spec { alignment: alignment as usize, ..spec }.bytes();
        let file = read(bytes).unwrap();
        let data: Vec<&[u8]> = file.tensors().map(|t| t.data).collect();
        assert_eq!(data, [&[1, 2, 3, 4], &[5, 6, 7, 8]]);
    }
}

#[test]
fn files_without_tensors_or_keys_open() {
    assert_eq!(read(Spec::new().bytes()).unwrap().tensors().count(), 0);
    let vocabulary = read(Spec::new().key("tokenizer.ggml.tokens", texts(["a", "b"])).bytes()).unwrap();
    assert_eq!(vocabulary.metadata().strings("tokenizer.ggml.tokens").unwrap().len(), 2);
    let bare = read(Spec::new().tensor("a", &[1], 0, vec![0; 4]).bytes()).unwrap();
    assert!(bare.metadata().is_empty());
}

#[test]
fn a_mapped_file_reads_like_bytes() {
    let folder = TempFolder::new("mapped");
    let bytes = specimen().bytes();
    let path = folder.write("model.gguf", &bytes);
    let (mapped, owned) = (Gguf::open(&path, &Registry::builtin()).unwrap(), read(bytes.clone()).unwrap());
    assert_eq!(mapped.file_bytes(), bytes.len() as u64);
    assert!(mapped.metadata().iter().eq(owned.metadata().iter()));
    assert!(mapped.tensors().map(|t| (t.name, t.data)).eq(owned.tensors().map(|t| (t.name, t.data))));
}

#[test]
fn a_path_that_cannot_be_read_is_named() {
    let folder = TempFolder::new("unreadable");
    for path in [folder.path().join("absent.gguf"), folder.path().to_path_buf()] {
        let error = Gguf::open(&path, &Registry::builtin()).unwrap_err();
        assert!(matches!(error, GgufError::Io { .. }), "{error:?}");
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
    let empty = Gguf::open(&folder.write("empty.gguf", b""), &Registry::builtin()).unwrap_err();
    assert!(matches!(empty, GgufError::Truncated { offset: 0, available: 0, .. }), "{empty:?}");
}

/// Names from the file never break the line of a message, however long or odd.
#[test]
fn messages_stay_on_one_line() {
    let long = "k\n\r\u{2028}\u{1b}[31m".repeat(1000);
    let spec = Spec::new().key(&long, text("v")).key(&long, text("w"));
    let message = read(spec.bytes()).unwrap_err().to_string();
    assert!(message.len() < 1500 && !message.contains(['\n', '\r', '\u{2028}', '\u{1b}']), "{message}");
}
