//! The tensors of an architecture, listed and then held against a file.

use std::collections::HashMap;

use super::Decline;
use crate::graph::{TensorRole, TensorSpec};

/// Tables that converters wrote beside the weights and that a graph computes itself.
const DERIVED: &[&str] = &["rope_freqs_inv.weight", "attn_rot_embd.weight"];

/// Collects the tensors that an architecture has.
#[derive(Debug, Default)]
pub struct TensorList {
    specs: Vec<TensorSpec>,
    layer: Option<usize>,
}

impl TensorList {
    /// A tensor that every file has; `shape` is slowest dimension first.
    pub fn required(&mut self, role: TensorRole, stem: &str, shape: &[usize]) {
        self.push(role, stem, shape, false);
    }

    /// A tensor that some files have.
    pub fn optional(&mut self, role: TensorRole, stem: &str, shape: &[usize]) {
        self.push(role, stem, shape, true);
    }

    /// The tensors of each of `n` layers, named `blk.N.` and the stem.
    pub fn layers(&mut self, n: usize, mut list: impl FnMut(&mut Self)) {
        for layer in 0..n {
            self.layer = Some(layer);
            list(self);
        }
        self.layer = None;
    }

    fn push(&mut self, role: TensorRole, stem: &str, shape: &[usize], optional: bool) {
        let prefix = self.layer.map_or(String::new(), |layer| format!("blk.{layer}."));
        let suffix = if role == TensorRole::Bias { "bias" } else { "weight" };
        let name = format!("{prefix}{stem}.{suffix}");
        self.specs.push(TensorSpec { name, shape: shape.to_vec(), role, optional });
    }

    /// The listed tensors that `file` has, or every disagreement between the two.
    ///
    /// # Errors
    /// Missing, misshapen and unexpected tensors.
    pub fn check(
        self,
        file: Vec<(String, Vec<usize>)>,
        architecture: &'static str,
    ) -> Result<Vec<TensorSpec>, Vec<Decline>> {
        let mut declines = Vec::new();
        let mut found: HashMap<&str, &[usize]> =
            file.iter().map(|(name, shape)| (name.as_str(), shape.as_slice())).collect();
        let mut present = Vec::new();
        for spec in self.specs {
            match found.remove(spec.name.as_str()) {
                Some(shape) if shape == spec.shape => present.push(spec),
                Some(shape) => declines.push(Decline::WrongShape {
                    name: spec.name,
                    found: shape.to_vec(),
                    expected: spec.shape,
                }),
                None if spec.optional => {}
                None => declines.push(Decline::MissingTensor { name: spec.name }),
            }
        }
        // In the file's order, which a map does not keep.
        for (name, _) in &file {
            let derived = DERIVED.iter().any(|tail| name.ends_with(tail));
            if found.contains_key(name.as_str()) && !derived {
                declines.push(Decline::UnexpectedTensor { name: name.clone(), architecture });
            }
        }
        if declines.is_empty() { Ok(present) } else { Err(declines) }
    }
}
