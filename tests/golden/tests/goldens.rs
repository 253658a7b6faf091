//! Readable snapshots of some kernels, a hash of all, the same words on every thread.
#![expect(clippy::panic, reason = "tests")]

use std::{collections::BTreeSet, env, fs, path::Path, thread};

use kiln_abi::StagedKernel;
use kiln_golden::{
    fixtures, kernels,
    record::{RecordError, check_lines, compare, manifest},
};
use kiln_kernels::{Registry, Variant};
use kiln_spirv_emit::disasm::disassemble;

/// Fixtures whose text is kept, beside the kernels that [`kernels::readable`] chooses.
const READABLE: &[&str] = &["branches", "loops", "workgroup_sum", "read_write", "locals", "atomics", "debug"];

fn registered() -> Vec<StagedKernel> {
    kernels::stage_all().unwrap_or_else(|e| panic!("{e}"))
}

fn by_hand() -> Vec<StagedKernel> {
    fixtures::compile_all().unwrap_or_else(|e| panic!("{e}"))
}

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn snapshot_of_fixture(name: &str) -> String {
    format!("fixture_{name}")
}

fn snapshot_of_kernel(name: &str) -> String {
    format!("kernel_{}", kernels::file_name(name))
}

#[test]
fn readable_kernels_are_as_reviewed() {
    let staged = registered();
    for name in kernels::readable(&staged) {
        let kernel = staged.iter().find(|k| k.name == name).unwrap();
        insta::assert_snapshot!(snapshot_of_kernel(&name), disassemble(&kernel.words).unwrap());
    }
}

#[test]
fn readable_fixtures_are_as_reviewed() {
    let staged = by_hand();
    for name in READABLE {
        let kernel = staged.iter().find(|k| k.name == *name).unwrap();
        insta::assert_snapshot!(snapshot_of_fixture(name), disassemble(&kernel.words).unwrap());
    }
}

/// A snapshot without its kernel is deleted when goldens are recorded.
#[test]
fn every_snapshot_has_its_kernel() {
    let kernels = kernels::readable(&registered()).into_iter().map(|n| snapshot_of_kernel(&n));
    let wanted: BTreeSet<String> = kernels.chain(READABLE.iter().map(|n| snapshot_of_fixture(n))).collect();
    let mut found = BTreeSet::new();
    for file in fs::read_dir(folder().join("tests/snapshots")).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().and_then(|f| f.to_str()).and_then(|f| f.strip_prefix("goldens__"));
        let Some(name) = name.and_then(|f| f.strip_suffix(".snap")) else { continue };
        if !wanted.contains(name) && env::var_os("KILN_UPDATE_GOLDENS").is_some() {
            fs::remove_file(&path).unwrap();
            continue;
        }
        found.insert(name.to_owned());
    }
    if env::var_os("KILN_UPDATE_GOLDENS").is_none() {
        assert_eq!(found, wanted);
    }
}

#[test]
fn every_kernel_has_its_recorded_hash() {
    check_lines(&folder().join("manifest.txt"), manifest(&registered())).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn every_fixture_has_its_recorded_hash() {
    check_lines(&folder().join("fixtures.txt"), manifest(&by_hand())).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn a_changed_word_is_no_longer_the_recorded_kernel() {
    let mut kernels = by_hand();
    let recorded = manifest(&kernels).join("\n");
    assert!(compare("", &recorded, &manifest(&kernels).into_iter().collect()).is_ok());
    kernels[0].words[3] += 1;
    match compare("", &recorded, &manifest(&kernels).into_iter().collect()) {
        Err(RecordError::Differs { gone, new, .. }) => assert_eq!((gone.len(), new.len()), (1, 1)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn words_are_the_same_from_one_thread_and_from_two() {
    let registry = Registry::builtin();
    // Neighbors in the list are tiles and forms of one kernel: every seventh is of another kind.
    let some: Vec<&Variant> = registry.variants().step_by(7).collect();
    let staged = || some.iter().map(|v| v.stage().unwrap_or_else(|e| panic!("{e}"))).collect::<Vec<_>>();
    let (fixtures, kernels) = (by_hand(), staged());
    let both =
        thread::scope(|s| [(); 2].map(|()| s.spawn(|| (by_hand(), staged()))).map(|t| t.join().unwrap()));
    for (again, kernels_again) in both {
        assert!(again == fixtures && kernels_again == kernels);
    }
}
