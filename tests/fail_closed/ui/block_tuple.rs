use kiln_dsl::prelude::*;

#[derive(Block)]
pub struct Pair(f16, f16);

fn main() {}
