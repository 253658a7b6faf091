use kiln_dsl::prelude::*;

#[derive(Push)]
pub struct Numbers {
    s: u64,
}

fn main() {}
