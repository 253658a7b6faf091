//! Counts are expected word by word, and one that is off by one is named; what differs is called what the kernel calls it.

use kiln_abi::Kernel;
use kiln_dsl::prelude::*;
use kiln_kernels::conformance::{Buffer, Case, Expected, check, f32_bytes, u32_bytes};
use kiln_kernels::{Registry, Variant};
use kiln_spirv_interp::{InterpOptions, Interpreter};

#[derive(Push, Clone, Copy)]
struct HistogramPush {
    n: u32,
}

/// counts[v] grows by how often v is among the n of x.
#[kernel(local_size = 64, grid = p.n.div_ceil(64))]
fn histogram(
    #[len(p.n)] x: &Buf<u32>,
    #[len(bins)] counts: &BufMut<u32>,
    #[push] p: HistogramPush,
    #[comptime] bins: u32,
) {
    let i = global_id_x();
    if i < p.n {
        atomic::add(&counts[min(x[i], bins - 1)], 1);
    }
}

const BINS: u32 = 5;

fn case(n: u32, off_by: u32) -> Case {
    let x: Vec<u32> = (0..n).map(|i| i * i % 7).collect();
    let mut counts = vec![3; BINS as usize];
    x.iter().for_each(|&v| counts[v.min(BINS - 1) as usize] += 1);
    counts[2] += off_by;
    Case {
        name: format!("n = {n}"),
        buffers: vec![Buffer::Input(u32_bytes(&x)), Buffer::Changed(u32_bytes(&[3; BINS as usize]))],
        expected: vec![Expected::words(1, &counts)],
        bind: Box::new(move |r| {
            let args = HistogramArgs { x: r[0].into(), counts: r[1].into(), p: HistogramPush { n } };
            Histogram::new(BINS).bind(&args)
        }),
    }
}

#[test]
fn counts_are_equal_or_the_one_that_differs_is_named() {
    let variant = Variant::new("histogram", Histogram::new(BINS), Vec::new);
    let kernel = variant.stage().unwrap();
    let interp = Interpreter::new(InterpOptions::default());
    let report = check(&interp, &kernel, &case(100, 0)).unwrap();
    assert_eq!((report.outputs, report.worst), (BINS as usize, 0.0));
    let failure = check(&interp, &kernel, &case(100, 1)).unwrap_err().to_string();
    let found = 3 + (0..100u32).filter(|i| i * i % 7 == 2).count() as u32;
    assert_eq!(
        failure,
        format!(
            "n = 100: word 2 of counts is {found} ({found:#010x}), expected {right} ({right:#010x}); 1 words differ",
            right = found + 1,
        )
    );
}

#[test]
fn what_differs_is_called_what_its_kernel_calls_it() {
    let registry = Registry::builtin();
    let add = registry.variants().find(|v| v.name == "add").unwrap();
    let (kernel, interp) = (add.stage().unwrap(), Interpreter::new(InterpOptions::default()));
    let said = |change: fn(&mut Case)| {
        let mut case = add.cases().next().unwrap();
        change(&mut case);
        check(&interp, &kernel, &case).unwrap_err().to_string()
    };
    let value = said(|case| case.expected[0] = Expected::equal(3, &[7.5]));
    assert!(
        value.starts_with("rows = 1, n = 1: y[0] is ") && value.contains("expected 7.5 ± 0e0"),
        "{value}"
    );
    // An input is told from the output by its name as well.
    let input = said(|case| {
        case.buffers[3] = Buffer::Input(f32_bytes(&[0.0]));
        case.expected.clear();
    });
    assert!(input.contains(" of y, an input, was overwritten"), "{input}");
}
