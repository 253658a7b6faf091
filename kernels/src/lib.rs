//! Formats, kernels and their registry.
