//! Runs SPIR-V words on the CPU and checks them.
