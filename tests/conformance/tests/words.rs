//! Every kernel's words: accepted by the outside validator, declaring exactly what they use, the same on any thread.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::sync::LazyLock;

use kiln_abi::{Dispatch, Grid, StagedKernel, spirv::Capability};
use kiln_conformance::assert_layouts;
use kiln_golden::{fixtures, spirv_val};
use kiln_kernels::{Registry, Variant, conformance::check};
use kiln_spirv_emit::{census::capabilities_from_words, strip::without_decode_vector};
use kiln_spirv_interp::{InterpOptions, Interpreter};

/// Every registered kernel, staged once for all tests here, by several threads at a time.
static STAGED: LazyLock<Vec<StagedKernel>> = LazyLock::new(|| {
    let variants: Vec<Variant> = Registry::builtin().variants().cloned().collect();
    spread(&variants, &|variant: &Variant| variant.stage().unwrap())
});

fn staged() -> &'static [StagedKernel] {
    // Outside the lock of what needs it, so that every test says it.
    assert_layouts(Registry::builtin().formats());
    &STAGED
}

/// `f` of every item, in their order; neighbors go to different threads.
fn spread<T: Sync, R: Send>(items: &[T], f: &(impl Fn(&T) -> R + Sync)) -> Vec<R> {
    const THREADS: usize = 4;
    let mut done: Vec<(usize, R)> = std::thread::scope(|scope| {
        let those = |first| items.iter().enumerate().skip(first).step_by(THREADS);
        let run = |first| scope.spawn(move || those(first).map(|(i, item)| (i, f(item))).collect::<Vec<_>>());
        let running: Vec<_> = (0..THREADS).map(run).collect();
        running.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    done.sort_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, result)| result).collect()
}

#[test]
fn the_outside_validator_accepts_every_variant() {
    spread(staged(), &|staged: &StagedKernel| {
        spirv_val(&staged.words).unwrap_or_else(|e| panic!("{}: {e}", staged.name));
    });
}

#[test]
fn declared_capabilities_are_those_the_words_use() {
    for staged in staged() {
        let used: Vec<_> = capabilities_from_words(&staged.words).unwrap().into_iter().collect();
        assert_eq!(staged.layout.capabilities, used, "{}", staged.name);
    }
}

#[test]
fn words_are_the_same_from_one_thread_and_from_several() {
    let registry = Registry::builtin();
    for (variant, staged) in registry.variants().zip(staged()) {
        assert!(variant.stage().unwrap() == *staged, "{}", variant.name);
    }
}

/// What a driver without four-wide decoding gets: the same module but for the functions that it would not call, and the
/// same results.
#[test]
fn without_fours_a_kernel_computes_the_same() {
    let registry = Registry::builtin();
    let fours = Capability::CooperativeMatrixDecodeVectorNV;
    let with = |staged: &StagedKernel| staged.layout.capabilities.contains(&fours);
    let interp = Interpreter::new(InterpOptions { subgroup_size: 32, ..Default::default() });
    let (mut formats, mut kept) = (BTreeSet::new(), 0);
    for (variant, staged) in registry.variants().zip(staged()) {
        let words = without_decode_vector(&staged.words).unwrap();
        if !with(staged) {
            assert!(words == staged.words, "{}", staged.name);
            kept += 1;
            continue;
        }
        assert!(words.len() < staged.words.len(), "{}", staged.name);
        assert!(!capabilities_from_words(&words).unwrap().contains(&fours), "{}", staged.name);
        // One variant of each format runs.
        if formats.insert(variant.format) {
            let stripped = StagedKernel { words, source: Default::default(), ..staged.clone() };
            let case = variant.cases().next().unwrap();
            let reports = [staged, &stripped].map(|k| check(&interp, k, &case).unwrap());
            assert_eq!(reports[0], reports[1], "{}", staged.name);
        }
    }
    assert!(!formats.is_empty() && kept > 30, "{} formats, {kept} without fours", formats.len());
}

/// An empty grid runs nothing, so what is left of a dispatch is reading the module: every instruction and operand that
/// any fixture or kernel uses is one that the interpreter executes.
#[test]
fn the_interpreter_reads_all_that_is_written() {
    let interp = Interpreter::new(InterpOptions { subgroup_size: 32, ..Default::default() });
    let fixtures = fixtures::compile_all().unwrap();
    let mut read = 0;
    for kernel in fixtures.iter().chain(staged()) {
        let dispatch =
            Dispatch { kernel, bindings: &[], needed_bytes: &[], push: &[], grid: Grid([0, 1, 1]) };
        interp.run(&dispatch).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
        read += 1;
        // The control: the same module with an opcode that nobody has.
        let mut other = kernel.clone();
        other.words[5] = other.words[5] & 0xffff_0000 | 0xfffe;
        let dispatch = Dispatch { kernel: &other, ..dispatch };
        assert!(interp.run(&dispatch).is_err(), "{}", kernel.name);
    }
    assert!(read > 30, "{read}");
}
