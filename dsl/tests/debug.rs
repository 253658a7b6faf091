//! `kprintln!` and source lines: there when staging asks for them, and no word of them else.

mod device;

use device::run_on;
use kiln_abi::{DeviceError, Kernel, LaunchError, StagedKernel, spirv::Op};
use kiln_dsl::{
    prelude::*,
    session::{Debug, debugging},
};
use kiln_spirv_interp::{InterpOptions, Interpreter};

/// Speaks of what it does; both kernels stand on the same lines of their macro.
macro_rules! kernels {
    ($($name:ident $($say:ident)?;)*) => { $(
        /// Doubles what is small.
        #[kernel(local_size = 8, grid = 1)]
        pub fn $name(x: &Buf<u32>, y: &BufMut<u32>) {
            let t = local_id();
            let v = x[t];
            if v > 5 {
                $($say!("{{{}}} is 100% large: {} {v} {}", t, v as f32 * 0.5, v as i16 - 300);)?
            }
            match v {
                3 => { $($say!("three, {}", v == 3);)? }
                _ => {}
            }
            y[t] = v * 2;
        }
    )* };
}
kernels! { silent; speaking kprintln; }

/// Prints, then leaves its buffer.
#[kernel(local_size = 8, grid = 1)]
pub fn trapping(x: &Buf<u32>, y: &BufMut<u32>) {
    let mut unknown = 0;
    kprintln!("before");
    y[local_id() + 1] = x[local_id()] + unknown;
    unknown = 1;
}

const ALL: Debug = Debug { lines: true, prints: true };
const X: [u32; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

fn count(kernel: &StagedKernel, op: Op) -> usize {
    let (mut at, mut n) = (5, 0);
    while let Some(&first) = kernel.words.get(at) {
        n += usize::from(first & 0xffff == u32::from(op.number()));
        at += (first >> 16).max(1) as usize;
    }
    n
}

#[test]
fn the_words_are_the_same_with_and_without_a_line_to_print() {
    let (silent, speaking) = (Silent.stage().unwrap(), Speaking.stage().unwrap());
    assert_eq!(silent.words, speaking.words);
    assert_eq!((count(&silent, Op::Line), count(&silent, Op::String)), (0, 0));
    // Asked for, they are there, and gone again afterwards.
    let loud = debugging(ALL, || Speaking.stage().unwrap());
    assert_ne!(loud.words, speaking.words);
    assert_eq!(Speaking.stage().unwrap().words, speaking.words);
    // What does not print has its lines only.
    let lines = debugging(Debug { lines: true, prints: false }, || Speaking.stage().unwrap());
    assert_eq!(lines.words, debugging(ALL, || Silent.stage().unwrap()).words);
    assert_eq!(count(&lines, Op::String), 1);
    // One for each line that has instructions; those of one macro's call stand at one place.
    let spread = debugging(ALL, || Trapping.stage().unwrap());
    assert!(count(&lines, Op::Line) >= 1 && count(&spread, Op::Line) > 3);
}

#[test]
fn each_invocation_prints_its_line() {
    let device = Interpreter::new(InterpOptions { subgroup_size: 8, ..Default::default() });
    let args = |x, y| SpeakingArgs { x, y };
    let quiet = run_on(&device, &Speaking, &X, (8, 0), args).unwrap();
    assert_eq!(device.last_printed(), [""; 0]);
    let loud = debugging(ALL, || run_on(&device, &Speaking, &X, (8, 0), args)).unwrap();
    assert_eq!(loud, quiet);
    let expected = [
        "workgroup (0, 0, 0), invocation 5: {5} is 100% large: 3.0 6 -294",
        "workgroup (0, 0, 0), invocation 6: {6} is 100% large: 3.5 7 -293",
        "workgroup (0, 0, 0), invocation 7: {7} is 100% large: 4.0 8 -292",
        "workgroup (0, 0, 0), invocation 2: three, 1",
    ];
    assert_eq!(device.last_printed(), expected);
}

#[test]
fn what_was_printed_outlives_a_trap() {
    let device = Interpreter::new(InterpOptions { subgroup_size: 8, ..Default::default() });
    let args = |x, y| TrappingArgs { x, y };
    let result = debugging(ALL, || run_on(&device, &Trapping, &X, (8, 0), args));
    assert!(matches!(result, Err(LaunchError::Device(DeviceError::Trap { .. }))), "{result:?}");
    assert_eq!(device.last_printed().len(), 8);
    assert!(device.last_printed()[0].ends_with("before"));
}
