use kiln_dsl::prelude::*;

#[derive(Block)]
pub struct Pair<T> {
    a: T,
}

fn main() {}
