//! From a GGUF file to text.
