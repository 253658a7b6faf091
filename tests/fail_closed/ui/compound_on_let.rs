use kiln_dsl::prelude::*;

#[kernel(local_size = 64, grid = 1)]
pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
    let sum = x[0];
    sum += 1.0;
    y[0] = sum;
}

fn main() {}
