//! Repository commands: `cargo xtask <command>`.
fn main() {}
