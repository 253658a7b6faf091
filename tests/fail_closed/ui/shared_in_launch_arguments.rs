use kiln_dsl::prelude::*;

#[kernel(local_size = 64, grid = 1)]
pub fn case(t: &Shared<f32>, y: &BufMut<f32>) {
    y[0] = t[0];
}

fn main() {}
