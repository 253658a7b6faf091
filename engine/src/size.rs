//! Sizes for people.

/// Bytes in the largest unit that leaves a whole number before the point.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [(&str, u32); 3] = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match UNITS.into_iter().find(|(_, bits)| bytes >= 1 << bits) {
        Some((unit, bits)) => format!("{:.1} {unit}", bytes as f64 / f64::from(1u32 << bits)),
        None => format!("{bytes} bytes"),
    }
}
