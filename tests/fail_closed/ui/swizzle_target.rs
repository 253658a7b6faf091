use kiln_dsl::prelude::*;

#[kernel(local_size = 64, grid = 1)]
pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
    let mut v = vec2(x[0], x[1]);
    v.x = 1.0;
    y[0] = v[0];
}

fn main() {}
