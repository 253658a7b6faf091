use kiln_dsl::prelude::*;

#[kernel(local_size = 64, grid = 1)]
pub fn case(#[weight] w: &BufMut<f32>) {
    w[0] = 1.0;
}

fn main() {}
