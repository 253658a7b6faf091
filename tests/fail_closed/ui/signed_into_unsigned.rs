use kiln_dsl::prelude::*;

#[kernel(local_size = 64, grid = 1)]
pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
    let n = local_id() as i32;
    y[n + 1] = x[0];
}

fn main() {}
