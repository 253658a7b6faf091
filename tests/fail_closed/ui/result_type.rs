use kiln_dsl::prelude::*;

#[device]
fn helper(a: f32) -> u32 {
    a
}

#[kernel(local_size = 64, grid = 1)]
pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
    let i = global_id_x();
    y[i] = helper(x[i]) as f32;
}

fn main() {}
