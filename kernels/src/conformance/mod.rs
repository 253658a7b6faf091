//! Launches with known answers, and the comparison every device has to pass.
//!
//! A kernel states its [`Case`]s beside its code; a registry row carries them; [`check`] runs one on any
//! [`Device`](kiln_abi::Device). A format or kernel defined in another crate gets the same suite by being in the
//! registry.

mod blocks;
mod bound;
mod case;
mod check;
mod format;
mod outcomes;
mod random;
mod vectors;

pub use blocks::{random_blocks, random_blocks_within};
pub use bound::{F16_ROUNDOFF, F32_ROUNDOFF, Roundings, gamma};
pub use case::{Buffer, Case, Content, Expected, f32_bytes, plain_step, u32_bytes};
pub use check::{Failure, Report, SENTINEL, check};
pub use format::check_format;
pub use outcomes::Outcomes;
pub use random::Random;
pub use vectors::check_vectors;
