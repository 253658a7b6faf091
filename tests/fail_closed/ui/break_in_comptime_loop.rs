use kiln_dsl::prelude::*;

#[kernel(local_size = 64, grid = 1)]
pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
    let i = global_id_x();
    for j in comptime!(0..4u32) {
        if i == j {
            break;
        }
        y[j] = x[j];
    }
}

fn main() {}
