//! Which shape a product of many rows takes on a device, if any, and why.

use kiln_abi::{
    DeviceCaps, MatrixElem, MatrixProduct,
    spirv::{Capability, Scope},
};

use super::{KhrShape, Schedule, decoded};

/// Shapes in falling order of their tiles: of a large card's matrices, then of a CPU driver's.
const SHAPES: [KhrShape; 3] = [
    KhrShape {
        tile: [128, 64, 64],
        subgroups: [2, 2],
        matrix: [16, 16, 16],
        lanes: 32,
        schedule: Schedule::PLAIN,
    },
    KhrShape {
        tile: [64, 64, 64],
        subgroups: [2, 2],
        matrix: [16, 16, 16],
        lanes: 32,
        schedule: Schedule::PLAIN,
    },
    KhrShape {
        tile: [32, 16, 32],
        subgroups: [2, 1],
        matrix: [8, 8, 8],
        lanes: 8,
        schedule: Schedule::PLAIN,
    },
];
/// Rows of x from which a tile of them beats a row after the other.
const FEWEST_ROWS: u32 = 32;
/// Workgroups that fill a large card; where tiles are fewer, smaller ones are better.
const WORKGROUPS: u32 = 96;
/// Workgroup memory that every variant stays within.
const WORKGROUP_BYTES: u32 = 48 << 10;

/// The product that the arm multiplies with.
const ELEMS: [MatrixElem; 4] = [MatrixElem::F16, MatrixElem::F16, MatrixElem::F32, MatrixElem::F32];

/// The shape for a product, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The shape.
    pub shape: KhrShape,
    /// A sentence for people.
    pub reason: String,
}

/// The shapes of the arm khr_f16 for a format whose table has so many bytes.
pub fn shapes(table_bytes: u32) -> impl Iterator<Item = KhrShape> {
    SHAPES.into_iter().filter(move |s| decoded::bytes(s, table_bytes) <= WORKGROUP_BYTES)
}

/// The shape for `m` rows of W, `rows` of x and `k` columns, or why there is none.
///
/// # Errors
/// A sentence: too few rows, rows that are not whole words, or a device without such matrices.
pub fn choose(table_bytes: u32, [rows, m, k]: [u32; 3], caps: &DeviceCaps) -> Result<Choice, String> {
    if rows < FEWEST_ROWS {
        return Err(format!("{rows} rows of x are fewer than {FEWEST_ROWS}"));
    }
    if !k.is_multiple_of(decoded::PER_WORD) {
        return Err(format!("rows of {k} elements are no whole words of {}", decoded::PER_WORD));
    }
    let fitting: Vec<KhrShape> = shapes(table_bytes).filter(|s| runs(s, table_bytes, caps)).collect();
    let workgroups = |s: &KhrShape| rows.div_ceil(s.tile[0]) * m.div_ceil(s.tile[1]);
    let filling = fitting.iter().find(|s| workgroups(s) >= WORKGROUPS).or(fitting.last());
    let Some(&shape) = filling else {
        return Err("the device multiplies no matrices of f16 in a shape that fits".to_owned());
    };
    let n = workgroups(&shape);
    Ok(Choice { shape, reason: format!("{rows} rows of x on matrices of f16; {shape:?}; {n} workgroups") })
}

/// Whether the device runs the shape.
fn runs(shape: &KhrShape, table_bytes: u32, caps: &DeviceCaps) -> bool {
    let needed = [Capability::CooperativeMatrixKHR, Capability::Float16];
    // The left factor is x, so y's rows are rows of x.
    let product = MatrixProduct { scope: Scope::Subgroup, mnk: shape.matrix, elems: ELEMS };
    let (low, high) = caps.subgroup_sizes;
    needed.iter().all(|c| caps.capabilities.contains(c))
        && (low..=high).contains(&shape.lanes)
        && shape.invocations() <= caps.limits.max_invocations
        && decoded::bytes(shape, table_bytes) <= caps.limits.max_workgroup_bytes
        && caps.matrix.multiplies(&product, shape.invocations())
}
