//! The program `kiln` with the formats that come with it.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use kiln_kernels::Registry;

fn main() -> ExitCode {
    kiln_engine::cli(Registry::builtin())
}
