use kiln_dsl::prelude::*;

#[device]
pub struct Helper;

fn main() {}
