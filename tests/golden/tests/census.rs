//! What the kernels use is what is declared, both ways; capabilities derived twice agree.
#![expect(clippy::panic, reason = "tests")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use kiln_abi::{
    StagedKernel,
    spirv::{Capability, Op},
};
use kiln_golden::{fixtures, kernels};
use kiln_spirv_emit::census::{Key, capabilities_from_words, census};

/// Rows of the op table that the interpreter reads and the writer never writes.
const ONLY_READ: &[Op] = &[Op::MemberName, Op::Undef, Op::FunctionCall, Op::Phi];

fn by_hand() -> Vec<StagedKernel> {
    fixtures::compile_all().unwrap_or_else(|e| panic!("{e}"))
}

fn registered() -> Vec<StagedKernel> {
    kernels::stage_all().unwrap_or_else(|e| panic!("{e}"))
}

fn used(kernels: &[StagedKernel]) -> BTreeSet<Key> {
    users(kernels).into_keys().collect()
}

/// What is used, with the name of the first kernel that uses it.
fn users(kernels: &[StagedKernel]) -> BTreeMap<Key, &str> {
    let mut users = BTreeMap::new();
    for kernel in kernels {
        for key in census(&kernel.words).unwrap_or_else(|e| panic!("{}: {e}", kernel.name)) {
            users.entry(key).or_insert(kernel.name.as_str());
        }
    }
    users
}

/// The declared set is a page written by hand: `#` starts a comment, and no command rewrites it.
fn check_declared(file: &str, kernels: &[StagedKernel]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let declared = fs::read_to_string(path).unwrap_or_else(|e| panic!("{file}: {e}"));
    let found: BTreeMap<String, &str> =
        users(kernels).into_iter().map(|(key, user)| (key.to_string(), user)).collect();
    let (unused, undeclared) = open(&declared, &found);
    assert!(
        unused.is_empty() && undeclared.is_empty(),
        "tests/golden/{file} is edited by hand: take out what nothing uses, {unused:#?}; a new use needs a line there, \
         and its reason in the commit, {undeclared:#?}"
    );
}

/// What is declared and not found, and the reverse, with who uses it.
fn open(declared: &str, found: &BTreeMap<String, &str>) -> (Vec<String>, Vec<String>) {
    let lines = declared.lines().filter(|l| !l.starts_with('#') && !l.is_empty());
    let declared: BTreeSet<&str> = lines.collect();
    let unused = declared.iter().filter(|line| !found.contains_key(**line)).map(|&line| line.to_owned());
    let undeclared = found.iter().filter(|(key, _)| !declared.contains(key.as_str()));
    (unused.collect(), undeclared.map(|(key, user)| format!("{key} (used by {user})")).collect())
}

#[test]
fn the_declared_set_is_open_at_neither_end() {
    let found = BTreeMap::from(["op Load", "op Store"].map(|key| (key.to_owned(), "copy")));
    assert_eq!(open("# a comment\nop Load\nop Store\n", &found), (vec![], vec![]));
    assert_eq!(open("op Load\n", &found).1, ["op Store (used by copy)"]);
    assert_eq!(open("op Load\nop Store\nop FAdd\n", &found).0, ["op FAdd"]);
}

#[test]
fn kernels_use_what_is_declared_and_all_of_it() {
    check_declared("census.txt", &registered());
}

#[test]
fn fixtures_use_what_is_declared_and_all_of_it() {
    check_declared("census_fixtures.txt", &by_hand());
}

#[test]
fn kernels_use_nothing_that_no_fixture_shows() {
    let shown = used(&by_hand());
    let unshown: Vec<String> =
        used(&registered()).into_iter().filter(|k| !shown.contains(k)).map(|k| k.to_string()).collect();
    assert!(unshown.is_empty(), "{unshown:?}");
}

#[test]
fn every_row_that_can_be_written_is_written_by_a_fixture() {
    let used = used(&by_hand());
    let unused: Vec<Op> = Op::ALL
        .iter()
        .copied()
        .filter(|&op| used.contains(&Key::Op(op)) == ONLY_READ.contains(&op))
        .collect();
    assert_eq!(unused, [], "written although listed as only read, or written by no fixture");
}

#[test]
fn declared_capabilities_are_those_that_the_words_need() {
    for kernel in by_hand().into_iter().chain(registered()) {
        let declared: BTreeSet<Capability> = kernel.layout.capabilities.iter().copied().collect();
        let in_words: BTreeSet<Capability> = census(&kernel.words)
            .unwrap()
            .into_iter()
            .filter_map(|key| match key {
                Key::Capability(n) => Capability::from_number(n),
                _ => None,
            })
            .collect();
        assert_eq!(in_words, declared, "{}", kernel.name);
        assert_eq!(capabilities_from_words(&kernel.words).unwrap(), declared, "{}", kernel.name);
    }
}

#[test]
fn narrow_types_need_registers_only_where_they_are_computed_with() {
    let caps = |name: &str| {
        let kernel = by_hand().into_iter().find(|k| k.name == name).unwrap();
        kernel.layout.capabilities.into_iter().map(Capability::name).collect::<Vec<_>>()
    };
    assert_eq!(
        caps("narrow_copy"),
        ["Shader", "StorageBuffer16BitAccess", "StorageBuffer8BitAccess", "VulkanMemoryModel"]
    );
    assert_eq!(
        caps("narrow_math"),
        ["Shader", "Float16", "Int16", "StorageBuffer16BitAccess", "VulkanMemoryModel"]
    );
    assert_eq!(caps("conversions"), ["Shader", "Float16", "Int16", "Int8", "VulkanMemoryModel"]);
    assert_eq!(caps("add"), ["Shader", "VulkanMemoryModel"]);
    assert!(caps("read_write").contains(&"VulkanMemoryModelDeviceScope"));
    assert!(!caps("workgroup_sum").contains(&"VulkanMemoryModelDeviceScope"));
}
