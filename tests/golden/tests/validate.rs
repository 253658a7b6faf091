//! Every module that the writer makes of the fixtures is accepted by the outside validator.

use kiln_abi::spirv::{Capability, Op};
use kiln_golden::{SpirvValError, fixtures, spirv_val};
use kiln_spirv_emit::words::decode;

#[test]
fn every_fixture_is_accepted() {
    let kernels = fixtures::compile_all().unwrap_or_else(|e| panic!("{e}"));
    let refused: Vec<String> =
        kernels.iter().filter_map(|k| Some(format!("{}: {}", k.name, spirv_val(&k.words).err()?))).collect();
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

#[test]
fn a_module_without_a_needed_capability_is_refused() {
    for kernel in fixtures::compile_all().unwrap_or_else(|e| panic!("{e}")) {
        for &capability in &kernel.layout.capabilities {
            // Implied by the capabilities of the subgroup operations that stand beside it.
            let implied = capability == Capability::GroupNonUniform
                && kernel.layout.capabilities.iter().any(|c| (62..=66).contains(&c.number()));
            if implied {
                continue;
            }
            let mut words = kernel.words.clone();
            let declared = decode(&kernel.words).unwrap();
            let declaration = declared
                .iter()
                .find(|i| i.op == Op::Capability && i.word(0) == capability.number())
                .unwrap()
                .at;
            words.drain(declaration..declaration + 2);
            let verdict = spirv_val(&words);
            assert!(
                matches!(verdict, Err(SpirvValError::Refused(_))),
                "{} without {}: {verdict:?}",
                kernel.name,
                capability.name()
            );
        }
    }
}
