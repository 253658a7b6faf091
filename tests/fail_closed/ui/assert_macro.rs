use kiln_dsl::prelude::*;

#[kernel(local_size = 64, grid = 1)]
pub fn case(y: &BufMut<u32>) {
    assert!(y[0] > 0);
    y[0] = 1;
}

fn main() {}
