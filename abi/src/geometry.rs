//! How many elements and bytes one block of a tensor format holds.

/// The size of one block: the smallest piece of a row that a format can address.
///
/// Both numbers are at least one; a row of `n` elements is whole blocks or it is not storable in the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockGeometry {
    elements: u32,
    bytes: u32,
}

impl BlockGeometry {
    /// A block of `elements` values stored in `bytes` bytes.
    ///
    /// # Panics
    /// When either number is zero. Formats call this in constants, where that is a compile error.
    pub const fn new(elements: u32, bytes: u32) -> Self {
        assert!(elements > 0 && bytes > 0, "a block holds at least one element and one byte");
        Self { elements, bytes }
    }

    /// Elements per block.
    pub const fn elements(self) -> u32 {
        self.elements
    }

    /// Bytes per block.
    pub const fn bytes(self) -> u32 {
        self.bytes
    }

    /// Stored bits per element, scales included.
    pub fn bits_per_element(self) -> f64 {
        f64::from(self.bytes) * 8.0 / f64::from(self.elements)
    }

    /// Bytes of a row of `elements` values; `None` when the row is not whole blocks or the size exceeds a u64.
    pub const fn row_bytes(self, elements: u64) -> Option<u64> {
        let per_block = self.elements as u64;
        if !elements.is_multiple_of(per_block) {
            return None;
        }
        (elements / per_block).checked_mul(self.bytes as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::BlockGeometry;

    #[test]
    fn rows_are_whole_blocks() {
        let block = BlockGeometry::new(32, 34);
        assert_eq!(block.row_bytes(64), Some(68));
        assert_eq!(block.row_bytes(0), Some(0));
        assert_eq!(block.row_bytes(63), None);
        assert_eq!(block.row_bytes(u64::MAX / 32 * 32), None, "the product exceeds a u64");
        assert_eq!(block.bits_per_element(), 8.5);
    }
}
