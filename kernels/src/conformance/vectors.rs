//! What a format decodes to, against blocks and values from elsewhere: all other checks hold it against itself.

use crate::FormatRow;

/// Checks that `blocks`, whole ones, decode to `values`, one for each of their elements: bit for bit, any NaN for any. The
/// two come from outside, of who writes such files or by hand, and show each byte of a block to be read.
///
/// # Errors
/// The first element that differs, or the first byte that no block tells from another.
pub fn check_vectors(row: &FormatRow, blocks: &[u8], values: &[f32]) -> Result<(), String> {
    let (n_bytes, n_elems) = (row.geometry.bytes() as usize, row.geometry.elements() as usize);
    let n_blocks = blocks.len() / n_bytes;
    if n_blocks == 0 {
        return Err(format!("{} bytes are no block of {}, which has {n_bytes}", blocks.len(), row.name));
    }
    let mut found = vec![0.0; values.len()];
    row.dequantize(blocks, &mut found).map_err(|e| e.to_string())?;
    if let Some(at) = found.iter().zip(values).position(|(a, b)| !is_same(a, b)) {
        let (element, block) = (at % n_elems, at / n_elems);
        let [found, expected] = [found[at], values[at]].map(|v| format!("{v:?} ({:#010x})", v.to_bits()));
        return Err(format!(
            "element {element} of block {block} decodes to {found}, the vectors have {expected}; either \
             `dequantize` or they are wrong, and kernels give what it gives"
        ));
    }
    let mut decoded = vec![0.0; n_elems];
    let mut matters = |block: &[u8], values: &[f32], byte: usize| {
        let mut changed = block.to_vec();
        changed[byte] ^= 1;
        row.dequantize(&changed, &mut decoded).is_ok()
            && decoded.iter().zip(values).any(|(a, b)| !is_same(a, b))
    };
    let pairs = || blocks.chunks_exact(n_bytes).zip(values.chunks_exact(n_elems));
    match (0..n_bytes).find(|byte| !pairs().any(|(block, values)| matters(block, values, *byte))) {
        None => Ok(()),
        Some(byte) => Err(format!(
            "byte {byte} of a block may change in each of the {n_blocks} and no value does: `dequantize` does not \
             read it, or every block hides it, as a scale of zero would"
        )),
    }
}

/// Which NaN a product keeps is the processor's choice.
fn is_same(a: &f32, b: &f32) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Registry;

    #[test]
    fn what_vectors_do_not_show_is_named() {
        let registry = Registry::builtin();
        let row = registry.format_named("Q8_0").expect("a format");
        // Scales of 0.5 and of -0, the bytes 0 to 31 each.
        let block = |scale: [u8; 2]| scale.into_iter().chain(0..32).collect::<Vec<u8>>();
        let blocks = [block([0, 0x38]), block([0, 0x80])].concat();
        let mut values: Vec<f32> = (0..32).map(|q| q as f32 / 2.0).chain([-0.0; 32]).collect();
        assert_eq!(check_vectors(row, &blocks, &values), Ok(()));

        let why = |blocks: &[u8], values: &[f32]| check_vectors(row, blocks, values).expect_err("a fault");
        let hidden = why(&blocks[34..], &values[32..]);
        assert!(hidden.starts_with("byte 2 of a block may change in each of the 1 "), "{hidden}");
        assert!(why(&blocks[..33], &values).starts_with("33 bytes are no block of Q8_0, which has 34"));
        assert!(why(&blocks, &values[1..]).contains("68 bytes of Q8_0 do not hold 63 values"));
        values[33] = 0.0;
        let zero = why(&blocks, &values);
        let at = "element 1 of block 1 decodes to -0.0 (0x80000000), the vectors have 0.0 (0x00000000)";
        assert!(zero.starts_with(at), "{zero}");
    }
}
