use kiln_dsl::prelude::*;

#[kernel(local_size = 64, grid = 1)]
pub fn case(y: &BufMut<u32>) {
    type Word = u32;
    y[0] = 1 as Word;
}

fn main() {}
