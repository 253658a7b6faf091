use kiln_dsl::prelude::*;

#[device]
fn wide(n: u32) -> u64 {
    n as u64
}

#[kernel(local_size = 64, grid = 1)]
pub fn case(y: &BufMut<u32>) {
    y[0] = wide(3) as u32;
}

fn main() {}
