use kiln_dsl::prelude::*;

#[kernel(local_size = 64, grid = 1)]
pub fn case(y: &BufMut<u32>) {
    let n = y[0];
    for i in comptime!(0..n) {
        y[i] = 1;
    }
}

fn main() {}
