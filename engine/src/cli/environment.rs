//! The environment variables that Kiln reads.

use std::io::Write;
use std::num::NonZeroUsize;

use kiln_abi::spirv::Capability;
use tracing::Level;

use super::options::{BASE, Without};
use super::{Failure, output};
use crate::reference::Threads;

const THREADS: &str = "KILN_THREADS";
const LOG: &str = "KILN_LOG";
const VALIDATION: &str = "KILN_VALIDATION";
const WITHOUT: &str = "KILN_WITHOUT";

/// Name, values, default and meaning of each.
const VARIABLES: &[(&str, &str, &str, &str)] = &[
    (THREADS, "a number from 1 up", "every core", "threads of the CPU reference"),
    (LOG, "error, warn, info, debug or trace", "warn", "how much is reported on standard error"),
    (WITHOUT, "as for --without", "none", "what devices have and Kiln shall do without"),
    (VALIDATION, "0 or 1", "0", "Vulkan's validation layer; a message of its fails the command"),
    ("KILN_CACHE", "a folder", "kiln in XDG_CACHE_HOME or ~/.cache", "where compiled pipelines are kept"),
];

/// `kiln --help-env`.
pub(super) fn print() -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    for (name, values, default, meaning) in VARIABLES {
        writeln!(out, "{name:<16} {meaning}\n{:<16} {values}; default: {default}", "").map_err(output)?;
    }
    Ok(())
}

/// Threads for the reference.
pub(super) fn threads() -> Result<Threads, Failure> {
    let parse = |text: &str| text.parse::<NonZeroUsize>().ok().filter(|n| n.get() <= 1024);
    Ok(Threads::new(read(THREADS, "a number of 1 to 1024", parse)?))
}

/// Whether Vulkan's validation layer is asked for.
pub(super) fn validation() -> Result<bool, Failure> {
    let parse = |text: &str| match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    };
    Ok(read(VALIDATION, "0 or 1", parse)?.unwrap_or(false))
}

/// What to do without on every device.
pub(super) fn without() -> Result<Vec<Without>, Failure> {
    let parse = |text: &str| text.split(',').map(str::parse).collect::<Result<Vec<Without>, _>>().ok();
    let base = BASE.map(Capability::name).join(" and ");
    let expected = format!(
        "f16, dot4, khr, cm2 or capabilities by SPIR-V's names, separated by commas; no kernel can do without {base}"
    );
    Ok(read(WITHOUT, &expected, parse)?.unwrap_or_default())
}

/// What is worth reporting.
pub(super) fn log_level() -> Result<Level, Failure> {
    let level = read(LOG, "error, warn, info, debug or trace", |text| text.parse().ok())?;
    Ok(level.unwrap_or(Level::WARN))
}

/// The value of a variable that is set and not empty.
fn read<T>(name: &str, expected: &str, parse: impl Fn(&str) -> Option<T>) -> Result<Option<T>, Failure> {
    let Some(value) = std::env::var_os(name).filter(|value| !value.is_empty()) else { return Ok(None) };
    let parsed = value.to_str().and_then(parse);
    let failure = || Failure::Usage(format!("{name} is {value:?}, expected {expected}"));
    parsed.map(Some).ok_or_else(failure)
}
