//! From a GGUF file to text: `gguf → models (a graph) → reference → sample → text`.
//!
//! Read [`session`] first, then `models/llama.rs`, then [`reference::math`].
//! Guards: a file is checked before anything in it is used, and what a model needs and we lack is a named
//! decline. Never: names a tensor format (the registry of `kiln-kernels` does), calls Vulkan.

#![deny(unsafe_code)]

pub mod bench;
pub mod chat;
mod cli;
pub mod forward;
pub mod gguf;
pub mod graph;
pub mod models;
pub mod plan;
pub mod record;
pub mod reference;
pub mod sample;
pub mod session;
mod size;
pub mod submit;
pub mod tokenizer;
pub mod upload;

pub use cli::cli;
