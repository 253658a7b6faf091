use kiln_dsl::prelude::*;

#[kernel(local_size = 64, grid = 1)]
pub fn case(x: &Buf<f16>, y: &BufMut<f32>) {
    y[0] = x[0];
}

fn main() {}
