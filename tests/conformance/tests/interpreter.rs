//! Every kernel on the interpreter, at every subgroup size, with every check on.

use kiln_abi::{Device, LaunchError};
use kiln_conformance::{
    Summary, assert_layouts,
    cover::{Extent, none_named},
    language, note, run_those, sum_up,
};
use kiln_kernels::{Registry, Variant};
use kiln_spirv_interp::{InterpOptions, Interpreter, SUBGROUP_SIZES};

/// Parts of all variants that take turns: what a run has time for.
const PARTS: u64 = 3;

#[test]
fn kernels_equal_their_references_at_every_subgroup_size() {
    let (registry, extent) = (Registry::builtin(), Extent::of_environment());
    let chosen = extent.names(&registry, &SUBGROUP_SIZES, PARTS);
    let is_run = |v: &Variant| chosen.iter().any(|names| names.contains(&v.name));
    assert_layouts(registry.formats().filter(|row| row.variants.iter().any(is_run)));
    let (mut all, mut failed) = (Summary::default(), Vec::new());
    for (size, names) in SUBGROUP_SIZES.into_iter().zip(chosen) {
        let interpreter = interpreter(&extent, size);
        let those = registry.variants().filter(|v| names.contains(&v.name));
        let summary = run_those(those, &interpreter, extent.is_long());
        println!("{extent}: interpreter, subgroups of {size}: {summary}");
        let of_size = |refusal: &LaunchError| match refusal {
            LaunchError::SubgroupSize { .. } => true,
            LaunchError::MissingFragments { .. } => size != 32,
            _ => false,
        };
        assert!(summary.refused.iter().all(of_size), "nothing but a subgroup size is refused: {summary}");
        if !summary.failures.is_empty() {
            failed.push(format!("subgroups of {size}: {summary}"));
        }
        all = all.join(summary);
    }
    print!("{}", all.lines(matches!(extent, Extent::Named(_))));
    print!("{}", sum_up().unwrap());
    assert!(
        failed.is_empty(),
        "{extent}: {} sizes failed\n{}\nat any size, {}",
        failed.len(),
        failed.join("\n"),
        all.outcomes
    );
    match extent {
        Extent::Named(_) => {
            assert!(all.variants > 0, "{}", none_named(&extent))
        }
        _ => assert!(all.variants >= registry.variants().count() / (1 + PARTS as usize), "{extent}: {all}"),
    }
}

#[test]
fn constructs_of_the_language_run_as_on_the_host() {
    let extent = Extent::of_environment();
    let schedule = extent.schedule() >> 8;
    for subgroup_size in SUBGROUP_SIZES {
        let mut ran = 0;
        for seed in schedule..schedule + 4 {
            let options = InterpOptions { subgroup_size, seed, ..Default::default() };
            let (cases, failures) = language::run(&Interpreter::new(options));
            assert!(failures.is_empty(), "subgroups of {subgroup_size}, schedule {seed}: {failures:#?}");
            assert!(cases > 0);
            ran += cases;
        }
        note(interpreter(&extent, subgroup_size).caps(), "cases of the language", ran, &[]);
    }
}

/// The one that kernels run on.
fn interpreter(extent: &Extent, subgroup_size: u32) -> Interpreter {
    let seed = extent.schedule() ^ u64::from(subgroup_size);
    Interpreter::new(InterpOptions { subgroup_size, seed, ..Default::default() })
}
