//! Holds this repository to its rules.

use kiln_tidy::repo::{self, Text};
use kiln_tidy::source::{self, Source};
use kiln_tidy::{Fault, crates, files, formats, panics, stage_order, texts, unsafety, vulkan};

#[track_caller]
fn check(faults: Vec<Fault>) {
    let lines: Vec<String> = faults.iter().map(Fault::to_string).collect();
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), lines.join("\n"));
}

fn tracked() -> Vec<Text> {
    let tracked = repo::tracked().expect("git lists the files");
    assert!(tracked.len() > 30, "git lists the repository");
    tracked
}

fn sources() -> Vec<Source> {
    source::parse(&tracked()).0
}

#[test]
fn every_rust_file_parses() {
    check(source::parse(&tracked()).1);
}

#[test]
fn crate_edges_equal_the_table() {
    let tracked = tracked();
    let architecture =
        tracked.iter().find(|text| text.path == crates::TABLE).expect("ARCHITECTURE.md is tracked");
    check(crates::check(&repo::metadata().unwrap(), &crates::declared(&architecture.text).unwrap()));
}

/// CONTRIBUTING.md says so of the example; a crate that takes its version from the workspace cannot.
#[test]
fn the_example_of_a_format_can_be_copied_out() {
    let tree = repo::tree_of_copy("examples/ternary-format").unwrap();
    assert!(tree.contains("kiln-kernels v") && tree.contains("kiln-conformance v"), "{tree}");
    let why = repo::tree_of_copy("abi").unwrap_err();
    assert!(why.contains("workspace"), "{why}");
}

#[test]
fn engine_stages_import_earlier_stages_only() {
    check(stage_order::check(&sources(), stage_order::ORDER));
}

#[test]
fn only_the_runtime_speaks_vulkan() {
    check(vulkan::check(&sources()));
}

#[test]
fn formats_are_named_in_their_places_only() {
    check(formats::check(&sources(), formats::HOMES));
}

#[test]
fn what_a_user_reaches_does_not_panic() {
    check(panics::check(&sources()));
}

#[test]
fn crates_forbid_unsafe_code() {
    check(unsafety::check(&sources()));
}

#[test]
fn file_names_say_what_is_inside() {
    check(files::names(&tracked()));
}

#[test]
fn files_keep_to_their_budgets() {
    check(files::lengths(&tracked(), files::WAIVERS));
}

#[test]
fn every_file_opens_with_its_purpose() {
    check(files::openings(&tracked()));
}

#[test]
fn texts_name_no_machine_and_no_registry() {
    check(texts::check(&tracked()));
}
