use kiln_dsl::prelude::*;

#[kernel(local_size = 64, grid = 1)]
pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
    let tile = Shared::<(f32, f32)>::new(64);
    y[0] = x[0];
}

fn main() {}
