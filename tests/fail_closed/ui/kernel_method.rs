use kiln_dsl::prelude::*;

#[kernel(local_size = 64, grid = 1)]
pub fn case(&self, y: &BufMut<f32>) {
    y[0] = 1.0;
}

fn main() {}
