//! Which shape a product of many rows takes on a device, if any, and why.

use kiln_abi::{
    DeviceCaps, MatrixElem, MatrixProduct,
    spirv::{Capability, Scope},
};

use super::{KhrShape, Schedule, decoded};

/// A shape, and the workgroups from which it fills a large card: with fewer a smaller one is better.
struct Row {
    from: u32,
    shape: KhrShape,
}

/// Shapes in falling order of what they are worth once they fill a card: of a large card's matrices, then of a CPU
/// driver's. As measured in 2026-11-30-h200-gemm.
const SHAPES: [Row; 4] = [
    Row { from: LARGE_FROM, shape: LARGE.on(Schedule { matrices: true, ..LARGE.schedule }) },
    Row { from: 96, shape: KhrShape { tile: [128, 64, 64], ..LARGE.on(Schedule::PLAIN) } },
    Row { from: 0, shape: KhrShape { tile: [64, 64, 64], ..LARGE.on(Schedule::PLAIN) } },
    Row {
        from: 0,
        shape: KhrShape {
            tile: [32, 16, 32],
            subgroups: [2, 1],
            matrix: [8, 8, 8],
            lanes: 8,
            schedule: Schedule::PLAIN,
        },
    },
];
/// Two such workgroups, whose sums are as many as registers hold, share a processor.
const LARGE: KhrShape = KhrShape {
    tile: [128, 128, 64],
    subgroups: [2, 2],
    matrix: [16, 16, 16],
    lanes: 32,
    schedule: Schedule { across: true, ..Schedule::PLAIN },
};
/// More workgroups than a large card has processors.
const LARGE_FROM: u32 = 160;
/// Rows of x from which a tile of them beats a row after the other.
const FEWEST_ROWS: u32 = 32;
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
    table(table_bytes).map(|row| row.shape)
}

fn table(table_bytes: u32) -> impl Iterator<Item = Row> {
    SHAPES.into_iter().filter(move |row| decoded::bytes(&row.shape, table_bytes) <= WORKGROUP_BYTES)
}

/// The shape of a product of plain elements, halves or `bytes` of them, on a large card, for `n` rows of x and `m` of W.
pub fn plain_shape(bytes: bool, [n, m]: [u32; 2]) -> KhrShape {
    let shape = if bytes { KhrShape { tile: [128, 128, 128], matrix: [16, 16, 32], ..LARGE } } else { LARGE };
    let filled = n.div_ceil(shape.tile[0]) * m.div_ceil(shape.tile[1]) >= LARGE_FROM;
    // One workgroup a processor leaves room for twice the subgroups.
    let slices = if filled { 1 } else { 2 };
    shape.on(Schedule { slices, eager: filled, ..shape.schedule })
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
    // Half a tile of rows that are not there costs as much as one of half the rows.
    let fitting: Vec<Row> = table(table_bytes).filter(|row| runs(&row.shape, table_bytes, caps)).collect();
    let used = |row: &&Row| row.shape.tile[0] < 2 * rows;
    let workgroups = |s: &KhrShape| rows.div_ceil(s.tile[0]) * m.div_ceil(s.tile[1]);
    let filling =
        fitting.iter().filter(used).find(|row| workgroups(&row.shape) >= row.from).or(fitting.last());
    let Some(&Row { shape, .. }) = filling else {
        return Err("without matrices of f16 in a shape that fits".to_owned());
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
