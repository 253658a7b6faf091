//! The registry as a value: looked up by id and name, extended from outside, refusing duplicates.

use kiln_abi::BlockGeometry;
use kiln_dsl::prelude::*;
use kiln_kernels::formats::F16;
use kiln_kernels::gemv::Arms;
use kiln_kernels::{Format, HostFormat, Registry, conformance::check_format};

/// A format of this test alone: the values of F16, each doubled.
struct Doubled;
/// F16 under another id.
struct SecondF16;
/// With a word of its table left out, with no plane for it, as it is to be.
struct ShortTable;
struct LoneTable;
struct WholeTable;

macro_rules! doubled {
    ($format:ident, $id:expr, $name:expr, $planes:expr, $table:expr) => {
        impl HostFormat for $format {
            const ID: u32 = $id;
            const NAME: &'static str = $name;
            const GEOMETRY: BlockGeometry = F16::GEOMETRY;

            fn dequantize(block: &[u8], out: &mut [f32]) {
                F16::dequantize(block, out);
                out[0] *= 2.0;
            }
        }

        impl Format for $format {
            fn arms() -> Arms {
                Arms::plain::<Self>()
            }

            fn table() -> Vec<u32> {
                $table
            }

            fn source(plane: usize, unit: usize, bit: usize) -> Option<usize> {
                F16::source(plane, unit, bit)
            }
        }

        #[device]
        impl TensorFormat for $format {
            const BLK: u32 = F16::BLK;
            const UNIT: u32 = F16::UNIT;
            const PLANES: &'static [Plane] = $planes;

            fn decode4(u: &Unit, at: u32) -> Vec4<f32> {
                let v = F16::decode4(&u, at);
                v + v
            }
        }
    };
}

doubled!(Doubled, 1000, "DOUBLED", F16::PLANES, Vec::new());
doubled!(SecondF16, 1001, F16::NAME, F16::PLANES, Vec::new());
doubled!(ShortTable, 1002, "SHORT_TABLE", &[F16::PLANES[0], Plane::table(8)], vec![1; 7]);
doubled!(LoneTable, 1003, "LONE_TABLE", F16::PLANES, vec![1; 7]);
doubled!(WholeTable, 1004, "WHOLE_TABLE", &[F16::PLANES[0], Plane::table(8)], vec![1; 8]);

#[test]
fn every_row_is_found_by_id_and_by_name() {
    let registry = Registry::builtin();
    let ids: Vec<u32> = registry.formats().map(|row| row.id).collect();
    assert!(ids.len() >= 7 && ids.is_sorted(), "{ids:?}");
    for row in registry.formats() {
        assert_eq!(registry.format(row.id).unwrap().name, row.name);
        assert_eq!(registry.format_named(row.name).unwrap().id, row.id);
        assert_eq!(registry.geometry(row.id), Some(row.geometry));
    }
    assert!(registry.format(1000).is_none() && registry.format_named("DOUBLED").is_none());
}

#[test]
fn builtin_names_are_distinct() {
    let mut names: Vec<&str> = Registry::builtin().formats().map(|row| row.name).collect();
    let n = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), n);
}

#[test]
fn a_format_from_outside_is_a_row_like_any_other() {
    let registry = Registry::builtin().with::<Doubled>().unwrap();
    let row = registry.format_named("DOUBLED").unwrap();
    let mut values = [0.0; 2];
    row.dequantize(&[0x00, 0x3c, 0x00, 0xc0], &mut values).unwrap();
    assert_eq!(values, [2.0, -4.0]);
    assert!(!row.variants.is_empty(), "its kernels are listed");
    assert!(registry.variants().count() > Registry::builtin().variants().count());
}

#[test]
fn a_taken_id_or_name_is_refused() {
    let twice = Registry::builtin().with::<Doubled>().unwrap().with::<Doubled>().unwrap_err();
    assert_eq!((twice.what, twice.first, twice.second, twice.id), ("type id", "DOUBLED", "DOUBLED", 1000));
    let name = Registry::builtin().with::<SecondF16>().unwrap_err();
    assert_eq!(name.what, "name");
    assert_eq!(
        name.to_string(),
        "format F16, of type id 1001, has the name of F16, which is registered already; give it one of its own"
    );
}

#[test]
fn a_table_of_another_length_than_its_plane_is_seen() {
    fn said<F: Format>() -> Result<(), String> {
        let registry = Registry::builtin().with::<F>().unwrap();
        check_format(registry.format(F::ID).unwrap())
    }
    for (found, words) in [(said::<ShortTable>(), "8"), (said::<LoneTable>(), "0")] {
        let found = found.unwrap_err();
        let start =
            format!("the tables of `PLANES` have {words} words (`Plane::table`, `Plane::pairs`), and ");
        assert!(found.starts_with(&start) && found.contains("`Format::table` gives 7: "), "{found}");
    }
    assert_eq!(said::<WholeTable>(), Ok(()));
}

#[test]
fn bytes_and_values_must_belong_together() {
    let registry = Registry::builtin();
    for row in registry.formats() {
        let (n_bytes, n_elems) = (row.geometry.bytes() as usize, row.geometry.elements() as usize);
        let mut values = vec![0.0; 2 * n_elems];
        let blocks = vec![0; 2 * n_bytes];
        row.dequantize(&blocks, &mut values).unwrap();
        let short = row.dequantize(&blocks[1..], &mut values).unwrap_err();
        assert_eq!((short.bytes, short.elements), (2 * n_bytes - 1, 2 * n_elems));
        row.dequantize(&blocks[..n_bytes], &mut values).unwrap_err();
        row.dequantize(&blocks, &mut values[1..]).unwrap_err();
    }
}

#[test]
fn drivers_check_products_that_find_their_experts_by_ids() {
    let registry = Registry::builtin();
    for name in ["Q4_0", "F16"] {
        let row = registry.format_named(name).unwrap();
        let (mut checked, mut all) = (0, 0);
        for variant in &row.variants {
            let layout = variant.stage().unwrap().layout;
            assert_eq!(layout.checked, variant.name.contains("experts"), "{}", variant.name);
            (checked, all) = (checked + u32::from(layout.checked), all + 1);
        }
        assert!(checked > 0 && checked < all, "{name}: {checked} of {all}");
    }
}
