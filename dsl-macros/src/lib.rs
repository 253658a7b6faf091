//! The macros of the kernel language: syntax only.
