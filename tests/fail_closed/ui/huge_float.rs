use kiln_dsl::prelude::*;

#[kernel(local_size = 64, grid = 1)]
pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
    let i = global_id_x();
    let low = -1e400;
    let high = (1e400) as f32;
    y[i] = clamp(x[i], low, high);
}

fn main() {}
