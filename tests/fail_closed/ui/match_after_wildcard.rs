use kiln_dsl::prelude::*;

#[kernel(local_size = 64, grid = 1)]
pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
    let i = global_id_x();
    y[i] = match i {
        0 => 1.0,
        _ => 2.0,
        3 => x[i],
        _ => 4.0,
    };
}

fn main() {}
