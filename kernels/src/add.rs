//! `y[i] = a[i] + b[i]`
//!
//! Shapes: a, b, y `[n]` f32. One invocation owns one element. Traffic: 12 bytes per output, memory-bound.
//! Numerics: one f32 rounding.

use kiln_abi::Kernel;
use kiln_dsl::prelude::*;

use crate::{
    Variant,
    conformance::{Buffer, Case, Random, f32_bytes},
    reference,
};

/// Push constants of [`add`].
#[derive(Clone, Copy, Debug, Push)]
pub struct AddPush {
    /// Elements.
    pub n: u32,
}

const LOCAL_SIZE: u32 = 64;

/// The kernel.
#[kernel(local_size = LOCAL_SIZE, grid = p.n.div_ceil(LOCAL_SIZE))]
pub fn add(
    #[len(p.n)] a: &Buf<f32>,
    #[len(p.n)] b: &Buf<f32>,
    #[len(p.n)] y: &BufMut<f32>,
    #[push] p: AddPush,
) {
    let i = global_id_x();
    if i < p.n {
        y[i] = a[i] + b[i];
    }
}

/// The kernel's one variant.
pub fn variants() -> Vec<Variant> {
    vec![Variant::new("add", Add::new(), || [1, 63, 64, 65, 1000].map(case).into())]
}

fn case(n: u32) -> Case {
    let mut random = Random::new(n.into());
    let (a, b) = (random.units(n as usize), random.units(n as usize));
    Case {
        name: format!("n = {n}"),
        buffers: vec![
            Buffer::Input(f32_bytes(&a)),
            Buffer::Input(f32_bytes(&b)),
            Buffer::Output(4 * n as usize),
        ],
        expected: vec![reference::add(&a, &b).at(2)],
        bind: Box::new(move |r| {
            let args = AddArgs { a: r[0].into(), b: r[1].into(), y: r[2].into(), p: AddPush { n } };
            Add::new().bind(&args)
        }),
    }
}
