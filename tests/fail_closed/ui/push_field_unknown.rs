use kiln_dsl::prelude::*;

#[derive(Push)]
pub struct Numbers {
    n: u32,
    m: i32,
    s: f32,
}

#[kernel(local_size = 64, grid = 1)]
pub fn case(y: &BufMut<f32>, #[push] p: Numbers) {
    y[p.n] = p.z + (p.m as f32);
}

fn main() {}
