use kiln_dsl::prelude::*;

#[kernel(local_size = 32, subgroup = 32, grid = 1)]
pub fn case(x: &Buf<f16>, y: &BufMut<f32>) {
    dims!(M = 16, N = 16, K = 16);
    let a = Tile::<f16, MatA, Sg, M, K>::load(x, 0, 16);
    let b = Tile::<f16, MatB, Sg, M, N>::load(x, 0, 16);
    let sums = mul_add(a, b, Tile::<f32, Acc, Sg, M, N>::zero());
    tile::store(sums, y, 0, 16);
}

fn main() {}
