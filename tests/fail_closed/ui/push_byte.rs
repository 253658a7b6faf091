use kiln_dsl::prelude::*;

#[derive(Push)]
pub struct Numbers {
    n: u8,
}

#[kernel(local_size = 64, grid = 1)]
pub fn case(y: &BufMut<u32>, #[push] p: Numbers) {
    y[0] = 1;
}

fn main() {}
