use kiln_dsl::prelude::*;

#[kernel(local_size = 64, grid = 1)]
pub fn case(x: &BufMut<u32>, y: &BufMut<f32>) {
    let halves = x.view::<u16>();
    y[0] = halves[1] as f32;
}

fn main() {}
