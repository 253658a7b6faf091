use kiln_dsl::prelude::*;

#[kernel(local_size = 64, grid = 1)]
pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
    let a = Box::new(x[0]);
    y[0] = a;
}

fn main() {}
