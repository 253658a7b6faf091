//! A race is told in the words of the kernel's language, with what would order the two accesses.

use kiln_abi::{data::put, launch};
use kiln_dsl::prelude::*;
use kiln_spirv_interp::{InterpOptions, Interpreter};

/// Every invocation stores to the same element.
#[kernel(local_size = 8, grid = 1)]
fn one_place(y: &BufMut<u32>) {
    y[0] = local_id();
}

/// The same, one after another.
#[kernel(local_size = 8, grid = 1)]
fn one_place_by_atomics(y: &BufMut<u32>) {
    atomic::store(&y[0], local_id());
}

/// The same of a buffer that is read, with a barrier between two stores and one of them each.
#[kernel(local_size = 8, grid = 1)]
fn between(y: &BufMut<u32>, #[comptime] buffers: bool) {
    let t = local_id();
    y[t] = t;
    if buffers {
        barrier_buffers();
    } else {
        barrier();
    }
    let other = y[7 - t];
    if buffers {
        barrier_buffers();
    } else {
        barrier();
    }
    y[t] = other;
}

/// The same without any.
#[kernel(local_size = 8, grid = 1)]
fn without(y: &BufMut<u32>) {
    let t = local_id();
    y[t] = y[7 - t];
}

/// What the interpreter says of a kernel on one buffer.
macro_rules! said {
    ($kernel:expr, $args:ident) => {{
        let interp = Interpreter::new(InterpOptions::default());
        let y = put(&interp, &[0u32; 8]).unwrap();
        launch(&interp, &$kernel, &$args { y: y.into() }).map_err(|e| e.to_string())
    }};
}

#[test]
fn a_race_says_what_would_order_the_two() {
    let stores = said!(OnePlace, OnePlaceArgs).unwrap_err();
    assert!(
        stores.contains("nothing orders the two; one invocation is to store there, or an atomic"),
        "{stores}"
    );
    said!(OnePlaceByAtomics, OnePlaceByAtomicsArgs).unwrap();
    let workgroup = said!(Between::new(false), BetweenArgs).unwrap_err();
    assert!(workgroup.contains("`barrier_buffers()` buffers too"), "{workgroup}");
    said!(Between::new(true), BetweenArgs).unwrap();
    let none = said!(Without, WithoutArgs).unwrap_err();
    assert!(none.contains("no barrier orders them; `barrier_buffers()` or an atomic would"), "{none}");
}
