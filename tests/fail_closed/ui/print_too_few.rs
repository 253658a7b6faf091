use kiln_dsl::prelude::*;

#[kernel(local_size = 64, grid = 1)]
pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
    let i = global_id_x();
    kprintln!("{} of {}", i);
    y[i] = x[i];
}

fn main() {}
