//! Typed IR, its validator, and the writer that turns it into SPIR-V words.
//!
//! `Builder → Module → verify → VerifiedModule → lower → words + KernelLayout + SourceMap`
//!
//! Guards: only a [`VerifiedModule`](verify::VerifiedModule) can be lowered; the same IR gives the same words.
//! Never: sees the kernel language, a format, a model or Vulkan; iterates a hash map.
//!
//! Reading order: [`ir`], [`build`], [`layout`], [`matrix`], [`mod@compile`], [`verify`], [`lower`], [`disasm`], [`census`].
#![forbid(unsafe_code)]

pub mod access;
pub mod build;
pub mod census;
pub mod compile;
pub mod disasm;
mod fold;
pub mod ir;
pub mod layout;
pub mod lower;
pub mod matrix;
pub mod strip;
pub mod verify;
pub mod words;

pub use build::Builder;
pub use compile::compile;
