use kiln_dsl::prelude::*;

#[kernel(local_size = 64, grid = 1, requires = [PackedDot])]
pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
    y[0] = x[0];
}

fn main() {}
