//! Errors found while staging: code, line and column, all of a kernel at once; and the twin of each that stages.

mod kernels;
mod mistakes;
mod rows;
mod twins;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use kernels::staged;

#[test]
fn errors_stand_at_the_users_token_all_at_once() {
    let mut expected = BTreeSet::new();
    for (line, text) in (1u32..).zip(include_str!("kernels.rs").lines()) {
        let Some((code, marks)) = text.split_once("//~ ") else { continue };
        if code.trim().is_empty() || code.contains('"') || code.starts_with("//!") {
            continue;
        }
        for mark in marks.split(", ") {
            let (id, token) = mark.split_once(' ').unwrap();
            let column = code.find(token).unwrap_or_else(|| panic!("line {line} has no `{token}`")) + 1;
            expected.insert((line, u32::try_from(column).unwrap(), id.to_owned()));
        }
    }
    let mut found = BTreeSet::new();
    for (name, bad, _) in staged() {
        let errors = bad.err().unwrap_or_else(|| panic!("{name} stages")).errors;
        for e in errors {
            assert!(e.at.file.ends_with("kernels.rs"), "{e}");
            found.insert((e.at.line, e.at.column, e.code.to_owned()));
        }
    }
    let missing: Vec<_> = expected.difference(&found).collect();
    let surplus: Vec<_> = found.difference(&expected).collect();
    assert!(missing.is_empty() && surplus.is_empty(), "missing {missing:?}, surplus {surplus:?}");
}

/// The texts of a folder's files and of those of its folders.
#[expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
fn texts(folder: &Path) -> Vec<String> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let of = |path: PathBuf| {
        if path.is_dir() { texts(&path) } else { vec![fs::read_to_string(path).unwrap()] }
    };
    paths.flat_map(of).collect()
}

#[test]
fn every_code_of_the_language_has_a_fixture() {
    let codes: BTreeSet<String> = texts(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dsl/src"))
        .into_iter()
        .flat_map(|text| text.split('"').map(str::to_owned).collect::<Vec<_>>())
        .filter(|s| s.len() == 4 && s.starts_with('E') && s[1..].chars().all(|c| c.is_ascii_digit()))
        .collect();
    let shown: BTreeSet<String> = staged()
        .into_iter()
        .filter_map(|(_, bad, _)| bad.err())
        .flat_map(|e| e.errors)
        .map(|e| e.code.to_owned())
        .collect();
    assert!(codes.len() > 8, "{codes:?}");
    assert!(codes.is_subset(&shown), "without a fixture: {:?}", codes.difference(&shown));
}

#[test]
fn the_twins_stage() {
    for (name, _, good) in staged() {
        if let Err(errors) = good {
            panic!("{name}: {errors}");
        }
    }
}
