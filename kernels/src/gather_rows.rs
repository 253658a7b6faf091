//! `y[o, i] = x[row(o), i]` for the outputs of a step: only their logits are computed.
//!
//! Shapes: x `[rows, n]`, y `[outputs, n]` f32. One invocation owns one element. Traffic: 8 bytes per output.
//! Numerics: exact.

use kiln_abi::Kernel;
use kiln_dsl::prelude::*;

use crate::{
    Variant,
    conformance::{Buffer, Case, Expected, Random, f32_bytes, u32_bytes},
    step::{StepRow, n_outputs, output_row, step_block},
};

/// Push constants of `gather_rows`.
#[derive(Clone, Copy, Debug, Push)]
pub struct GatherRowsPush {
    /// Rows that the command has room for.
    pub rows: u32,
    /// Outputs that the command has room for, at most `rows`.
    pub outputs: u32,
    /// Elements of a row.
    pub n: u32,
}

const LOCAL_SIZE: u32 = 64;

/// The kernel. The step block that it writes is that of the outputs: as many rows as there are outputs.
#[kernel(local_size = LOCAL_SIZE, grid = [p.n.div_ceil(LOCAL_SIZE), p.outputs])]
pub fn gather_rows(
    #[len(p.rows * p.n)] x: &Buf<f32>,
    #[len(4 + 4 * p.rows)] step: &Buf<u32>,
    #[len(p.outputs * p.n)] y: &BufMut<f32>,
    #[len(4 + 4 * p.outputs)] output_step: &BufMut<u32>,
    #[push] p: GatherRowsPush,
) {
    let o = workgroup_id_y();
    let i = global_id_x();
    if o < n_outputs(&step) && i < p.n {
        y[o * p.n + i] = x[output_row(&step, o) * p.n + i];
    }
    if o == 0 && i == 0 {
        output_step[0] = n_outputs(&step);
    }
}

/// The kernel's one variant.
pub fn variants() -> Vec<Variant> {
    let cases = || vec![case(&[0], 1, 1), case(&[4, 0, 2], 5, 65)];
    vec![Variant::new("gather_rows", GatherRows::new(), cases)]
}

fn case(outputs: &[u32], rows: u32, n: u32) -> Case {
    let x = Random::new(n.into()).units((rows * n) as usize);
    let line = |o: &u32| &x[(o * n) as usize..((o + 1) * n) as usize];
    let values: Vec<f32> = outputs.iter().flat_map(line).copied().collect();
    let step = step_block(&vec![StepRow { token: 0, position: 0, slot: 0 }; rows as usize], outputs, rows);
    let n_outputs = outputs.len() as u32;
    Case {
        name: format!("outputs = {outputs:?} of {rows}, n = {n}"),
        buffers: vec![
            Buffer::Input(f32_bytes(&x)),
            Buffer::Input(u32_bytes(&step)),
            Buffer::Output(4 * values.len()),
            Buffer::Output(4 * (4 + 4 * outputs.len())),
        ],
        expected: vec![Expected::exactly(2, &values)],
        bind: Box::new(move |r| {
            let (x, step, y, output_step) = (r[0].into(), r[1].into(), r[2].into(), r[3].into());
            let p = GatherRowsPush { rows, outputs: n_outputs, n };
            GatherRows::new().bind(&GatherRowsArgs { x, step, y, output_step, p })
        }),
    }
}
