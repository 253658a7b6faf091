//! Every kernel on the interpreter, at every subgroup size, with every check on.

use kiln_conformance::{language, run};
use kiln_kernels::Registry;
use kiln_spirv_interp::{InterpOptions, Interpreter, SUBGROUP_SIZES};

#[test]
fn kernels_equal_their_references_at_every_subgroup_size() {
    let registry = Registry::builtin();
    std::thread::scope(|scope| {
        let runs = SUBGROUP_SIZES.map(|subgroup_size| {
            let registry = registry.clone();
            scope.spawn(move || {
                let options =
                    InterpOptions { subgroup_size, seed: subgroup_size.into(), ..Default::default() };
                (subgroup_size, run(&registry, &Interpreter::new(options)))
            })
        });
        for (size, summary) in runs.map(|r| r.join().unwrap()) {
            println!("interpreter, subgroups of {size}: {summary}");
            assert!(summary.failures.is_empty(), "subgroups of {size}: {summary}");
            assert_eq!(summary.variants, registry.variants().count(), "nothing is refused: {summary}");
        }
    });
}

#[test]
fn constructs_of_the_language_run_as_on_the_host() {
    for subgroup_size in SUBGROUP_SIZES {
        let options = InterpOptions { subgroup_size, seed: subgroup_size.into(), ..Default::default() };
        let (cases, failures) = language::run(&Interpreter::new(options));
        assert!(failures.is_empty(), "subgroups of {subgroup_size}: {failures:#?}");
        assert!(cases > 0);
    }
}
