//! Golden disassembly of kernels.
