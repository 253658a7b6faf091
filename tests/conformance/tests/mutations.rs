//! Kernels with one thing broken in their words: the interpreter, as it comes, traps at the kernel's source line.
#![allow(clippy::panic, clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use kiln_abi::{
    DeviceError, LaunchError, StagedKernel,
    spirv::{MemoryOperands, Op, OpResult},
};
use kiln_kernels::{
    Registry, Variant,
    conformance::{Failure, check},
};
use kiln_spirv_interp::{InterpOptions, Interpreter};

/// An instruction's first word and its length.
fn instructions(words: &[u32]) -> Vec<(usize, usize, Op)> {
    let (mut at, mut all) = (5, Vec::new());
    while at < words.len() {
        let len = (words[at] >> 16) as usize;
        all.push((at, len, Op::from_number(words[at] as u16).unwrap()));
        at += len;
    }
    all
}

/// The kernel without the instruction at `at`.
fn without(kernel: &StagedKernel, at: usize, len: usize) -> StagedKernel {
    let mut out = kernel.clone();
    out.words.drain(at..at + len);
    out.source.entries.retain(|e| e.0 as usize != at);
    for e in out.source.entries.iter_mut().filter(|e| e.0 as usize > at) {
        e.0 -= len as u32;
    }
    out
}

/// The kernel with word `at` replaced.
fn with(kernel: &StagedKernel, at: usize, word: u32) -> StagedKernel {
    let mut out = kernel.clone();
    out.words[at] = word;
    out
}

/// Each broken form of a kernel, with its name.
fn broken(kernel: &StagedKernel) -> Vec<(&'static str, StagedKernel)> {
    let words = &kernel.words;
    let all = instructions(words);
    let type_of: BTreeMap<u32, u32> = all
        .iter()
        .filter(|i| i.2.result() == OpResult::Typed)
        .map(|&(at, ..)| (words[at + 2], words[at + 1]))
        .collect();
    let workgroup: Vec<u32> = all
        .iter()
        .filter(|i| i.2 == Op::TypePointer && words[i.0 + 2] == 4)
        .map(|i| words[i.0 + 1])
        .collect();
    let is_shared = |pointer: u32| type_of.get(&pointer).is_some_and(|t| workgroup.contains(t));
    let two = all.iter().find(|i| i.2 == Op::Constant && words[i.0 + 3] == 2).map(|i| words[i.0 + 2]);
    let mut out = Vec::new();
    for &(at, len, op) in &all {
        match op {
            Op::ControlBarrier => {
                out.push(("a barrier removed", without(kernel, at, len)));
                // The scope's constant, 2, read as semantics: acquire alone.
                if let Some(two) = two {
                    out.push(("a barrier's semantics dropped", with(kernel, at + 3, two)));
                }
            }
            Op::ULessThan => {
                let word = words[at] & !0xffff | u32::from(Op::ULessThanEqual.number());
                out.push(("a bound widened", with(kernel, at, word)));
            }
            Op::Store if is_shared(words[at + 1]) => {
                out.push(("a store to workgroup memory removed", without(kernel, at, len)));
                let flags = words[at + 3] & !MemoryOperands::NON_PRIVATE;
                out.push(("a store's NonPrivatePointer dropped", with(kernel, at + 3, flags)));
            }
            Op::Load if is_shared(words[at + 3]) => {
                let flags = words[at + 4] & !MemoryOperands::NON_PRIVATE;
                out.push(("a load's NonPrivatePointer dropped", with(kernel, at + 4, flags)));
            }
            _ => {}
        }
    }
    out
}

/// What the first objection says; `None` when every case passes.
fn objection(variant: &Variant, kernel: &StagedKernel, interp: &Interpreter) -> Option<Failure> {
    variant.cases().iter().find_map(|case| check(interp, kernel, case).err())
}

/// Not every place matters: the barrier behind a kernel's last store orders nothing, and an invocation's own word
/// needs no flag. So each kind of mistake has to be caught at one place of the kernel at least, by a trap.
#[test]
fn every_kind_of_mistake_traps_in_every_kernel() {
    let interp = Interpreter::new(InterpOptions { subgroup_size: 8, ..Default::default() });
    let (registry, mut kernels) = (Registry::builtin(), BTreeSet::new());
    for variant in registry.variants() {
        // One variant stands for a kernel.
        let name = variant.name.split(['<', '(']).next().unwrap_or_default().to_owned();
        let kernel = variant.stage().unwrap();
        let mut found: BTreeMap<&str, Vec<Option<Failure>>> = BTreeMap::new();
        let broken = broken(&kernel);
        if broken.is_empty() || !kernels.insert(name) {
            continue;
        }
        for (what, broken) in broken {
            found.entry(what).or_default().push(objection(variant, &broken, &interp));
        }
        for (what, places) in found {
            let traps: Vec<&str> = places.iter().flatten().filter_map(trap).collect();
            let total = places.len();
            println!("{}: {what} at {total} places, {} trap", variant.name, traps.len());
            let first = *traps.first().unwrap_or_else(|| panic!("{}: {what}: no trap", variant.name));
            println!("  {first}");
            assert!(traps.iter().all(|t| t.contains("kernels/src/") && t.contains(".rs:")), "{traps:#?}");
        }
    }
    assert!(kernels.len() >= 2, "{kernels:?}");
}

fn trap(failure: &Failure) -> Option<&str> {
    let Failure::Launch { error, .. } = failure else { return None };
    match &**error {
        LaunchError::Device(DeviceError::Trap { trap, .. }) => Some(trap),
        _ => None,
    }
}
