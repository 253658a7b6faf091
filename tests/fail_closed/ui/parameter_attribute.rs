use kiln_dsl::prelude::*;

#[kernel(local_size = 64, grid = 1)]
pub fn case(y: &BufMut<f32>, #[spec] n: u32) {
    y[0] = n as f32;
}

fn main() {}
