//! Every kernel on the interpreter, at every subgroup size, with every check on.

use kiln_conformance::run;
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
