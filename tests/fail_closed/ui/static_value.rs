use kiln_dsl::prelude::*;

use std::sync::atomic::AtomicU32;

static LIMIT: AtomicU32 = AtomicU32::new(1);

#[kernel(local_size = 64, grid = 1)]
pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
    let i = global_id_x();
    y[LIMIT] = x[i];
}

fn main() {}
