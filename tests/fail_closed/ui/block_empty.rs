use kiln_dsl::prelude::*;

#[derive(Block)]
pub struct Pair {}

fn main() {}
