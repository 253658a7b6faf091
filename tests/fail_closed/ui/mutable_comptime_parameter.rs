use kiln_dsl::prelude::*;

#[device]
fn helper(a: f32, #[comptime] mut n: u32) -> f32 {
    a
}

#[kernel(local_size = 64, grid = 1)]
pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
    let i = global_id_x();
    y[i] = helper(x[i]);
}

fn main() {}
