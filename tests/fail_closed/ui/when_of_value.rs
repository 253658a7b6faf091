use kiln_dsl::prelude::*;

#[kernel(local_size = 64, grid = 1)]
pub fn case(#[when(n)] x: &Buf<u32>, y: &BufMut<u32>, #[comptime] n: u32) {
    y[0] = x[n];
}

fn main() {}
