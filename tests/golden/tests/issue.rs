//! What a gemv issues for a weight of each format, as recorded, beside what an H200 can issue meanwhile.
#![expect(clippy::panic, reason = "tests")]

use std::path::Path;

use kiln_abi::StagedKernel;
use kiln_golden::{
    issue::{head, line, round},
    kernels::stage,
    record::check_lines,
};
use kiln_kernels::{FormatRow, Registry, gemv::Exact};

#[test]
fn every_format_issues_what_is_recorded() {
    let registry = Registry::builtin();
    let packed = |row: &&FormatRow| row.gemv.is_packed();
    let of = |exact| move |row: &FormatRow| line(row, exact).unwrap_or_else(|e| panic!("{}: {e}", row.name));
    let lines =
        registry.formats().map(of(Exact::Two)).chain(registry.formats().filter(packed).map(of(Exact::One)));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("issue.txt");
    check_lines(&path, lines.chain([head()])).unwrap_or_else(|e| panic!("{e}"));
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
