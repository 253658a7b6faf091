use kiln_dsl::prelude::*;

#[derive(Push)]
pub struct Numbers {
    n: f32,
}

#[kernel(local_size = 64, grid = 1)]
pub fn case(#[len(p.n)] y: &BufMut<f32>, #[push] p: Numbers) {
    y[0] = 1.0;
}

fn main() {}
