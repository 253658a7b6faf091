use kiln_dsl::prelude::*;

#[kernel(local_size = 64, grid = 1)]
pub fn case(y: &BufMut<f32>) {
    let a = vec![0.0; 4];
    y[0] = a[0];
}

fn main() {}
