use kiln_dsl::prelude::*;

#[derive(Struct, Clone, Copy)]
pub struct Pair {
    a: f32,
    b: u32,
}

#[kernel(local_size = 64, grid = 1)]
pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
    let i = global_id_x();
    let p = Pair { a: x[i], b: i };
    let q = Pair { b: 1, ..p };
    y[i] = q.a;
}

fn main() {}
