use kiln_dsl::prelude::*;

#[kernel(local_size = 64, grid = 1)]
pub fn case(x: &Buf<u32>, y: &BufMut<u16>) {
    let i = global_id_x();
    atomic::add(&y[0], 1);
    y[i] = x[i] as u16;
}

fn main() {}
