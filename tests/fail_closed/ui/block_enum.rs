use kiln_dsl::prelude::*;

#[derive(Block)]
pub enum Pair {
    A,
}

fn main() {}
