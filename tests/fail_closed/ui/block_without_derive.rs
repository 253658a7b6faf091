use kiln_dsl::prelude::*;

pub struct Pair {
    a: f32,
}

#[kernel(local_size = 64, grid = 1)]
pub fn case(w: &Buf<Pair>, y: &BufMut<f32>) {
    y[0] = 1.0;
}

fn main() {}
