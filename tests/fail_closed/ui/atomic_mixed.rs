use kiln_dsl::prelude::*;

#[kernel(local_size = 64, grid = 1)]
pub fn case(x: &Buf<u32>, y: &BufMut<u32>) {
    let i = global_id_x();
    atomic::max(&y[0], x[i] as i32);
}

fn main() {}
