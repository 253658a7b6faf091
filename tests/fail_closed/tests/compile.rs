//! Every fixture fails under the token that its `.stderr` names; every control twin stages.

use std::{collections::BTreeSet, fs, path::Path};

use kiln_fail_closed::controls;

fn stems(extension: &str) -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("ui");
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let chosen = entries.filter(|p| p.extension().is_some_and(|e| e == extension));
    chosen.filter_map(|p| Some(p.file_stem()?.to_string_lossy().into_owned())).collect()
}

#[test]
fn every_fixture_fails_at_its_token() {
    trybuild::TestCases::new().compile_fail("ui/*.rs");
}

#[test]
fn every_fixture_has_a_control_and_a_message() {
    let controls: Vec<_> = controls::all().into_iter().map(|(name, _)| name.to_owned()).collect();
    let named: BTreeSet<_> = controls.iter().cloned().collect();
    assert_eq!(named.len(), controls.len(), "a name is used twice");
    assert!(!named.is_empty());
    assert_eq!(stems("rs"), named, "fixtures and controls differ");
    assert_eq!(stems("stderr"), named, "fixtures and messages differ");
}

#[test]
fn every_control_stages() {
    let failed: Vec<_> = controls::all()
        .into_iter()
        .filter_map(|(name, stage)| Some(format!("{name}: {}", stage().err()?)))
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
