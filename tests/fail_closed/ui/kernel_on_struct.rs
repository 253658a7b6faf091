use kiln_dsl::prelude::*;

#[kernel(local_size = 64, grid = 1)]
pub struct Case;

fn main() {}
