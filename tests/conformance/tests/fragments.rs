//! The kernel that tries the order of fragments finds out where a device keeps to another one.

use kiln_kernels::{Registry, conformance::check};
use kiln_spirv_interp::{InterpOptions, Interpreter};

/// Without the mark, elements are dealt as the seed has it.
#[test]
fn another_order_of_elements_is_seen() {
    let registry = Registry::builtin();
    let order = registry.variants().find(|v| v.role == "fragment_order").unwrap();
    let (kernel, cases) = (order.stage().unwrap(), order.cases().collect::<Vec<_>>());
    assert!(kernel.layout.fragments);
    let mut unmarked = kernel.clone();
    unmarked.layout.fragments = false;
    for seed in 0..16 {
        let interpreter = Interpreter::new(InterpOptions { seed, ..InterpOptions::default() });
        for case in &cases {
            check(&interpreter, &kernel, case).unwrap();
            let seen = check(&interpreter, &unmarked, case);
            assert!(seen.is_err(), "{}, seed {seed}: {seen:?}", case.name);
        }
    }
}
