//! Errors found while staging: code, line and column, all of a kernel at once; and the twin of each that stages.

mod kernels;
mod mistakes;
mod rows;
mod twins;

use std::collections::BTreeSet;

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

#[test]
fn every_code_of_the_language_has_a_fixture() {
    let sources = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dsl/src");
    let texts =
        std::fs::read_dir(sources).unwrap().map(|f| std::fs::read_to_string(f.unwrap().path()).unwrap());
    let codes: BTreeSet<String> = texts
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
