use kiln_dsl::prelude::*;

#[kernel(grid = 1)]
pub fn case(y: &BufMut<f32>) {
    y[0] = 1.0;
}

fn main() {}
