//! Every kernel's words: accepted by the outside validator, declaring exactly what they use, the same on any thread.

use kiln_golden::spirv_val;
use kiln_kernels::Registry;
use kiln_spirv_emit::census::capabilities_from_words;

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
