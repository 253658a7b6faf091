//! Running cargo, and adding up what test binaries report.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

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

/// Runs cargo on the sources in `folder`, with what it builds in `target` if they are not these sources: cargo takes
/// the same package at another path for the one it has built.
pub(crate) fn run_in(folder: &Path, target: Option<&Path>, args: &[&str]) -> Result<()> {
    let mut cargo = command(args);
    if let Some(target) = target {
        cargo.env("CARGO_TARGET_DIR", target);
    }
    process::run(cargo.current_dir(folder))
}

/// Runs cargo and returns what it prints.
pub(crate) fn capture(args: &[&str]) -> Result<String> {
    process::capture(&mut command(args))
}

/// Builds the workspace; returns the seconds that compiling the library of `package` took, if it was not built before.
pub(crate) fn build_timed(package: &str) -> Result<Option<f64>> {
    run(&["build", "--workspace", "--all-targets", "--timings"], &[])?;
    let metadata = process::capture(&mut command(&["metadata", "--no-deps", "--format-version=1"]))?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(|e| format!("cargo metadata: {e}"))?;
    let target = metadata["target_directory"].as_str().ok_or("cargo metadata names no target folder")?;
    let report = PathBuf::from(target).join("cargo-timings/cargo-timing.html");
    let page = std::fs::read_to_string(&report).map_err(|e| format!("{}: {e}", report.display()))?;
    library_seconds(&page, package).map_err(|why| format!("{}: {why}", report.display()))
}

/// Reads cargo's timing page: its list of compiled units, where a library's target is the empty string.
fn library_seconds(page: &str, package: &str) -> Result<Option<f64>> {
    let (_, after) = page.split_once("const UNIT_DATA = ").ok_or("expected a list of units, found none")?;
    let mut values = serde_json::Deserializer::from_str(after).into_iter::<Value>();
    let units = values.next().ok_or("expected a list of units, found none")?.map_err(|e| e.to_string())?;
    let units = units.as_array().ok_or("expected a list of units")?;
    let library = units.iter().find(|unit| unit["name"] == package && unit["target"] == "");
    library.map(|unit| unit["duration"].as_f64().ok_or("a unit has no duration".to_string())).transpose()
}

/// Runs `cargo test ARGS` and adds up its closing lines.
pub(crate) fn test(args: &[&str], env: &[(&str, OsString)]) -> (Counts, Result<()>) {
    let mut cargo = command(&["test", "--no-fail-fast"]);
    let mut out = std::io::stdout().lock();
    count(cargo.args(args).envs(env.iter().map(|(name, value)| (*name, value))), &mut out)
}

/// Shows and runs a command that prints test results, passing its output to `out`. The result is an error when the
/// command fails, whatever the counts say: a binary that crashes reports none.
fn count(command: &mut Command, out: &mut dyn Write) -> (Counts, Result<()>) {
    let shown = process::line(command);
    eprintln!("$ {shown}");
    let mut counts = Counts::default();
    let mut child = match command.stdout(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(e) => return (counts, Err(format!("`{shown}` failed: {e}"))),
    };
    if let Some(stdout) = child.stdout.take() {
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

/// A compiled test binary of the workspace.
pub(crate) struct Binary {
    pub(crate) package: String,
    /// The library's, program's or integration test's name.
    pub(crate) target: String,
    dir: PathBuf,
    path: PathBuf,
}

/// Compiles every test binary of the workspace. Selecting packages here would give their dependencies other features
/// and compile them again, so stages choose among the binaries instead.
pub(crate) fn binaries() -> Result<Vec<Binary>> {
    binaries_of(&["--workspace"])
}

/// Compiles the test binaries that these options of `cargo test` choose.
pub(crate) fn binaries_of(options: &[&str]) -> Result<Vec<Binary>> {
    let mut cargo = command(&["test", "--no-run", "--message-format=json-render-diagnostics"]);
    cargo.args(options);
    let shown = process::line(&cargo);
    eprintln!("$ {shown}");
    let output = cargo.stderr(Stdio::inherit()).output().map_err(|e| format!("`{shown}` failed: {e}"))?;
    if !output.status.success() {
        return Err(format!("`{shown}` failed: {}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(Binary::parse).collect())
}

impl Binary {
    /// A line of cargo's messages; `None` for what is no test binary.
    fn parse(message: &str) -> Option<Binary> {
        let message: Value = serde_json::from_str(message).ok()?;
        if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
            return None;
        }
        let manifest = PathBuf::from(message["manifest_path"].as_str()?);
        // `path+file:///…/abi#kiln-abi@0.1.0`
        let (_, id) = message["package_id"].as_str()?.rsplit_once('#')?;
        Some(Binary {
            package: id.split('@').next()?.to_string(),
            target: message["target"]["name"].as_str()?.to_string(),
            dir: manifest.parent()?.to_path_buf(),
            path: message["executable"].as_str()?.into(),
        })
    }

    /// Runs it as cargo would, through `launcher` when there is one, with these options of a test binary; what it prints
    /// goes to `out`.
    pub(crate) fn test(
        &self,
        launcher: Option<&std::path::Path>,
        options: &[&str],
        env: &[(&str, OsString)],
        out: &mut dyn Write,
    ) -> (Counts, Result<()>) {
        // A closed stdout must not stop the tests.
        let _ = writeln!(out, "\n     Running {} {}", self.package, self.target);
        let mut command = Command::new(launcher.unwrap_or(&self.path));
        if launcher.is_some() {
            command.arg(&self.path);
        }
        command
            .args(options)
            .current_dir(&self.dir)
            .env("CARGO_MANIFEST_DIR", &self.dir)
            .env("CARGO_PKG_NAME", &self.package);
        count(command.envs(env.iter().map(|(name, value)| (*name, value))), out)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{Binary, Counts, count, library_seconds};

    #[test]
    fn closing_lines_are_counted_and_others_are_not() {
        let ok =
            "test result: ok. 12 passed; 0 failed; 3 ignored; 0 measured; 1 filtered out; finished in 0.01s";
        assert_eq!(Counts::parse(ok), Some(Counts { passed: 12, failed: 0, ignored: 3 }));
        let bad = "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s";
        assert_eq!(Counts::parse(bad), Some(Counts { passed: 1, failed: 2, ignored: 0 }));
        assert_eq!(Counts::parse("test gguf::reads ... ok"), None);
    }

    #[test]
    fn a_program_that_is_killed_is_told_with_what_it_printed() {
        let run = |script: &str| {
            let mut out = Vec::new();
            let (counts, ended) = count(Command::new("sh").args(["-c", script]), &mut out);
            (counts.passed, ended, String::from_utf8(out).unwrap())
        };
        let (passed, ended, out) = run("echo 'test result: ok. 2 passed; 0 failed'; kill -9 $$");
        let why = ended.unwrap_err();
        assert!(why.starts_with("`sh -c ") && why.contains("` failed: signal: 9"), "{why}");
        assert_eq!((passed, out.as_str()), (2, "test result: ok. 2 passed; 0 failed\n"));
        assert_eq!(run("echo 'test result: ok. 2 passed; 0 failed'"), (2, Ok(()), out));
    }

    #[test]
    fn test_binaries_are_told_from_other_artifacts() {
        let message = |test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"path+file:///r/abi#kiln-abi@0.1.0","manifest_path":"/r/abi/Cargo.toml",
                "target":{{"name":"kiln_abi"}},"profile":{{"test":{test}}},"executable":"/t/kiln_abi-1"}}"#
            )
        };
        let binary = Binary::parse(&message(true)).unwrap();
        assert_eq!((binary.package.as_str(), binary.target.as_str()), ("kiln-abi", "kiln_abi"));
        assert!(Binary::parse(&message(false)).is_none());
        assert!(Binary::parse("Compiling").is_none());
    }

    #[test]
    fn the_library_is_found_among_timed_units() {
        let page = r#"<script>const UNIT_DATA = [
            {"name": "k", "target": " lib (test)", "duration": 9.5},
            {"name": "k", "target": "", "duration": 2.5}
        ];
        const X = 1;"#;
        assert_eq!(library_seconds(page, "k"), Ok(Some(2.5)));
        assert_eq!(library_seconds(page, "j"), Ok(None));
        assert!(library_seconds("<html>", "k").is_err());
    }
}
