use kiln_dsl::prelude::*;

#[derive(Push)]
pub struct Numbers {
    n: u32,
}

#[kernel(local_size = 64, grid = 1)]
pub fn case(y: &BufMut<u32>, #[push] #[when(both)] p: Numbers, #[comptime] both: bool) {
    y[0] = p.n;
}

fn main() {}
