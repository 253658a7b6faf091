//! Models split over files: joined when they belong together, refused by part and key when they do not.

use std::path::Path;

use kiln_engine::gguf::{Gguf, GgufError};
use kiln_kernels::Registry;

use crate::file::{Spec, Val, text};
use crate::{TempFolder, refusal};

/// Part `no` of three: a tensor of its own, and the metadata in the first.
fn part(no: u16) -> Spec {
    let spec = Spec::new();
    let spec = if no == 0 { spec.key("general.architecture", text("llama")) } else { spec };
    let name = format!("tensor.{no}");
    spec.key("split.no", Val::U16(no))
        .key("split.count", Val::U16(3))
        .key("split.tensors.count", Val::I32(3))
        .tensor(&name, &[2], 0, vec![no as u8; 8])
}

/// A folder with the three parts, each first passed through `change`.
fn parts(name: &str, change: impl Fn(u16, Spec) -> Spec) -> TempFolder {
    let folder = TempFolder::new(name);
    for no in 0..3 {
        folder.write(&format!("m-{:05}-of-00003.gguf", no + 1), &change(no, part(no)).bytes());
    }
    folder
}

fn open(path: &Path) -> Result<Gguf, GgufError> {
    Gguf::open(path, &Registry::builtin())
}

fn open_first(folder: &TempFolder) -> Result<Gguf, GgufError> {
    open(&folder.path().join("m-00001-of-00003.gguf"))
}

/// The part with another value under a key.
fn with(mut spec: Spec, key: &str, value: Val) -> Spec {
    spec.keys.iter_mut().find(|(k, _)| k == key).unwrap().1 = value;
    spec
}

#[test]
fn parts_are_joined() {
    let folder = parts("joined", |_, spec| spec);
    let model = open_first(&folder).unwrap();
    assert_eq!(model.n_parts(), 3);
    assert_eq!(model.metadata().str("general.architecture").unwrap(), "llama");
    let found: Vec<(&str, &[u8])> = model.tensors().map(|t| (t.name, t.data)).collect();
    assert_eq!(found, [("tensor.0", &[0; 8][..]), ("tensor.1", &[1; 8]), ("tensor.2", &[2; 8])]);
    assert_eq!(model.tensor("tensor.2").unwrap().data, [2; 8]);
    let sizes: u64 = (0..3).map(|no| part(no).bytes().len() as u64).sum();
    assert_eq!(model.file_bytes(), sizes);
}

/// Each part keeps to the alignment it states, whatever the first one's.
#[test]
fn each_part_has_its_own_alignment() {
    let folder = parts("aligned", |no, spec| {
        let alignment = 64 << no;
        Spec { alignment, ..spec.key("general.alignment", Val::U32(alignment as u32)) }
    });
    assert_eq!(open_first(&folder).unwrap().tensor("tensor.1").unwrap().data, [1; 8]);
}

#[test]
fn a_missing_part_is_named() {
    let folder = parts("missing", |_, spec| spec);
    std::fs::remove_file(folder.path().join("m-00002-of-00003.gguf")).unwrap();
    let error = open_first(&folder).unwrap_err();
    assert!(
        matches!(error, GgufError::Io { .. }) && error.to_string().contains("m-00002-of-00003.gguf"),
        "{error}"
    );
}

#[test]
fn another_part_than_the_first_says_which_to_open() {
    let folder = parts("second", |_, spec| spec);
    let error = open(&folder.path().join("m-00002-of-00003.gguf")).unwrap_err();
    assert!(matches!(error, GgufError::NotFirstSplit { index: 1, count: 3, .. }), "{error:?}");
    let message = error.to_string();
    assert!(
        message.contains("part 2 of 3") && message.contains("m-00001-of-00003.gguf instead"),
        "{message}"
    );
}

#[test]
fn a_part_under_another_name_says_what_is_expected() {
    let folder = TempFolder::new("renamed");
    for name in ["model.gguf", "m-00001-of-00004.gguf", "m-1-of-3.gguf"] {
        let error = open(&folder.write(name, &part(0).bytes())).unwrap_err();
        assert!(matches!(error, GgufError::SplitName { index: 0, count: 3, .. }), "{error:?}");
        assert!(error.to_string().contains("-00001-of-00003.gguf"), "{error}");
    }
}

#[test]
fn parts_that_do_not_belong_together_are_refused() {
    type Change = fn(Spec) -> Spec;
    let cases: [(&str, Change, &str, u64, u64); 3] = [
        ("number", |spec| with(spec, "split.no", Val::U16(2)), "split.no", 2, 1),
        ("count", |spec| with(spec, "split.count", Val::U16(4)), "split.count", 4, 3),
        ("total", |spec| with(spec, "split.tensors.count", Val::I32(5)), "split.tensors.count", 5, 3),
    ];
    for (name, change, key, found, expected) in cases {
        let folder = parts(name, |no, spec| if no == 1 { change(spec) } else { spec });
        let error = open_first(&folder).unwrap_err();
        let right = matches!(
            &error,
            GgufError::SplitMismatch { part: 1, key: k, found: f, expected: e } if (*k, *f, *e) == (key, found, expected)
        );
        assert!(right, "{error:?}");
        let message = format!("part 2 of a split model has {key} {found}, expected {expected}");
        assert_eq!(error.to_string(), message);
    }
    let whole = parts("whole", |no, spec| if no == 1 { Spec { keys: Vec::new(), ..spec } } else { spec });
    let error = open_first(&whole).unwrap_err();
    assert!(
        matches!(error, GgufError::SplitMismatch { part: 1, key: "split.count", found: 1, .. }),
        "{error:?}"
    );
}

#[test]
fn a_tensor_in_two_parts_is_refused() {
    let folder = parts("twice", |_, mut spec| {
        spec.tensors[0].name = "same".to_owned();
        spec
    });
    let error = open_first(&folder).unwrap_err();
    assert!(
        matches!(error, GgufError::DuplicateTensor { .. }) && error.to_string().contains("\"same\""),
        "{error}"
    );
}

/// A count of billions costs nothing before the first part that is not there.
#[test]
fn counts_and_numbers_out_of_range() {
    let folder = TempFolder::new("vast");
    let spec = with(part(0), "split.count", Val::U32(u32::MAX));
    let error = open(&folder.write("m-00001-of-4294967295.gguf", &spec.bytes())).unwrap_err();
    assert!(error.to_string().contains("m-00002-of-4294967295.gguf"), "{error}");
    for no in [Val::U32(u32::MAX), Val::U16(3), Val::I16(-1)] {
        let error = refusal(with(part(0), "split.no", no).bytes());
        assert!(
            matches!(error, GgufError::ValueOutOfRange { .. }) && error.to_string().contains("split.no"),
            "{error}"
        );
    }
    let error = refusal(part(0).bytes());
    assert!(
        matches!(error, GgufError::SplitMismatch { key: "split.count", .. }),
        "one part in memory: {error:?}"
    );
    let whole = [Val::U16(0), Val::U16(1)].map(|count| with(part(0), "split.count", count));
    for spec in whole {
        let folder = TempFolder::new("unsplit");
        let spec = with(spec, "split.tensors.count", Val::I32(1));
        open(&folder.write("any-name.gguf", &spec.bytes())).unwrap();
    }
}
