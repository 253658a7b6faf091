//! The program `kiln` with one format more.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use kiln_kernels::Registry;
use kiln_ternary_format::Ternary;

fn main() -> ExitCode {
    match Registry::builtin().with::<Ternary>() {
        Ok(registry) => kiln_engine::cli(registry),
        Err(taken) => {
            eprintln!("{taken}");
            ExitCode::FAILURE
        }
    }
}
