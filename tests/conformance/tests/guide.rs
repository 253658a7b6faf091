//! The guide's lists against the language: a name in them is a function of it.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The texts of a folder's files and of those of its folders.
fn texts(folder: &Path) -> Vec<String> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let of = |path: PathBuf| {
        if path.is_dir() { texts(&path) } else { vec![fs::read_to_string(path).unwrap()] }
    };
    paths.flat_map(of).collect()
}

/// Names of the functions that the source defines, by `fn` or in a row of a macro.
fn defined() -> Vec<String> {
    let texts = texts(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dsl/src"));
    let name = |line: &str| {
        let line = line.trim().trim_start_matches("pub fn ");
        line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().map(str::to_owned)
    };
    texts.iter().flat_map(|text| text.lines().filter_map(name).collect::<Vec<_>>()).collect()
}

/// The names that a row of the table of families holds.
fn named(row: &str) -> Vec<&str> {
    let quoted = row.split('`').skip(1).step_by(2);
    let words = quoted.flat_map(|q| q.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
    words.filter(|w| w.len() > 1 && w.starts_with(|c: char| c.is_ascii_lowercase())).collect()
}

#[test]
fn every_name_of_the_families_is_there() {
    let guide = include_str!("../../../docs/kernels.md");
    let table = guide.split("| family | names |").nth(1).unwrap().split("\n\n").next().unwrap();
    let (defined, mut names) = (defined(), 0);
    // Modules and what their examples call things.
    let others = ["subgroup", "atomic", "acquire", "release", "acquire_release", "tile", "table", "staged"];
    for row in table.lines().skip(2) {
        for name in named(row.split('|').nth(2).unwrap()).into_iter().filter(|n| !others.contains(n)) {
            let there = defined.iter().any(|d| d == name) || name == "kprintln" || name.starts_with("_");
            assert!(there, "{name} of `{row}`");
            names += 1;
        }
    }
    assert!(names > 80, "{names}");
    assert!(!defined.iter().any(|d| d == "cluster_mul"));
}
