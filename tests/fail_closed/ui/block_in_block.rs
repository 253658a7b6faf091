use kiln_dsl::prelude::*;

#[derive(Block)]
pub struct Inner {
    a: f16,
}

#[derive(Block)]
pub struct Pair {
    a: [Inner; 2],
}

fn main() {}
