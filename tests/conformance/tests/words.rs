//! Every kernel's words: accepted by the outside validator, declaring exactly what they use, the same on any thread.

use kiln_abi::{Dispatch, Grid};
use kiln_golden::{fixtures, spirv_val};
use kiln_kernels::Registry;
use kiln_spirv_emit::census::capabilities_from_words;
use kiln_spirv_interp::{InterpOptions, Interpreter};

#[test]
fn the_outside_validator_accepts_every_variant() {
    for variant in Registry::builtin().variants() {
        let staged = variant.stage().unwrap();
        spirv_val(&staged.words).unwrap_or_else(|e| panic!("{}: {e}", variant.name));
    }
}

#[test]
fn declared_capabilities_are_those_the_words_use() {
    for variant in Registry::builtin().variants() {
        let staged = variant.stage().unwrap();
        let used: Vec<_> = capabilities_from_words(&staged.words).unwrap().into_iter().collect();
        assert_eq!(staged.layout.capabilities, used, "{}", variant.name);
    }
}

#[test]
fn words_are_the_same_from_one_thread_and_from_two() {
    let stage_all = || Registry::builtin().variants().map(|v| v.stage().unwrap()).collect::<Vec<_>>();
    let alone = stage_all();
    let (left, right) = std::thread::scope(|s| {
        let (left, right) = (s.spawn(stage_all), s.spawn(stage_all));
        (left.join().unwrap(), right.join().unwrap())
    });
    assert_eq!(alone, left);
    assert_eq!(alone, right);
}

/// An empty grid runs nothing, so what is left of a dispatch is reading the module: every instruction and operand that
/// any fixture or kernel uses is one that the interpreter executes.
#[test]
fn the_interpreter_reads_all_that_is_written() {
    let interp = Interpreter::new(InterpOptions { subgroup_size: 32, ..Default::default() });
    let registered = Registry::builtin();
    let registered = registered.variants().map(|v| v.stage().unwrap());
    let mut read = 0;
    for kernel in fixtures::compile_all().unwrap().into_iter().chain(registered) {
        let dispatch = Dispatch { kernel: &kernel, bindings: &[], push: &[], grid: Grid([0, 1, 1]) };
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
