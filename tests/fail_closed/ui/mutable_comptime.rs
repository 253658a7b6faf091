use kiln_dsl::prelude::*;

#[kernel(local_size = 64, grid = 1)]
pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
    let i = global_id_x();
    let mut n = comptime!(vec![4u32]);
    y[i] = x[n];
}

fn main() {}
