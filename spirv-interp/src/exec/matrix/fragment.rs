//! The order of a fragment's elements, as `MatrixCaps::fragments` says it.

use kiln_abi::spirv::MatrixUse;

use crate::{
    matrix::{Shape, Sharing},
    number::Number,
};

/// Lanes of a subgroup that holds fragments.
pub(crate) const LANES: u32 = 32;

/// As [`super::Mappings::of`] gives it; `None` for what is no fragment.
pub(super) fn order(shape: &Shape, n: u32) -> Option<Vec<u32>> {
    let Shape { elem, sharing, rows, cols, usage } = *shape;
    // Row and column of element i of lane (g, t): a pair of elements lies along the depth, or along the sums' columns.
    let at: fn(u32, u32, u32) -> [u32; 2] = match (usage, elem, rows, cols) {
        (MatrixUse::MatrixAKHR, Number::F16, 16, 16) => {
            |g, t, i| [g + i / 4 * 8, 2 * t + i / 2 % 2 * 8 + i % 2]
        }
        (MatrixUse::MatrixBKHR, Number::F16, 16, 8) => |g, t, i| [2 * t + i / 2 * 8 + i % 2, g],
        (MatrixUse::MatrixAccumulatorKHR, Number::F32, 16, 8) => |g, t, i| [g + i / 2 * 8, 2 * t + i % 2],
        _ => return None,
    };
    let element = |entry: u32| {
        let (lane, i) = (entry % LANES, entry / LANES);
        let [row, col] = at(lane / 4, lane % 4, i);
        row * cols + col
    };
    (sharing == Sharing::Subgroup && n == LANES).then(|| (0..rows * cols).map(element).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_of_a_fragment_is_held_once() {
        let shapes = [
            (Number::F16, 16, MatrixUse::MatrixAKHR),
            (Number::F16, 8, MatrixUse::MatrixBKHR),
            (Number::F32, 8, MatrixUse::MatrixAccumulatorKHR),
        ];
        for (elem, cols, usage) in shapes {
            let shape = Shape { elem, sharing: Sharing::Subgroup, rows: 16, cols, usage };
            let mut held = order(&shape, LANES).unwrap();
            held.sort_unstable();
            assert!(held.into_iter().eq(0..16 * cols));
            assert_eq!(order(&shape, 16), None);
            assert_eq!(order(&Shape { sharing: Sharing::Workgroup, ..shape }, LANES), None);
            assert_eq!(order(&Shape { rows: 8, ..shape }, LANES), None);
        }
    }
}
