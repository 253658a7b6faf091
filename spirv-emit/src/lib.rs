//! Typed IR, its validator and the SPIR-V writer.
