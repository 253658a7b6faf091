//! Kernels with one thing broken in their words: the interpreter, as it comes, traps at the kernel's source line.
#![allow(clippy::panic, clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use kiln_abi::{
    BufferRange, Device, DeviceError, Dispatch, Grid, Kernel, LaunchError, StagedKernel,
    spirv::{MemoryOperands, Op, OpResult, StorageClass},
};
use kiln_conformance::assert_layouts;
use kiln_kernels::{
    Registry,
    conformance::{Case, Failure, check},
    kernel_of,
};
use kiln_spirv_interp::{InterpOptions, Interpreter, SUBGROUP_SIZES};

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

/// Places looked at, once one has trapped.
const MANY: usize = 8;

/// The same in an order that leaps: neighbors are copies of one loop's body.
fn mixed<T>(all: Vec<T>) -> Vec<T> {
    let mut all: Vec<(u32, T)> = (0_u32..).map(|i| i.wrapping_mul(0x9e37_79b9)).zip(all).collect();
    all.sort_by_key(|each| each.0);
    all.into_iter().map(|each| each.1).collect()
}

/// What the first objection says; `None` when every case passes.
fn objection(cases: &[Case], kernel: &StagedKernel, interp: &Interpreter) -> Option<Failure> {
    cases.iter().find_map(|case| check(interp, kernel, case).err())
}

/// Kernels and the kind of mistake that no trap sees there, but the comparison: an attention tile's keys are clamped by
/// their layout, so that one too many is a key of zeros.
const NO_TRAP: [(&str, &str); 1] = [("attention_tile", "a bound widened")];

/// Not every place matters: the barrier behind a kernel's last store orders nothing, and an invocation's own word
/// needs no flag. So each kind of mistake has to be caught at one place of the kernel at least, by a trap.
#[test]
fn every_kind_of_mistake_traps_in_every_kernel() {
    let interp = Interpreter::new(InterpOptions { subgroup_size: 8, ..Default::default() });
    let (registry, mut kernels) = (Registry::builtin(), BTreeSet::new());
    assert_layouts(registry.formats());
    for variant in registry.variants() {
        // One variant stands for a kernel.
        let name = kernel_of(&variant.name).to_owned();
        if kernels.contains(&name) {
            continue;
        }
        let (kernel, cases) = (variant.stage().unwrap(), variant.cases().collect::<Vec<_>>());
        let mut found: BTreeMap<&str, Vec<Option<Failure>>> = BTreeMap::new();
        let broken = mixed(broken(&kernel));
        if broken.is_empty() {
            continue;
        }
        kernels.insert(name);
        for (what, broken) in broken {
            let seen = found.entry(what).or_default();
            // Two places that trap are enough, or one of many; a place that does not takes every case to tell.
            let traps = seen.iter().flatten().filter_map(trap).count();
            if traps == 0 || traps < 2 && seen.len() < MANY {
                seen.push(objection(&cases, &broken, &interp));
            }
        }
        for (what, places) in found {
            if NO_TRAP.iter().any(|(kernel, kind)| variant.name.starts_with(kernel) && what == *kind) {
                assert!(places.iter().any(Option::is_some), "{}: {what}: not seen", variant.name);
                continue;
            }
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

/// Each form of a kernel that computes something else, with its name: what a trap need not see, the comparison with the
/// reference does.
fn wrong(kernel: &StagedKernel) -> Vec<(&'static str, StagedKernel)> {
    let words = &kernel.words;
    let all = instructions(words);
    let class_of: BTreeMap<u32, u32> =
        all.iter().filter(|i| i.2 == Op::TypePointer).map(|i| (words[i.0 + 1], words[i.0 + 2])).collect();
    let type_of: BTreeMap<u32, u32> = all
        .iter()
        .filter(|i| i.2.result() == OpResult::Typed)
        .map(|&(at, ..)| (words[at + 2], words[at + 1]))
        .collect();
    let buffer = StorageClass::StorageBuffer.number();
    let in_buffer = |pointer: u32| type_of.get(&pointer).and_then(|t| class_of.get(t)) == Some(&buffer);
    let mut out = Vec::new();
    for &(at, len, op) in &all {
        let other = |op: Op| with(kernel, at, words[at] & !0xffff | u32::from(op.number()));
        match op {
            Op::Select => {
                let mut swapped = kernel.clone();
                swapped.words.swap(at + 4, at + 5);
                out.push(("a select's arms swapped", swapped));
            }
            Op::Store if in_buffer(words[at + 1]) => {
                out.push(("a store to a buffer forgotten", without(kernel, at, len)));
            }
            Op::FAdd => out.push(("a sum turned into a difference", other(Op::FSub))),
            Op::IAdd => out.push(("an index subtracted", other(Op::ISub))),
            Op::BranchConditional => {
                let mut swapped = kernel.clone();
                swapped.words.swap(at + 2, at + 3);
                out.push(("a branch's ways swapped", swapped));
            }
            _ => {}
        }
    }
    out
}

#[test]
fn what_computes_something_else_is_seen_in_every_kernel() {
    let options = InterpOptions { subgroup_size: 8, fuel: 20_000_000, ..Default::default() };
    let interp = Interpreter::new(options);
    let (registry, mut kernels) = (Registry::builtin(), BTreeSet::new());
    assert_layouts(registry.formats());
    let mut kinds = BTreeSet::new();
    for variant in registry.variants() {
        let name = kernel_of(&variant.name).to_owned();
        if !kernels.insert(name) {
            continue;
        }
        let (kernel, cases) = (variant.stage().unwrap(), variant.cases().collect::<Vec<_>>());
        let mut found: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for (what, wrong) in wrong(&kernel) {
            let (seen, places) = found.entry(what).or_default();
            *places += 1;
            // One place that is seen is what is asked; more would only take longer.
            if *seen == 0 {
                *seen += usize::from(objection(&cases, &wrong, &interp).is_some());
            }
        }
        for (what, (seen, places)) in found {
            kinds.insert(what);
            assert!(seen > 0, "{}: {what} at {places} places: not seen", variant.name);
        }
    }
    assert!(kernels.len() >= 10 && kinds.len() == 5, "{kernels:?} {kinds:?}");
}

mod width {
    use kiln_dsl::prelude::*;

    /// y = the sum of 64 numbers, by an author who has only seen subgroups of 32.
    #[kernel(local_size = 64, grid = 1)]
    pub fn sum_of_32s(x: &Buf<u32>, y: &BufMut<u32>) {
        let halves = Shared::<u32>::new(2);
        let mut part = x[local_id()];
        for mask in comptime!([16u32, 8, 4, 2, 1]) {
            part += subgroup::shuffle_xor(part, mask);
        }
        if local_id() % 32 == 0 {
            halves[local_id() / 32] = part;
        }
        barrier();
        if local_id() == 0 {
            y[0] = halves[0] + halves[1];
        }
    }

    /// The same for every width.
    #[kernel(local_size = 64, grid = 1)]
    pub fn sum_of_any(x: &Buf<u32>, y: &BufMut<u32>) {
        let parts = Shared::<u32>::new(64);
        let part = subgroup::add(x[local_id()]);
        if subgroup::elect() {
            parts[subgroup_id()] = part;
        }
        barrier();
        if local_id() == 0 {
            let mut sum: u32 = 0;
            for i in 0..num_subgroups() {
                sum += parts[i];
            }
            y[0] = sum;
        }
    }
}

/// The sum of 64 numbers; `None` for a trap.
fn summed(kernel: &StagedKernel, subgroup_size: u32) -> Option<u32> {
    let interp = Interpreter::new(InterpOptions { subgroup_size, ..Default::default() });
    let (x, y) = (interp.allocate(256, "x").unwrap(), interp.allocate(4, "y").unwrap());
    let bytes: Vec<u8> = (0..64u32).flat_map(|i| (i * i + 1).to_le_bytes()).collect();
    interp.write(x, 0, &bytes).unwrap();
    let whole = |buffer, bytes| BufferRange { buffer, offset_bytes: 0, bytes };
    let bindings = [whole(x, 256), whole(y, 4)];
    let dispatch =
        Dispatch { kernel, bindings: &bindings, needed_bytes: &[], push: &[], grid: Grid([1, 1, 1]) };
    interp.run(&dispatch).ok()?;
    let mut sum = [0; 4];
    interp.read(y, 0, &mut sum).unwrap();
    Some(u32::from_le_bytes(sum))
}

#[test]
fn an_assumed_width_shows_at_every_other_one() {
    let right = Some((0..64).map(|i| i * i + 1).sum());
    let (assumes, any) = (width::SumOf32s.stage().unwrap(), width::SumOfAny.stage().unwrap());
    for subgroup_size in SUBGROUP_SIZES {
        assert_eq!(summed(&any, subgroup_size), right, "width {subgroup_size}");
        let holds = subgroup_size >= 32;
        assert_eq!(summed(&assumes, subgroup_size) == right, holds, "width {subgroup_size}");
    }
}

/// Words changed at random are refused, trap, or compute something; they never panic and always end.
#[test]
fn changed_words_of_every_kernel_neither_panic_nor_hang() {
    let rounds = if std::env::var_os("KILN_LONG").is_some() { 5000 } else { 20 };
    let interp = Interpreter::new(InterpOptions { subgroup_size: 8, fuel: 200_000, ..Default::default() });
    let (registry, mut kernels) = (Registry::builtin(), BTreeSet::new());
    assert_layouts(registry.formats());
    let (mut state, mut refused, mut ran) = (0x9e37_79b9_7f4a_7c15u64, 0, 0);
    let mut below = |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 16).unwrap() % n.max(1)
    };
    for variant in registry.variants() {
        let name = kernel_of(&variant.name).to_owned();
        if !kernels.insert(name) {
            continue;
        }
        let (kernel, case) = (variant.stage().unwrap(), variant.cases().next().unwrap());
        for _ in 0..rounds {
            let mut changed = kernel.clone();
            for _ in 0..=below(2) {
                let at = 5 + below(changed.words.len() - 5);
                let other = 5 + below(changed.words.len() - 5);
                match below(4) {
                    0 => changed.words[at] = changed.words[other],
                    1 => changed.words[at] ^= 1 << below(32),
                    2 => changed.words[at] = u32::try_from(1 + below(kernel.words[3] as usize)).unwrap(),
                    _ => drop(changed.words.remove(at)),
                }
            }
            match check(&interp, &changed, &case) {
                Ok(_) => ran += 1,
                Err(_) => refused += 1,
            }
        }
    }
    println!("{ran} changes without effect, {refused} seen");
    assert!(refused > ran && ran > 0, "{ran} {refused}");
}
