use kiln_dsl::prelude::*;

#[kernel(local_size = 64, grid = 1)]
pub fn case(x: &Buf<u32>, y: &BufMut<u32>) {
    y[0] = x[0].wrapping_add(x[1]);
}

fn main() {}
