//! Plain-Rust references in f64, written apart from the kernels.
//!
//! Each returns the exact result (up to f64) and, per output, the bound that the kernel's counted f32 roundings
//! explain.

mod add;
mod attention;
mod attention_halves;
mod fragment_order;
mod gemv;
mod glu;
pub mod kv;
mod late;
mod philox;
mod product;
mod rms_norm;
mod rope;
mod sample;
mod scale;
mod soft_cap;

use crate::conformance::{Content, Expected, F32_ROUNDOFF, gamma};

pub use add::add;
pub use attention::{AttentionShape, attention, attention_parts, joined_parts};
pub use attention_halves::attention_of_halves;
pub use fragment_order::fragment_order;
pub use gemv::{Rows, gated, gemv};
pub use glu::glu;
pub use late::{late, scaled, squares};
pub use philox::{draw, philox4x32, uniform};
pub use product::{half_error, product, product_of_halves};
pub use rms_norm::{moved, rms_norm};
pub use rope::rope;
pub use sample::{Candidate, Penalties, choose, min_p, penalize, pick, top_k, top_p};
pub use scale::scale;
pub use soft_cap::soft_cap;

/// Values and, for each, the largest difference that roundings explain.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bounded {
    /// The exact results.
    pub values: Vec<f64>,
    /// The bounds.
    pub bounds: Vec<f64>,
}

impl Bounded {
    /// With one f32 addition more.
    pub fn plus(mut self, addends: impl Iterator<Item = f32>) -> Self {
        for ((value, bound), addend) in self.values.iter_mut().zip(&mut self.bounds).zip(addends) {
            *value += f64::from(addend);
            *bound += (value.abs() + *bound) * gamma(1, F32_ROUNDOFF);
        }
        self
    }

    /// In an output with places that keep what they hold: those are given, the results fill the others in order.
    pub fn spread(self, places: impl Iterator<Item = Option<f32>>) -> Self {
        let mut own = self.values.into_iter().zip(self.bounds);
        let place = |kept: Option<f32>| match kept {
            Some(kept) => Some((f64::from(kept), 0.0)),
            None => own.next(),
        };
        let (values, bounds) = places.map_while(place).unzip();
        Bounded { values, bounds }
    }

    /// As what output `binding` of a case must hold.
    pub fn at(self, binding: usize) -> Expected {
        Expected { binding, content: Content::Near { values: self.values, bounds: self.bounds } }
    }
}
