//! Matrices whose dimensions, use, scope or element do not fit.
#![allow(missing_docs, reason = "each module is named after its fixture")]

use kiln_abi::Kernel;

use crate::Control;

/// Every control twin of these.
pub fn all() -> Vec<Control> {
    vec![
        ("tile_dimension", || tile_dimension::Case::new().stage()),
        ("tile_use", || tile_use::Case::new().stage()),
        ("tile_scope", || tile_scope::Case::new().stage()),
        ("tile_element", || tile_element::Case::new().stage()),
    ]
}

pub mod tile_dimension {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 32, subgroup = 32, grid = 1)]
    pub fn case(x: &Buf<f16>, y: &BufMut<f32>) {
        dims!(M = 16, N = 16, K = 16);
        let a = Tile::<f16, MatA, Sg, M, K>::load(x, 0, 16);
        let b = Tile::<f16, MatB, Sg, K, N>::load(x, 0, 16);
        let sums = mul_add(a, b, Tile::<f32, Acc, Sg, M, N>::zero());
        tile::store(sums, y, 0, 16);
    }
}

pub mod tile_use {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 32, subgroup = 32, grid = 1)]
    pub fn case(x: &Buf<f16>, y: &BufMut<f32>) {
        dims!(M = 16, N = 16, K = 16);
        let a = Tile::<f16, MatA, Sg, M, K>::load(x, 0, 16);
        let b = Tile::<f16, MatB, Sg, K, N>::load(x, 0, 16);
        let sums = mul_add(a, b, Tile::<f32, Acc, Sg, M, N>::zero());
        tile::store(sums, y, 0, 16);
    }
}

pub mod tile_scope {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 32, subgroup = 32, grid = 1)]
    pub fn case(x: &Buf<f16>, y: &BufMut<f32>) {
        dims!(M = 16, N = 16, K = 16);
        let a = Tile::<f16, MatA, Sg, M, K>::load(x, 0, 16);
        let b = Tile::<f16, MatB, Sg, K, N>::load(x, 0, 16);
        let sums = mul_add(a, b, Tile::<f32, Acc, Sg, M, N>::zero());
        tile::store(sums, y, 0, 16);
    }
}

pub mod tile_element {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 32, subgroup = 32, grid = 1)]
    pub fn case(x: &Buf<f16>, y: &BufMut<f32>) {
        dims!(M = 16, N = 16, K = 16);
        let a = Tile::<f16, MatA, Sg, M, K>::load(x, 0, 16);
        let b = Tile::<f16, MatB, Sg, K, N>::load(x, 0, 16);
        let sums = mul_add(a, b, Tile::<f32, Acc, Sg, M, N>::zero());
        tile::store(sums, y, 0, 16);
    }
}
