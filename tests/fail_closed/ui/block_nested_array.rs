use kiln_dsl::prelude::*;

#[derive(Block)]
pub struct Pairs {
    q: [[u16; 2]; 4],
}

#[kernel(local_size = 64, grid = 1)]
pub fn case(w: &Buf<Pairs>, y: &BufMut<f32>) {
    y[0] = 1.0;
}

fn main() {}
