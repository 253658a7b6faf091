use kiln_dsl::prelude::*;

#[derive(Block)]
pub struct Pair {
    a: f16,
    q: [u16; 4],
}

#[kernel(local_size = 64, grid = 1)]
pub fn case(w: &Buf<Pair>, y: &BufMut<f32>) {
    let b = w[1];
    y[0] = (b.a as f32) + (b.q[3] as f32);
}

fn main() {}
