//! The rope keys that architectures share.

use super::{Decline, Keys};
use crate::graph::{Rope, RopePairs};

/// Reads base, width and scaling for heads of `head_dim`; the pairing is the architecture's.
///
/// # Errors
/// Numbers that make no sense, and scalings other than none and linear.
pub fn read_rope(keys: &mut Keys, pairs: RopePairs, head_dim: usize) -> Result<Rope, Decline> {
    let theta = keys.number_or("rope.freq_base", 10_000.0)?;
    if theta <= 0.0 {
        return Err(keys.bad("rope.freq_base", theta, "a number above 0"));
    }
    let n_rot = keys.count_or("rope.dimension_count", head_dim)?;
    if n_rot > head_dim || n_rot % 2 == 1 {
        let expected = format!("an even number up to the head's width of {head_dim}");
        return Err(keys.bad("rope.dimension_count", n_rot, &expected));
    }
    // A factor without a type means linear; so does the key of older files.
    let scaling = keys.text("rope.scaling.type")?;
    let position_divisor = match scaling.as_deref() {
        Some("none") => 1.0,
        None | Some("linear") => {
            let older = keys.number_or("rope.scale_linear", 1.0)?;
            keys.number_or("rope.scaling.factor", older)?
        }
        Some(other) => return Err(keys.unsupported("rope.scaling.type", other, "this kind of rope scaling")),
    };
    if position_divisor <= 0.0 {
        return Err(keys.bad("rope.scaling.factor", position_divisor, "a number above 0"));
    }
    let attention_factor = keys.number_or("rope.scaling.attn_factor", 1.0)?;
    if attention_factor != 1.0 {
        return Err(keys.unsupported(
            "rope.scaling.attn_factor",
            attention_factor,
            "a rope attention factor",
        ));
    }
    Ok(Rope { pairs, n_rot, theta, position_divisor, factors: None })
}
