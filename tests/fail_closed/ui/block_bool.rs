use kiln_dsl::prelude::*;

#[derive(Block)]
pub struct Pair {
    a: bool,
}

fn main() {}
