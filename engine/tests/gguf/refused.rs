//! One field out of order each: the error is the one that names it. Every case starts from a file that reads.

use kiln_engine::gguf::GgufError;

use crate::file::{File, Spec, Val, specimen, text};
use crate::{read, refusal};

fn specimen_file() -> File {
    let file = specimen().build();
    read(file.bytes.clone()).expect("the specimen reads");
    file
}

/// Asserts variant and message of the refusal of `bytes`.
macro_rules! refuses {
    ($bytes:expr, $pattern:pat $(if $guard:expr)?, $($part:expr),+) => {{
        let error = refusal($bytes);
        assert!(matches!(&error, $pattern $(if $guard)?), "{error:?}");
        let message = error.to_string();
        $(assert!(message.contains($part), "{message}");)+
    }};
}

#[test]
fn the_header() {
    let f = specimen_file();
    refuses!(
        f.with_at(0, b"GGML"),
        GgufError::BadMagic { found: [b'G', b'G', b'M', b'L'] },
        "not a GGUF file"
    );
    refuses!(f.with_at(0, b"FUGG"), GgufError::BadMagic { .. }, "expected \"GGUF\"");
    for version in [0, 1, 4, u32::MAX] {
        refuses!(
            f.with("version", &u32::to_le_bytes(version)),
            GgufError::UnsupportedVersion { found } if *found == version,
            "expected 2 or 3"
        );
    }
    for version in [2u32, 3] {
        let swapped = version.swap_bytes();
        refuses!(
            f.with("version", &version.to_be_bytes()),
            GgufError::BigEndian { found } if *found == swapped,
            "big-endian"
        );
    }
}

#[test]
fn counts_that_the_file_cannot_hold() {
    let f = specimen_file();
    for count in [1u64 << 20, 1 << 32, 1 << 63, u64::MAX] {
        for mark in ["n_tensors", "n_keys", "b.texts.len", "b.i32s.len", "b.flags.len"] {
            refuses!(
                f.with(mark, &count.to_le_bytes()),
                GgufError::ImpossibleCount { count: found, .. } if *found == count,
                "impossible",
                &format!("at byte {}", f.at(mark))
            );
        }
    }
    // One more or less than there are shifts what follows: refused somewhere, whatever the name of it.
    let shifted = |mark: &str, count: usize| refusal(f.with(mark, &(count as u64).to_le_bytes()));
    let (n_keys, n_tensors) = (specimen().keys.len(), specimen().tensors.len());
    shifted("n_keys", n_keys - 1);
    shifted("n_keys", n_keys + 1);
    shifted("n_tensors", n_tensors + 1);
}

#[test]
fn lengths_that_run_past_the_end() {
    let f = specimen_file();
    for len in [f.bytes.len() as u64, 1 << 32, u64::MAX - 7, u64::MAX] {
        for mark in ["a.u8", "a.text.value", "b.texts[1]", "two"] {
            refuses!(
                f.with(mark, &len.to_le_bytes()),
                GgufError::Truncated { needed, .. } if *needed == len,
                "the file ends inside"
            );
        }
    }
}

#[test]
fn names_that_are_empty_or_not_utf8() {
    let f = specimen_file();
    refuses!(
        f.with_at(f.at("a.u8") + 8, &[0xff]),
        GgufError::NotUtf8 { .. },
        "metadata key",
        "not valid UTF-8"
    );
    refuses!(f.with_at(f.at("two") + 8, &[0xc0]), GgufError::NotUtf8 { .. }, "tensor name");
    refuses!(f.with_at(f.at("a.text.value") + 8, &[0x80]), GgufError::NotUtf8 { .. }, "string");
    refuses!(f.with_at(f.at("b.texts[0]") + 8, &[0xfe]), GgufError::NotUtf8 { .. }, "string");
    refuses!(Spec::new().key("", text("v")).bytes(), GgufError::EmptyName { .. }, "key", "is empty");
    let unnamed = Spec::new().tensor("", &[1], 0, vec![0; 4]);
    refuses!(unnamed.bytes(), GgufError::EmptyName { .. }, "tensor name", "is empty");
}

#[test]
fn value_and_element_types_out_of_range() {
    let f = specimen_file();
    for ty in [13u32, 255, 1 << 31, u32::MAX] {
        refuses!(
            f.with("a.u32.type", &ty.to_le_bytes()),
            GgufError::UnknownValueType { found, .. } if *found == ty,
            "a.u32",
            &ty.to_string()
        );
        refuses!(
            f.with("b.i32s.elem", &ty.to_le_bytes()),
            GgufError::UnknownElementType { found, .. } if *found == ty,
            "b.i32s",
            &ty.to_string()
        );
    }
    refuses!(
        f.with("b.texts.elem", &9u32.to_le_bytes()),
        GgufError::NestedArray { .. },
        "b.texts",
        "array of arrays"
    );
    for byte in [2, 0x80, 0xff] {
        refuses!(f.with("a.bool.value", &[byte]), GgufError::BadBool { found, .. } if *found == byte, "a.bool");
        refuses!(f.with("b.flags[1]", &[byte]), GgufError::BadBool { found, .. } if *found == byte, "b.flags");
    }
}

#[test]
fn names_that_appear_twice() {
    let twice = |second: &str| Spec::new().key("a", Val::U8(1)).key("b", Val::U8(2)).key(second, Val::U8(3));
    read(twice("c").bytes()).unwrap();
    refuses!(twice("a").bytes(), GgufError::DuplicateKey { .. }, "\"a\"", "twice");
    let twice = |second: &str| {
        Spec::new().tensor("a", &[1], 0, vec![0; 4]).tensor("b", &[1], 0, vec![0; 4]).tensor(
            second,
            &[1],
            0,
            vec![0; 4],
        )
    };
    read(twice("c").bytes()).unwrap();
    refuses!(twice("a").bytes(), GgufError::DuplicateTensor { .. }, "\"a\"", "twice");
}

#[test]
fn alignments_and_offsets() {
    let f = specimen_file();
    for alignment in [0u32, 3, 33, u32::MAX] {
        refuses!(
            f.with("general.alignment.value", &alignment.to_le_bytes()),
            GgufError::BadAlignment { found } if *found == alignment,
            "power of two"
        );
    }
    refuses!(
        f.with("general.alignment.type", &6u32.to_le_bytes()),
        GgufError::WrongType { .. },
        "general.alignment",
        "an f32"
    );
    // The largest power of two puts the data section past the end.
    refuses!(
        f.with("general.alignment.value", &(1u32 << 31).to_le_bytes()),
        GgufError::MisalignedTensor { .. } | GgufError::TensorOutOfRange { .. },
        "tensor"
    );
    refuses!(
        f.with("two.offset", &33u64.to_le_bytes()),
        GgufError::MisalignedTensor { .. },
        "\"two\"",
        "33",
        "32"
    );
    for offset in [1u64 << 20, 1 << 62, u64::MAX - 31] {
        refuses!(
            f.with("two.offset", &offset.to_le_bytes()),
            GgufError::TensorOutOfRange { data_offset, .. } if *data_offset == offset,
            "\"two\"",
            "68 bytes"
        );
    }
    refuses!(
        f.with("two.offset", &[0; 8]),
        GgufError::OverlappingTensors { .. },
        "\"one\"",
        "\"two\"",
        "overlap"
    );
    refuses!(
        f.with("three.offset", &64u64.to_le_bytes()),
        GgufError::OverlappingTensors { data_offset: 64, .. },
        "\"two\" and \"three\""
    );
}

#[test]
fn ranks_and_dimensions() {
    let f = specimen_file();
    for rank in [0u32, 5, 256, u32::MAX] {
        refuses!(
            f.with("three.rank", &rank.to_le_bytes()),
            GgufError::BadRank { found, .. } if *found == rank,
            "\"three\"",
            "1 to 4"
        );
    }
    for dim in ["one.dim[0]", "two.dim[1]", "three.dim[0]"] {
        refuses!(f.with(dim, &[0; 8]), GgufError::ZeroDimension { .. }, "at least 1");
    }
    for dim in ["two.dim[0]", "three.dim[1]"] {
        for n in [u64::MAX, 1 << 63, 1 << 60] {
            refuses!(f.with(dim, &n.to_le_bytes()), GgufError::SizeOverflow { .. }, "2^63");
        }
    }
    refuses!(
        f.with("two.dim[1]", &33u64.to_le_bytes()),
        GgufError::PartialBlock { row: 33, block: 32, .. },
        "\"two\""
    );
    refuses!(
        f.with("two.dim[0]", &9u64.to_le_bytes()),
        GgufError::TensorOutOfRange { bytes: 306, .. },
        "\"two\""
    );
}

/// 2^32 × 2^32 is 0 in 64 bits, and 2^62 four-byte elements are 0 bytes: sizes that wrap to something that fits.
#[test]
fn sizes_that_wrap() {
    for shape in
        [&[1u64 << 32, 1 << 32][..], &[1 << 62], &[1 << 16; 4], &[3, 0x5555_5555_5555_5556], &[1, 1 << 63]]
    {
        let spec = Spec::new().tensor("vast", shape, 0, vec![0; 64]);
        refuses!(spec.bytes(), GgufError::SizeOverflow { .. }, "\"vast\"", &format!("{shape:?}"));
    }
    read(Spec::new().tensor("small", &[2, 8], 0, vec![0; 64]).bytes()).unwrap();
}

#[test]
fn tensor_types_nobody_has() {
    let f = specimen_file();
    for id in [4u32, 5, 31, 1000, u32::MAX] {
        refuses!(
            f.with("one.type", &id.to_le_bytes()),
            GgufError::UnknownTensorType { id: found, .. } if *found == id,
            "\"one\"",
            &id.to_string()
        );
    }
}

#[test]
fn data_that_is_not_all_there() {
    let spec = |n: usize| Spec::new().tensor("a", &[16], 0, vec![0; n]).bytes();
    read(spec(64)).unwrap();
    for n in [0, 1, 63] {
        refuses!(
            spec(n),
            GgufError::TensorOutOfRange { bytes: 64, available, .. } if *available == n as u64,
            "\"a\"",
            "is the download complete?"
        );
    }
}
