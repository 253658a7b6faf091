//! Files cut and changed anywhere: an error or a file whose every part can be walked, never a panic.

use kiln_engine::gguf::{Gguf, GgufError, Value};
use proptest::prelude::*;

use crate::file::specimen;
use crate::{read, refusal};

/// Walks everything that the reader hands out, and holds it to what the reader promises.
fn walk(file: &Gguf) {
    let m = file.metadata();
    for (key, value) in m.iter() {
        assert!(!key.is_empty());
        assert_eq!(m.get(key).map(|v| v.ty()), Some(value.ty()), "{key}");
        if let Value::Array(array) = value {
            assert_eq!(array.iter().count(), array.len(), "{key}");
        }
    }
    assert_eq!(m.iter().count(), m.len());
    for t in file.tensors() {
        assert!((1..=4).contains(&t.shape.len()) && !t.shape.contains(&0), "{t:?}");
        assert_eq!(t.geometry().row_bytes(t.n_elems()), Some(t.data.len() as u64), "{}", t.name);
        assert!(file.tensor(t.name).is_some_and(|found| std::ptr::eq(found.data, t.data)), "{}", t.name);
    }
}

#[test]
fn every_truncation_is_refused() {
    let whole = specimen().bytes();
    walk(&read(whole.clone()).unwrap());
    for len in 0..whole.len() {
        let error = refusal(whole[..len].to_vec());
        let expected = matches!(
            error,
            GgufError::Truncated { .. }
                | GgufError::ImpossibleCount { .. }
                | GgufError::TensorOutOfRange { .. }
        );
        assert!(expected, "cut at {len}: {error:?}");
    }
}

/// Each byte becomes each of a handful of others.
#[test]
fn every_byte_can_be_wrong() {
    let whole = specimen().bytes();
    let mut refused = 0;
    for at in 0..whole.len() {
        for change in [0x01, 0x80, 0xff, whole[at], whole[at] ^ 0xff] {
            let mut bytes = whole.clone();
            bytes[at] ^= change;
            match read(bytes) {
                Ok(file) => walk(&file),
                Err(error) => {
                    refused += 1;
                    assert!(!error.to_string().contains('\n'), "{error}");
                }
            }
        }
    }
    assert!(refused > whole.len(), "{refused} of {} changes refused", 5 * whole.len());
}

/// A change to a file: bytes overwritten at a place, at a size a field can have.
fn change() -> impl Strategy<Value = (prop::sample::Index, Vec<u8>)> {
    let numbers = prop::sample::select(vec![
        0u64,
        1,
        2,
        7,
        9,
        13,
        31,
        32,
        33,
        255,
        1 << 16,
        (1 << 31) - 1,
        1 << 31,
        u64::from(u32::MAX),
        1 << 32,
        i64::MAX as u64,
        1 << 63,
        u64::MAX - 1,
        u64::MAX,
    ]);
    let field = prop_oneof![
        prop::collection::vec(any::<u8>(), 1..9),
        numbers.clone().prop_map(|n| n.to_le_bytes().to_vec()),
        numbers.prop_map(|n| n.to_le_bytes()[..4].to_vec()),
    ];
    (any::<prop::sample::Index>(), field)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_files_are_read_or_refused(
        changes in prop::collection::vec(change(), 1..5),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
        doubled in prop::option::weighted(0.1, any::<prop::sample::Index>()),
    ) {
        let mut bytes = specimen().bytes();
        for (at, field) in changes {
            let at = at.index(bytes.len());
            let n = field.len().min(bytes.len() - at);
            bytes[at..at + n].copy_from_slice(&field[..n]);
        }
        if let Some(at) = doubled {
            let at = at.index(bytes.len());
            bytes.extend_from_within(at..);
        }
        if let Some(at) = cut {
            bytes.truncate(at.index(bytes.len()));
        }
        match read(bytes) {
            Ok(file) => walk(&file),
            Err(error) => prop_assert!(!error.to_string().contains('\n')),
        }
    }

    #[test]
    fn arbitrary_bytes_behind_the_magic_are_read_or_refused(
        version in 2u32..4,
        counts in (0u64..4, 0u64..4),
        rest in prop::collection::vec(prop_oneof![4 => Just(0u8), 2 => 1u8..14, 1 => any::<u8>()], 0..400),
    ) {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(version.to_le_bytes());
        bytes.extend(counts.0.to_le_bytes());
        bytes.extend(counts.1.to_le_bytes());
        bytes.extend(rest);
        if let Ok(file) = read(bytes) {
            walk(&file);
        }
    }
}
