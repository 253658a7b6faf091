use kiln_dsl::prelude::*;

#[derive(Push)]
pub struct Numbers {
    n: u32,
}

#[kernel(local_size = 64, grid = 1)]
pub fn case(y: &BufMut<f32>, #[push] #[len(4)] p: Numbers) {
    y[0] = 1.0;
}

fn main() {}
