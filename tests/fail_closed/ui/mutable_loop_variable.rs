use kiln_dsl::prelude::*;

#[kernel(local_size = 64, grid = 1)]
pub fn case(y: &BufMut<f32>) {
    for i in 0..4 {
        i += 1;
        y[i] = 1.0;
    }
}

fn main() {}
