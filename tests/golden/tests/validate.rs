//! Every module that the writer makes, of kernels and of fixtures, is accepted by the outside validator.

use kiln_abi::{
    StagedKernel,
    spirv::{Capability, Op},
};
use kiln_golden::{SpirvValError, fixtures, kernels, spirv_val};
use kiln_spirv_emit::words::decode;

#[test]
fn every_module_is_accepted() {
    let mut kernels = fixtures::compile_all().unwrap_or_else(|e| panic!("{e}"));
    kernels.extend(kernels::stage_all().unwrap_or_else(|e| panic!("{e}")));
    let check = |k: &StagedKernel| Some(format!("{}: {}", k.name, spirv_val(&k.words).err()?));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    // The validator is a program that is started once a module.
    let refused: Vec<String> = std::thread::scope(|scope| {
        let parts = kernels.chunks(kernels.len().div_ceil(threads));
        let parts: Vec<_> =
            parts.map(|part| scope.spawn(|| part.iter().filter_map(check).collect::<Vec<_>>())).collect();
        parts.into_iter().flat_map(|part| part.join().unwrap()).collect()
    });
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

#[test]
fn a_module_without_a_needed_capability_is_refused() {
    for kernel in fixtures::compile_all().unwrap_or_else(|e| panic!("{e}")) {
        for &capability in &kernel.layout.capabilities {
            if unchecked(capability, &kernel.layout.capabilities) {
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

/// What the validator accepts without its declaration: a capability that others beside it imply, narrow elements of
/// buffers where registers are as narrow, and the packed form of dot products.
fn unchecked(capability: Capability, declared: &[Capability]) -> bool {
    let any = |caps: &[Capability]| caps.iter().any(|c| declared.contains(c));
    match capability {
        Capability::Shader => any(&[Capability::PhysicalStorageBufferAddresses]),
        Capability::GroupNonUniform => declared.iter().any(|c| (62..=66).contains(&c.number())),
        Capability::StorageBuffer16BitAccess => any(&[Capability::Float16, Capability::Int16]),
        Capability::StorageBuffer8BitAccess => any(&[Capability::Int8]),
        Capability::DotProductInput4x8BitPacked => true,
        Capability::BFloat16TypeKHR | Capability::CooperativeMatrixKHR => {
            any(&[Capability::BFloat16CooperativeMatrixKHR])
        }
        _ => false,
    }
}
