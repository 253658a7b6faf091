//! The guide's lists against the language: a name in them is a function of it.
#![expect(clippy::unwrap_used, reason = "tests")]

use kiln_tidy::repo;

/// Names of the functions that the source defines, by `fn` or in a row of a macro.
fn defined() -> Vec<String> {
    let tracked = repo::tracked().unwrap();
    let name = |line: &str| {
        let line = line.trim().trim_start_matches("pub fn ");
        line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().map(str::to_owned)
    };
    let sources = tracked.iter().filter(|text| text.path.starts_with("dsl/src/"));
    sources.flat_map(|text| text.text.lines().filter_map(name)).collect()
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
