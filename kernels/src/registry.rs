//! The registry: a value that lists what this program can do. Everybody else asks it.

use std::collections::BTreeMap;

use kiln_abi::{BlockGeometry, DeviceCaps};
use thiserror::Error;

use crate::{
    Call, Variant, activations, add, add_bias, advance, attention, attention_khr, attention_tile,
    decode_each,
    formats::{
        Bf16, F16, F32, Format, HostFormat, Iq1M, Iq1S, Iq2S, Iq2Xs, Iq2Xxs, Iq3S, Iq3Xxs, Iq4Nl, Iq4Xs,
        Mxfp4, Nvfp4, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0, Tq1_0, Tq2_0,
        layout::{self, LayoutError},
    },
    fragment_order, gather_rows,
    gemm::{self, decoded},
    gemv::{self, Arms, Choice, Form, Shape, Tile, Traits},
    get_rows::{self, GetRowsOperands, GetRowsPush},
    glu, half_rows, heads, kv_store, late_norm, norm, read_all,
    repack::{self, Repack},
    rms_norm, rope, sample, scale, soft_cap,
};

mod distinct;

/// One format, its type erased.
#[derive(Clone, Debug)]
pub struct FormatRow {
    /// ggml's type id.
    pub id: u32,
    /// ggml's name.
    pub name: &'static str,
    /// Elements and bytes of a block.
    pub geometry: BlockGeometry,
    /// Its kernels: every role on every arm.
    pub variants: Vec<Variant>,
    /// Elements that a row must be whole multiples of on a device.
    pub row_multiple: u32,
    /// Elements of a unit.
    pub unit: u32,
    /// What the arm and tile of its gemv depend on.
    pub traits: Traits,
    /// The arms of its `gemv`.
    pub gemv: Arms,
    /// A launch of its `gemm`.
    pub gemm: gemm::Launch,
    /// Bytes of its table.
    pub table_bytes: u32,
    /// A launch of its `get_rows`.
    pub get_rows: fn(GetRowsOperands, GetRowsPush) -> Call,
    /// Bytes on a device of that many elements.
    pub device_bytes: fn(u64) -> u64,
    /// What each element of whole blocks has beside `scale * q`, as `Format::offset` says.
    pub offsets: fn(&[u8]) -> Vec<f32>,
    /// Whether its planes are a rearrangement of its blocks.
    pub layout: fn() -> Result<(), LayoutError>,
    /// How a tensor of that many elements comes to a device.
    pub repack: fn(u64) -> Repack,
    /// Whether blocks are coded anew on their way to a device.
    pub recoded: bool,
    /// Blocks as a device holds them, by plain Rust.
    pub pack: fn(&[u8]) -> Vec<u8>,
    /// That many blocks as a file holds them: the inverse.
    pub unpack: fn(&[u8], usize) -> Vec<u8>,
    dequantize: fn(&[u8], &mut [f32]),
}

/// Whether kernels can share out rows of such blocks and units: without a rest whatever the tile.
const fn units_fit(block: u32, unit: u32) -> bool {
    block.is_power_of_two() && unit.is_power_of_two() && unit >= 4
}

impl FormatRow {
    fn of<F: Format>() -> Self {
        const {
            assert!(
                F::BLK == F::GEOMETRY.elements(),
                "`BLK` is the elements of a block, as `GEOMETRY` has them"
            );
            assert!(
                units_fit(F::BLK, F::UNIT),
                "`UNIT` and `BLK` are powers of two, `UNIT` at least 4: kernels share rows out among lanes and tiles by them"
            );
        }
        let arms = F::arms();
        FormatRow {
            id: F::ID,
            name: F::NAME,
            geometry: F::GEOMETRY,
            variants: [
                repack::variants::<F>(),
                get_rows::variants::<F>(),
                decode_each::variants::<F>(),
                arms.variants(),
                decoded::variants::<F>(),
            ]
            .concat(),
            row_multiple: F::BLK.max(F::UNIT),
            unit: F::UNIT,
            traits: Traits::of::<F>(),
            gemv: arms,
            gemm: decoded::call::<F>,
            table_bytes: gemm::table_bytes(F::PLANES),
            get_rows: get_rows::call::<F>,
            device_bytes: layout::device_bytes::<F>,
            offsets: gemv::offsets::<F>,
            layout: layout::check::<F>,
            repack: Repack::of::<F>,
            recoded: F::RECODING.is_some(),
            pack: layout::pack::<F>,
            unpack: layout::unpack::<F>,
            dequantize: F::dequantize,
        }
    }

    /// The arm and tile of its gemv for a shape on a device.
    pub fn choose(&self, shape: Shape, caps: &DeviceCaps) -> Choice {
        gemv::choose(self.traits, shape, caps)
    }

    /// The tile of a choice where a launch leaves blocks, on a device that can.
    pub fn tile_of_block(&self, choice: &Choice, form: Form, caps: &DeviceCaps) -> Option<Tile> {
        gemv::of_block(self.traits, choice, form, caps)
    }

    /// The shape of its gemm for `rows` rows of x, `m` of W and `k` columns on a device.
    ///
    /// # Errors
    /// Why its gemv has to do.
    pub fn choose_gemm(&self, shape: [u32; 3], caps: &DeviceCaps) -> Result<gemm::Choice, String> {
        gemm::choose(self.table_bytes, shape, caps)
    }

    /// The values of whole blocks.
    ///
    /// # Errors
    /// `blocks` is not whole blocks, or `out` has not one value for each of their elements.
    pub fn dequantize(&self, blocks: &[u8], out: &mut [f32]) -> Result<(), DequantizeError> {
        let (n_bytes, n_elems) = (self.geometry.bytes() as usize, self.geometry.elements() as usize);
        let n_blocks = blocks.len() / n_bytes;
        if !blocks.len().is_multiple_of(n_bytes) || out.len() != n_blocks * n_elems {
            let (bytes, elements) = (blocks.len(), out.len());
            return Err(DequantizeError { format: self.name, bytes, elements, n_bytes, n_elems });
        }
        for (block, out) in blocks.chunks_exact(n_bytes).zip(out.chunks_exact_mut(n_elems)) {
            (self.dequantize)(block, out);
        }
        Ok(())
    }
}

/// Bytes and values that do not belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "{bytes} bytes of {format} do not hold {elements} values: a block has {n_bytes} bytes and {n_elems} values"
)]
pub struct DequantizeError {
    /// The format.
    pub format: &'static str,
    /// Bytes given.
    pub bytes: usize,
    /// Values asked for.
    pub elements: usize,
    /// Bytes of a block.
    pub n_bytes: usize,
    /// Values of a block.
    pub n_elems: usize,
}

/// Two formats that claim the same id or name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "format {second}, of type id {id}, has the {what} of {first}, which is registered already; give it one of its own"
)]
pub struct DuplicateFormat {
    /// `type id` or `name`.
    pub what: &'static str,
    /// The one registered first.
    pub first: &'static str,
    /// The one refused.
    pub second: &'static str,
    /// Its type id.
    pub id: u32,
}

/// Every format of this crate.
///
/// Two of one type id or name do not build: of the two the registry would know the last alone.
macro_rules! rows {
    ($($format:ident),* $(,)?) => {
        const _: () = {
            let taken = distinct::taken(&[$((<$format as HostFormat>::ID, <$format as HostFormat>::NAME)),*]);
            assert!(taken.is_none(), "{}", distinct::text(&taken));
        };

        fn rows() -> Vec<FormatRow> {
            vec![$(FormatRow::of::<$format>()),*]
        }
    };
}

rows![
    F32, F16, Bf16, Q4_0, Q4_1, Q6K, Q8_0, Q5_0, Q5_1, Q2K, Q3K, Q4K, Q5K, Iq2Xxs, Iq2Xs, Iq3Xxs, Iq1S,
    Iq4Nl, Iq3S, Iq2S, Iq4Xs, Iq1M, Tq1_0, Tq2_0, Mxfp4, Nvfp4,
];

/// Formats by id, and the kernels that no format takes part in.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    formats: BTreeMap<u32, FormatRow>,
    plain: Vec<Variant>,
}

impl Registry {
    /// Everything in this crate.
    pub fn builtin() -> Self {
        let plain = [
            activations::variants(),
            add::variants(),
            rms_norm::variants(),
            add_bias::variants(),
            late_norm::variants(),
            norm::variants(),
            scale::variants(),
            read_all::variants(),
            soft_cap::variants(),
            rope::variants(),
            glu::variants(),
            half_rows::variants(),
            heads::variants(),
            kv_store::variants(),
            attention::variants(),
            attention_khr::variants(),
            attention_tile::variants(),
            fragment_order::variants(),
            gather_rows::variants(),
            gemm::variants(),
            // A format with one plane of scales, and one with two.
            gemm::cm2::variants::<Q8_0>(),
            gemm::cm2::variants::<Q4K>(),
            sample::variants(),
            advance::variants(),
        ]
        .concat();
        Registry { formats: rows().into_iter().map(|row| (row.id, row)).collect(), plain }
    }

    /// This registry and one more format.
    ///
    /// # Errors
    /// The format's id or name is taken.
    pub fn with<F: Format>(mut self) -> Result<Self, DuplicateFormat> {
        self.insert(FormatRow::of::<F>())?;
        Ok(self)
    }

    fn insert(&mut self, row: FormatRow) -> Result<(), DuplicateFormat> {
        let taken = self.formats().find_map(|r| match (r.id == row.id, r.name == row.name) {
            (true, _) => Some(("type id", r.name)),
            (false, true) => Some(("name", r.name)),
            (false, false) => None,
        });
        if let Some((what, first)) = taken {
            return Err(DuplicateFormat { what, first, second: row.name, id: row.id });
        }
        self.formats.insert(row.id, row);
        Ok(())
    }

    /// The formats, ascending by id.
    pub fn formats(&self) -> impl Iterator<Item = &FormatRow> {
        self.formats.values()
    }

    /// Every kernel variant: those without a format, then format by format.
    pub fn variants(&self) -> impl Iterator<Item = &Variant> {
        self.plain.iter().chain(self.formats().flat_map(|row| &row.variants))
    }

    /// A format by ggml's type id.
    pub fn format(&self, id: u32) -> Option<&FormatRow> {
        self.formats.get(&id)
    }

    /// A format by name.
    pub fn format_named(&self, name: &str) -> Option<&FormatRow> {
        self.formats().find(|row| row.name == name)
    }

    /// The block of a type id.
    pub fn geometry(&self, id: u32) -> Option<BlockGeometry> {
        self.format(id).map(|row| row.geometry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_of_this_crate_has_an_id_and_a_name_of_its_own() {
        let mut registry = Registry::default();
        for row in rows() {
            if let Err(taken) = registry.insert(row) {
                panic!("{taken}");
            }
        }
        assert_eq!(registry.formats().count(), Registry::builtin().formats().count());
    }

    #[test]
    fn blocks_and_units_that_rows_cannot_be_shared_out_by_are_refused() {
        for (block, unit) in [(1, 4), (1, 8), (32, 32), (64, 32), (256, 64), (32, 64)] {
            assert!(units_fit(block, unit), "{block} and {unit}");
        }
        // Three units a block and units of 24 or 40 elements gave wrong products.
        for (block, unit) in [(96, 32), (24, 24), (40, 40), (96, 96), (66, 66), (33, 33), (64, 2), (32, 0)] {
            assert!(!units_fit(block, unit), "{block} and {unit}");
        }
    }
}
