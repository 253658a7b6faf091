//! What a kernel imports.
