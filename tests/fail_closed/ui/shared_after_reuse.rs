use kiln_dsl::prelude::*;

#[kernel(local_size = 64, grid = 1)]
pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
    let i = global_id_x();
    let a = Shared::<f32>::new(64);
    a[local_id()] = x[i];
    barrier();
    y[i] = a[63 - local_id()];
    let b = a.reuse(64);
    b[local_id()] = 2.0;
    y[i] = a[local_id()];
}

fn main() {}
