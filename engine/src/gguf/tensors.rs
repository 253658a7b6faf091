//! The tensor section: names, shapes, types, and where the data lies.

use kiln_abi::BlockGeometry;
use kiln_kernels::Registry;

use super::{
    cursor::Cursor,
    error::{GgufError, quoted},
    metadata::Span,
};

/// A tensor as the file lists it, checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) name: Span,
    /// Slowest dimension first; unused ones are 0.
    shape: [u64; MAX_RANK],
    rank: u8,
    pub(super) type_id: u32,
    geometry: BlockGeometry,
    /// Within the data section.
    pub(super) data_offset: u64,
    pub(super) bytes: u64,
}

impl Entry {
    pub(super) fn shape(&self) -> &[u64] {
        &self.shape[..usize::from(self.rank)]
    }
}

/// Most dimensions of a tensor.
pub(super) const MAX_RANK: usize = 4;
/// A tensor takes at least a name of one byte, a rank, a dimension, a type and an offset.
const SMALLEST_ENTRY: u64 = 8 + 1 + 4 + 8 + 4 + 8;

/// Reads the number of tensors.
pub(super) fn read_count(cursor: &mut Cursor<'_>) -> Result<usize, GgufError> {
    cursor.count("tensor count", SMALLEST_ENTRY)
}

/// Reads the section of `n` entries; data ranges are checked by [`check_data`] once the section's end is known.
pub(super) fn read(
    cursor: &mut Cursor<'_>,
    n: usize,
    alignment: u32,
    registry: &Registry,
) -> Result<Vec<Entry>, GgufError> {
    let mut entries = Vec::with_capacity(n);
    for _ in 0..n {
        entries.push(read_one(cursor, alignment, registry)?);
    }
    Ok(entries)
}

fn read_one(cursor: &mut Cursor<'_>, alignment: u32, registry: &Registry) -> Result<Entry, GgufError> {
    let text = cursor.name("tensor name")?;
    let name = Span::behind(cursor, text);
    let tensor = || quoted(text);

    let offset = cursor.offset();
    let found = cursor.u32("number of dimensions")?;
    let rank = match u8::try_from(found) {
        Ok(rank @ 1..=4) => rank,
        _ => return Err(GgufError::BadRank { tensor: tensor(), found, offset }),
    };
    let mut shape = [0; MAX_RANK];
    // The file lists the fastest dimension first.
    for dim in shape[..usize::from(rank)].iter_mut().rev() {
        *dim = cursor.u64("dimension")?;
    }
    let offset = cursor.offset();
    let type_id = cursor.u32("tensor type")?;
    let Some(geometry) = registry.geometry(type_id) else {
        return Err(GgufError::UnknownTensorType { tensor: tensor(), id: type_id, offset });
    };
    let bytes = data_bytes(&shape[..usize::from(rank)], geometry, tensor)?;

    let data_offset = cursor.u64("data offset")?;
    if !data_offset.is_multiple_of(u64::from(alignment)) {
        return Err(GgufError::MisalignedTensor { tensor: tensor(), data_offset, alignment });
    }
    Ok(Entry { name, shape, rank, type_id, geometry, data_offset, bytes })
}

/// Bytes of a tensor's data, or why there can be no such tensor.
pub(super) fn data_bytes(
    dims: &[u64],
    geometry: BlockGeometry,
    tensor: impl Fn() -> String,
) -> Result<u64, GgufError> {
    if dims.contains(&0) {
        return Err(GgufError::ZeroDimension { tensor: tensor(), shape: dims.to_vec() });
    }
    let row = dims.last().copied().unwrap_or(0);
    let overflow = || GgufError::SizeOverflow { tensor: tensor(), shape: dims.to_vec() };
    let fits = |n: u64| i64::try_from(n).is_ok();
    let elems =
        dims.iter().try_fold(1u64, |n, d| n.checked_mul(*d)).filter(|n| fits(*n)).ok_or_else(overflow)?;
    if !row.is_multiple_of(u64::from(geometry.elements())) {
        return Err(GgufError::PartialBlock { tensor: tensor(), row, block: geometry.elements() });
    }
    geometry.row_bytes(elems).filter(|n| fits(*n)).ok_or_else(overflow)
}

/// Checks names and data ranges against each other and the data section of `available` bytes.
pub(super) fn check_data(entries: &[Entry], bytes: &[u8], available: u64) -> Result<(), GgufError> {
    for e in entries {
        if e.data_offset > available || e.bytes > available - e.data_offset {
            let (data_offset, bytes_needed) = (e.data_offset, e.bytes);
            let tensor = quoted(e.name.text(bytes));
            return Err(GgufError::TensorOutOfRange { tensor, data_offset, bytes: bytes_needed, available });
        }
    }
    let mut order: Vec<&Entry> = entries.iter().collect();
    order.sort_unstable_by_key(|e| e.data_offset);
    if let Some(pair) = order.windows(2).find(|p| p[0].data_offset + p[0].bytes > p[1].data_offset) {
        let [first, second] = [pair[0], pair[1]].map(|e| quoted(e.name.text(bytes)));
        return Err(GgufError::OverlappingTensors { first, second, data_offset: pair[1].data_offset });
    }
    order.sort_unstable_by_key(|e| e.name.text(bytes));
    match order.windows(2).find(|p| p[0].name.text(bytes) == p[1].name.text(bytes)) {
        Some(pair) => Err(GgufError::DuplicateTensor { tensor: quoted(pair[0].name.text(bytes)) }),
        None => Ok(()),
    }
}

/// A tensor of the model.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    /// Name.
    pub name: &'a str,
    /// Slowest dimension first.
    pub shape: &'a [u64],
    /// ggml's type id.
    pub type_id: u32,
    /// Its blocks, row after row.
    pub data: &'a [u8],
    geometry: BlockGeometry,
}

impl<'a> Tensor<'a> {
    pub(super) fn new(entry: &'a Entry, bytes: &'a [u8], data_start: usize) -> Self {
        let start = usize::try_from(entry.data_offset).ok().and_then(|o| data_start.checked_add(o));
        let end = start.zip(usize::try_from(entry.bytes).ok()).and_then(|(start, n)| start.checked_add(n));
        let data = start.zip(end).and_then(|(start, end)| bytes.get(start..end)).unwrap_or_default();
        let name = entry.name.text(bytes);
        Tensor { name, shape: entry.shape(), type_id: entry.type_id, data, geometry: entry.geometry }
    }

    /// Its blocks.
    pub const fn geometry(&self) -> BlockGeometry {
        self.geometry
    }

    /// Number of elements.
    pub fn n_elems(&self) -> u64 {
        self.shape.iter().product()
    }
}
