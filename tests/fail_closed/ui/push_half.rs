use kiln_dsl::prelude::*;

#[derive(Push)]
pub struct Numbers {
    s: f16,
}

fn main() {}
