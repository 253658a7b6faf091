//! The rope keys that architectures share.

use super::{Decline, Keys};
use crate::graph::{Rope, RopePairs, RopeScaling};

/// Reads base, width and scaling for heads of `head_dim`; the pairing is the architecture's.
///
/// # Errors
/// Numbers that make no sense, and scalings other than none, linear and YaRN.
pub fn read_rope(keys: &mut Keys, pairs: RopePairs, head_dim: usize) -> Result<Rope, Decline> {
    let theta = read_theta(keys, "rope.freq_base")?;
    let n_rot = keys.count_or("rope.dimension_count", head_dim)?;
    if n_rot > head_dim || n_rot % 2 == 1 {
        let expected = format!("an even number up to the head's width of {head_dim}");
        return Err(keys.bad("rope.dimension_count", n_rot, &expected));
    }
    let (scaling, magnitude) = read_scaling(keys)?;
    if matches!(scaling, RopeScaling::Yarn { .. }) && theta <= 1.0 {
        return Err(keys.bad("rope.freq_base", theta, "a number above 1 with YaRN"));
    }
    let magnitude = magnitude * above_zero(keys, "rope.scaling.attn_factor", 1.0)?;
    Ok(Rope { pairs, n_rot, theta, scaling, magnitude, factors: None })
}

/// Reads a base of frequencies.
///
/// # Errors
/// A number that is none.
pub fn read_theta(keys: &mut Keys, name: &str) -> Result<f64, Decline> {
    above_zero(keys, name, 10_000.0)
}

/// The scaling, and what it multiplies cosine and sine by.
fn read_scaling(keys: &mut Keys) -> Result<(RopeScaling, f64), Decline> {
    // A factor without a type means linear; so does the key of older files.
    let kind = keys.text("rope.scaling.type")?;
    match kind.as_deref() {
        Some("none") => Ok((RopeScaling::Linear { factor: 1.0 }, 1.0)),
        None | Some("linear") => {
            let older = keys.number_or("rope.scale_linear", 1.0)?;
            Ok((RopeScaling::Linear { factor: above_zero(keys, "rope.scaling.factor", older)? }, 1.0))
        }
        Some("yarn") => {
            let factor = above_zero(keys, "rope.scaling.factor", 1.0)?;
            let n_ctx_train = keys.count("context_length")?;
            let scaling = RopeScaling::Yarn {
                factor,
                n_ctx_original: keys.count_or("rope.scaling.original_context_length", n_ctx_train)?,
                beta_fast: above_zero(keys, "rope.scaling.yarn_beta_fast", 32.0)?,
                beta_slow: above_zero(keys, "rope.scaling.yarn_beta_slow", 1.0)?,
            };
            Ok((scaling, 1.0 + 0.1 * factor.max(1.0).ln()))
        }
        Some(other) => Err(keys.unsupported("rope.scaling.type", other, "this kind of rope scaling")),
    }
}

fn above_zero(keys: &mut Keys, name: &str, default: f64) -> Result<f64, Decline> {
    let number = keys.number_or(name, default)?;
    if number > 0.0 { Ok(number) } else { Err(keys.bad(name, number, "a number above 0")) }
}
