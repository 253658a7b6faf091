//! Compiling is fast enough to happen when a model is loaded.

use std::time::{Duration, Instant};

use kiln_abi::{DType, spirv::Op};
use kiln_golden::sketch::Sketch;
use kiln_kernels::Registry;
use kiln_spirv_emit::{compile, ir::Module};

/// About 300 instructions: loads, integer arithmetic, branches and stores.
fn typical() -> Module {
    let mut k = Sketch::new("typical");
    let (x, y) = (k.buf("x", DType::U32, false), k.buf("y", DType::U32, true));
    let mut i = k.gid();
    for _ in 0..30 {
        let v = k.get(x, i);
        let sum = k.op(Op::IAdd, DType::U32, &[v, i]);
        let product = k.op(Op::IMul, DType::U32, &[sum, v]);
        let less = k.op(Op::ULessThan, DType::Bool, &[product, v]);
        k.if_else(less, |k| k.set(y, product, sum), |k| k.set(y, sum, product));
        i = product;
    }
    k.finish().expect("the kernel is built")
}

/// Debug builds are about ten times slower; the bound for them only says that nothing is quadratic.
#[test]
fn three_hundred_instructions_compile_in_a_fraction_of_a_millisecond() {
    let module = typical();
    let n = module.insts().len();
    assert!((250..400).contains(&n), "{n} instructions");
    let mut times: Vec<Duration> = (0..50)
        .map(|_| {
            let module = module.clone();
            let start = Instant::now();
            compile(module).unwrap();
            start.elapsed()
        })
        .collect();
    times.sort();
    let median = times[times.len() / 2];
    println!("{n} instructions: median {median:?}");
    let most = if cfg!(debug_assertions) { Duration::from_millis(10) } else { Duration::from_micros(300) };
    assert!(median < most, "median {median:?} of {n} instructions");
}

#[test]
fn the_median_kernel_is_staged_in_half_a_millisecond() {
    let mut times: Vec<Duration> = Registry::builtin()
        .variants()
        // Neighbors are tiles and forms of one kernel.
        .step_by(7)
        .map(|variant| {
            let one = || {
                let start = Instant::now();
                variant.stage().unwrap();
                start.elapsed()
            };
            (0..5).map(|_| one()).min().unwrap()
        })
        .collect();
    times.sort();
    let (median, slowest) = (times[times.len() / 2], times[times.len() - 1]);
    println!("{} variants: median {median:?}, slowest {slowest:?}", times.len());
    let most = if cfg!(debug_assertions) { Duration::from_millis(10) } else { Duration::from_micros(500) };
    assert!(median < most, "median {median:?}");
}
