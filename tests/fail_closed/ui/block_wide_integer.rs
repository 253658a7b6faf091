use kiln_dsl::prelude::*;

#[derive(Block)]
pub struct Pair {
    a: u64,
}

fn main() {}
