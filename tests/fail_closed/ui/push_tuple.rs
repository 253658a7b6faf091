use kiln_dsl::prelude::*;

#[derive(Push)]
pub struct Numbers(u32);

fn main() {}
