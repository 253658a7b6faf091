//! From a GGUF file to text.

pub mod chat;
pub mod forward;
pub mod gguf;
pub mod graph;
pub mod models;
pub mod reference;
pub mod sample;
pub mod tokenizer;
