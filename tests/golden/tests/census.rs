//! What the kernels use is what is declared, both ways; capabilities derived twice agree.

use std::{collections::BTreeSet, path::Path};

use kiln_abi::{
    StagedKernel,
    spirv::{Capability, Op},
};
use kiln_golden::{fixtures, record::check_lines};
use kiln_spirv_emit::census::{Key, capabilities_from_words, census};

/// Rows of the op table that the interpreter reads and the writer never writes.
const ONLY_READ: &[Op] = &[
    Op::MemberName,
    Op::String,
    Op::Line,
    Op::Extension,
    Op::Undef,
    Op::FunctionParameter,
    Op::FunctionCall,
    Op::ReturnValue,
];

fn kernels() -> Vec<StagedKernel> {
    fixtures::compile_all().unwrap_or_else(|e| panic!("{e}"))
}

fn used(kernels: &[StagedKernel]) -> BTreeSet<Key> {
    kernels.iter().flat_map(|k| census(&k.words).unwrap()).collect()
}

#[test]
fn use_is_as_declared() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("census.txt");
    let lines = used(&kernels()).into_iter().map(|key| key.to_string());
    check_lines(&path, lines).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn every_row_that_can_be_written_is_written_by_a_fixture() {
    let used = used(&kernels());
    let unused: Vec<Op> = Op::ALL
        .iter()
        .copied()
        .filter(|&op| used.contains(&Key::Op(op)) == ONLY_READ.contains(&op))
        .collect();
    assert_eq!(unused, [], "written although listed as only read, or written by no fixture");
}

#[test]
fn declared_capabilities_are_those_that_the_words_need() {
    for kernel in kernels() {
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
        let kernel = kernels().into_iter().find(|k| k.name == name).unwrap();
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
