//! Planes: every bit of a block has one place, packing is undone, and a device's copy is hardly larger than the file's.

use kiln_kernels::Registry;
use kiln_kernels::conformance::Random;

#[test]
fn packing_is_undone_bit_for_bit() {
    for row in Registry::builtin().formats() {
        let n_elems = row.row_multiple.max(row.geometry.elements()) as usize * 5;
        let bytes = Random::new(row.id.into())
            .bytes(n_elems / row.geometry.elements() as usize * row.geometry.bytes() as usize);
        let planes = (row.pack)(&bytes);
        assert_eq!(planes.len() as u64, (row.device_bytes)(n_elems as u64), "{}", row.name);
        assert_eq!((row.unpack)(&planes, n_elems / row.geometry.elements() as usize), bytes, "{}", row.name);
    }
}

#[test]
fn a_changed_bit_is_seen() {
    for row in Registry::builtin().formats() {
        let n_elems = row.row_multiple.max(row.geometry.elements()) as usize;
        let n_blocks = n_elems / row.geometry.elements() as usize;
        let mut bytes = vec![0; n_blocks * row.geometry.bytes() as usize];
        let zero = (row.pack)(&bytes);
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let differing: u32 =
                (row.pack)(&bytes).iter().zip(&zero).map(|(a, b)| (a ^ b).count_ones()).sum();
            assert_eq!(differing, 1, "{}: bit {bit}", row.name);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn a_device_copy_is_at_most_a_twentieth_larger() {
    for row in Registry::builtin().formats() {
        // A matrix of 2048 x 4096.
        let n_elems = 2048 * 4096u64;
        let file = n_elems / u64::from(row.geometry.elements()) * u64::from(row.geometry.bytes());
        let device = (row.device_bytes)(n_elems);
        assert!(
            device >= file && device as f64 <= file as f64 * 1.05,
            "{}: {file} becomes {device}",
            row.name
        );
    }
}
