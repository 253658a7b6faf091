//! Running cargo, and adding up what its test binaries report.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use crate::process::{self, Result};

/// Sums over test binaries.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: Counts) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }

    /// The counts of a test binary's closing line; `None` for any other line.
    fn parse(line: &str) -> Option<Counts> {
        let rest = line.strip_prefix("test result: ")?;
        let mut counts = Counts::default();
        for part in rest.split([';', '.']) {
            if let Some((n, what)) = part.trim().split_once(' ') {
                let Ok(n) = n.parse::<u64>() else { continue };
                match what {
                    "passed" => counts.passed = n,
                    "failed" => counts.failed = n,
                    "ignored" => counts.ignored = n,
                    _ => {}
                }
            }
        }
        Some(counts)
    }
}

/// cargo without the variables that describe this very program, which would otherwise look like changes to rebuild for.
fn command(args: &[&str]) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&name);
        }
    }
    cargo.args(args);
    cargo
}

/// Runs cargo with these variables set.
pub(crate) fn run(args: &[&str], env: &[(&str, &str)]) -> Result<()> {
    process::run(command(args).envs(env.iter().copied()))
}

/// Runs `cargo test ARGS`, passing its output through, and adds up the closing lines. The result is an error when cargo
/// fails, whatever the counts say: a binary that crashes reports none.
pub(crate) fn test(args: &[&str], env: &[(&str, OsString)]) -> (Counts, Result<()>) {
    let mut cargo = command(&["test", "--no-fail-fast"]);
    cargo.args(args).envs(env.iter().map(|(name, value)| (*name, value)));
    cargo.stdout(Stdio::piped());
    let shown = format!("cargo test --no-fail-fast {}", args.join(" "));
    eprintln!("$ {shown}");
    let mut counts = Counts::default();
    let mut child = match cargo.spawn() {
        Ok(child) => child,
        Err(e) => return (counts, Err(format!("`{shown}` failed: {e}"))),
    };
    if let Some(stdout) = child.stdout.take() {
        let mut out = std::io::stdout().lock();
        for line in BufReader::new(stdout).split(b'\n').map_while(std::result::Result::ok) {
            let line = String::from_utf8_lossy(&line);
            // A closed stdout must not stop the tests.
            let _ = writeln!(out, "{line}");
            counts.add(Counts::parse(&line).unwrap_or_default());
        }
    }
    let ended = match child.wait() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{shown}` failed: {status}")),
        Err(e) => Err(format!("`{shown}` failed: {e}")),
    };
    (counts, ended)
}

#[cfg(test)]
mod tests {
    use super::Counts;

    #[test]
    fn closing_lines_are_counted_and_others_are_not() {
        let ok =
            "test result: ok. 12 passed; 0 failed; 3 ignored; 0 measured; 1 filtered out; finished in 0.01s";
        assert_eq!(Counts::parse(ok), Some(Counts { passed: 12, failed: 0, ignored: 3 }));
        let bad = "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s";
        assert_eq!(Counts::parse(bad), Some(Counts { passed: 1, failed: 2, ignored: 0 }));
        assert_eq!(Counts::parse("test gguf::reads ... ok"), None);
    }
}
