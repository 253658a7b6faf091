use kiln_dsl::prelude::*;

#[kernel(local_size = 64, grid = 1)]
pub fn case(#[comptime] n: u32) {}

fn main() {}
