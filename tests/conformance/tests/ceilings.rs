//! What each kernel does when it runs, counted by the interpreter, stays under its row of `ceilings.txt`.
#![expect(clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;

use kiln_conformance::assert_layouts;
use kiln_golden::budget::{Budget, BudgetError, Names, budgets, check};
use kiln_kernels::{
    Registry, Variant,
    conformance::{self, Case},
    kernel_of,
};
use kiln_spirv_interp::{Counters, InterpOptions, Interpreter};

const NAMES: Names<6> =
    ["instructions", "bytes", "barriers", "subgroup operations", "divergent instructions", "f16 overflows"];

fn ceilings() -> Vec<Budget<6>> {
    budgets("tests/golden/ceilings.txt", include_str!("../../golden/ceilings.txt"))
        .unwrap_or_else(|e| panic!("{e}"))
}

fn numbers(n: &Counters) -> [u64; 6] {
    let bytes = n.buffers.loaded_bytes + n.buffers.stored_bytes;
    [n.instructions, bytes, n.barriers, n.subgroup_operations, n.divergent, n.f16_overflows]
}

/// The counters of the launch with the most bytes.
fn run(variant: &Variant) -> [u64; 6] {
    let interp = Interpreter::new(InterpOptions::default());
    let kernel = variant.stage().unwrap_or_else(|e| panic!("{e}"));
    let bytes = |case: &Case| case.buffers.iter().map(conformance::Buffer::bytes).sum::<usize>();
    let case = variant.cases().max_by_key(bytes).unwrap();
    conformance::check(&interp, &kernel, &case).unwrap_or_else(|e| panic!("{}: {e}", variant.name));
    numbers(&interp.last_counters())
}

/// One variant stands for a kernel: the registry's first.
fn counted() -> Vec<(String, [u64; 6])> {
    let (registry, mut kernels) = (Registry::builtin(), BTreeSet::new());
    assert_layouts(registry.formats());
    let name = |v: &Variant| kernel_of(&v.name).to_owned();
    let firsts = registry.variants().filter(|v| kernels.insert(name(v)));
    firsts.map(|v| (name(v), run(v))).collect()
}

#[test]
fn every_kernel_stays_under_its_ceiling() {
    let counted = counted();
    for (name, numbers) in &counted {
        println!("{} {name}", numbers.map(|n| format!("{n:8}")).join(" "));
    }
    let errors = check(NAMES, &ceilings(), &counted);
    let text: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert!(errors.is_empty(), "tests/golden/ceilings.txt:\n{}", text.join("\n"));
    assert!(counted.len() >= 15, "{}", counted.len());
}

#[test]
fn one_more_of_anything_is_told() {
    let row = ceilings().into_iter().find(|r| r.name == "rms_norm").unwrap();
    for (n, cost) in NAMES.into_iter().enumerate() {
        let mut numbers = row.limits;
        numbers[n] += 1;
        let over = check(NAMES, std::slice::from_ref(&row), &[("rms_norm".to_owned(), numbers)]);
        let told = |e: &BudgetError| matches!(e, BudgetError::Over { cost: c, .. } if *c == cost);
        assert!(matches!(&over[..], [e] if told(e)), "{over:?}");
    }
}
