//! What a gemv issues for a weight of each format, as recorded, beside what an H200 can issue meanwhile.
#![expect(clippy::panic, reason = "tests")]

use std::{fs, path::Path};

use kiln_abi::StagedKernel;
use kiln_golden::{
    issue::{head, line, round, times},
    kernels::stage,
    record::check_lines,
};
use kiln_kernels::{FormatRow, Registry, gemv::Exact};

#[test]
fn every_format_issues_what_is_recorded() {
    let registry = Registry::builtin();
    let packed = |row: &&FormatRow| row.gemv.is_packed();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("issue.txt");
    let recorded = fs::read_to_string(&path).unwrap_or_default();
    let of = |exact| {
        let recorded = &recorded;
        move |row: &FormatRow| line(row, exact, recorded).unwrap_or_else(|e| panic!("{}: {e}", row.name))
    };
    let lines =
        registry.formats().map(of(Exact::Two)).chain(registry.formats().filter(packed).map(of(Exact::One)));
    check_lines(&path, lines.chain([head()])).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn what_a_format_may_take_is_kept_and_of_a_new_one_usual() {
    let row = |times: &str| format!("{}\nF1 dot4 64x2 1 2 3 4 5 15 3.62 {times} 5.61 integer\n", head());
    assert_eq!([times("F1", &row("1.4")), times("F1", &row("?")), times("F2", &row("1.4"))], [1.4, 1.8, 1.8]);
    let registry = Registry::builtin();
    let format = registry.formats().next().unwrap_or_else(|| panic!("no format"));
    let read = |recorded: &str| times(format.name, &line(format, Exact::Two, recorded).unwrap_or_default());
    assert_eq!([read(""), read(&format!("{} a b 1 2 3 4 5 6 7 1.4", format.name))], [1.8, 1.4]);
}

fn staged(name: &str) -> StagedKernel {
    let registry = Registry::builtin();
    let variants: Vec<_> = registry.variants().filter(|v| v.name == name).collect();
    stage(&variants).unwrap_or_else(|e| panic!("{e}")).remove(0)
}

#[test]
fn loads_lookups_and_dots_are_those_counted_by_hand() {
    // Two rows: of each two times sixteen bytes and a scale; of x three times sixteen bytes.
    let q8 = staged("gemv_dot4<Q8_0>(planes: One, t: 64x2x1, ahead 0, local 256, subgroup 32, form: )");
    let [loads, lookups, _, dots, _] = round(&q8.words).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!([loads, lookups, dots], [2 * 3 + 3, 0, 2 * 8]);
    // Four rows: of each sixteen bytes and a scale, and sixteen pairs of nibbles; of x five times sixteen bytes.
    let iq4 = staged(
        "gemv_dot4<Iq4Nl>(planes: Two, t: 32x4x1, ahead 1, local 256, copies 16, subgroup 32, form: )",
    );
    let [loads, lookups, _, dots, _] = round(&iq4.words).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!([loads, lookups, dots], [4 * 2 + 5, 4 * 16, 4 * 16]);
}
