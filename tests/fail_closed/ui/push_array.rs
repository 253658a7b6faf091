use kiln_dsl::prelude::*;

#[derive(Push)]
pub struct Numbers {
    s: [u32; 2],
}

fn main() {}
